"""`search` and `compare`: many trainings, and what they say together."""

import dataclasses
import json
from pathlib import Path

from tqdm import tqdm
from tyro.conf import Positional

from training.commands.interrupt import interrupted
from training.commands.options import RUNS
from training.compare import compare, comparison_of, missing, read_trials
from training.search import plan, read_results, read_study, report, search


def search_command(
    study: Positional[Path], /, *, out: Path | None = None, dry_run: bool = False, steps_per_second: float = 1500.0
) -> None:
    """Compare settings of recipes by successive halving: train all for a while, and only the best for longer.

    Nothing is lost by Ctrl-C or a kill: run the same command again to continue.

    Args:
        study: a JSON file that says what to compare, as training/studies/atari.json does.
        out: directory for the trainings, results.jsonl and table.md; by default runs/search-NAME, named after the file.
        dry_run: print what it would do and train nothing.
        steps_per_second: the speed of training that --dry-run assumes.
    """
    what, directory = read_study(study), out or RUNS / f"search-{study.stem}"
    print(plan(what, steps_per_second=steps_per_second), flush=True)
    if dry_run:
        return
    for result in search(what, directory, stop=interrupted.is_set):
        print(json.dumps(dataclasses.asdict(result)), flush=True)
    if interrupted.is_set():
        raise KeyboardInterrupt
    table = report(what, read_results(directory))
    (directory / "table.md").write_text(table, encoding="utf-8")
    print(table, end="")


def compare_command(
    what: Positional[str],
    /,
    *,
    workers: str | None = None,
    total_envs: int | None = None,
    handover: str | None = None,
    seeds: int | None = None,
    steps: int | None = None,
    episodes: int | None = None,
    out: Path | None = None,
    dry_run: bool = False,
) -> None:
    """Compare A3C with A2C: train one recipe with several numbers of workers and ways to hand gradients over.

    Trainings run one at a time because they are timed: run nothing else meanwhile. After Ctrl-C or a kill, which lose
    only the training that is running, run the same command again to continue.

    Args:
        what: name of a built-in recipe, or a JSON file that also names settings to compare, like
            training/studies/ablations_cartpole.json. Options override what the file says.
        workers: numbers of workers, which share the environments; by default 1,2,4,8.
        total_envs: environments of all workers together; by default 8.
        handover: ways to hand gradients over, by default all. With one worker there is no difference, so it is trained
            once per seed.
        seeds: trainings of each combination, each with a seed of its own; by default 10.
        steps: steps of each training; by default 120,000 for cartpole, else 1,000,000.
        episodes: greedy games of each final score; by default 20.
        out: directory for results.jsonl; by default runs/compare-WHAT.
        dry_run: list the trainings and run none.
    """
    options = {
        "workers": workers and tuple(dict.fromkeys(workers.split(","))),
        "total_envs": total_envs,
        "handovers": handover and tuple(dict.fromkeys(handover.split(","))),
        "seeds": seeds,
        "steps": steps,
        "episodes": episodes,
    }
    comparison = comparison_of(what, {name: value for name, value in options.items() if value is not None})
    directory = out or RUNS / f"compare-{Path(what).stem}"
    due = missing(comparison, read_trials(directory))
    print(f"{len(due)} of {len(comparison.cells())} trainings of {comparison.steps:,} steps to run", flush=True)
    if dry_run:
        print("\n".join(f"  {cell}" for cell in due))
        return
    with tqdm(total=len(comparison.cells()), initial=len(comparison.cells()) - len(due), unit=" trainings") as bar:
        for trial in compare(comparison, directory, stop=interrupted.is_set):
            speed = f"{trial.steps_per_second:,.0f} steps/s"
            tqdm.write(
                f"{trial.cell}: {trial.seconds:.1f} s, {speed}, "
                f"staleness {trial.staleness:.2f}, score {trial.score:.1f}"
            )
            bar.update()
    if interrupted.is_set():
        raise KeyboardInterrupt
