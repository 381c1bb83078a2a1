"""Train A3C agents, score them, keep the good ones in the zoo and publish them."""

import dataclasses
import json
import os
import shutil
import signal
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import tyro
from pydantic import TypeAdapter, ValidationError
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm
from tyro.conf import Positional

import zoo
from a3c_core.checkpoint import RECIPE, RESUME, load_agent
from a3c_core.devices import encoder_dtype
from a3c_core.envs import Protocol, is_atari, register_env, register_module, spaces_of
from a3c_core.evaluation import Score, evaluate
from a3c_core.recipe import Phase, Recipe, mistakes
from training.compare import compare, comparison_of, missing, read_trials
from training.defaults import recipe_for
from training.diagnostics import Diagnostics
from training.engine import Cluster, Compression, WorkerDied
from training.keep import average_of, better_weights, keep
from training.log import words
from training.recipes import RECIPES
from training.run import train
from training.schedule import command_of, parts_of, saved_run, schedule_json
from training.search import plan as plan_of_study
from training.search import read_results, read_study, report, search
from training.widen import widen_run
from zoo.entry import homes, write_entry
from zoo.program import program

RUNS = Path("runs")
CONFIG = (tyro.conf.CascadeSubcommandArgs, tyro.conf.OmitArgPrefixes)


Name = Annotated[str | None, tyro.conf.arg(metavar="{" + ",".join(RECIPES) + "}")]
Import = Annotated[str | None, tyro.conf.arg(name="import")]
Actions = Literal["greedy", "sampled"]


def train_(
    name: Positional[Name] = None,
    /,
    *,
    recipe: Annotated[Recipe, tyro.conf.arg(name="")],
    out: Path | None = None,
    resume: Path | None = None,
    stop_at: int | None = None,
    evaluate_every: int | None = None,
    evaluate_actions: Actions = "greedy",
    cluster: str | None = None,
    compression: Compression = "float32",
    max_staleness: int | None = None,
    import_: Import = None,
) -> None:
    """Train an agent: `train NAME` by a built-in recipe, `train --env ID` in any Gymnasium environment.

    Ctrl-C stops the training early and keeps a checkpoint.

    Args:
        name: the recipe; every number of it is an option.
        recipe: what to train.
        out: directory for checkpoint, log.jsonl and TensorBoard events; by default a new one in runs/.
        resume: continue the run in this directory, with its own recipe; options given beside it change that recipe.
            A downloaded agent can be continued too, in its own directory and with a fresh optimizer.
        stop_at: stop after this many steps. The learning rate falls as if the run went on; --resume continues it.
        evaluate_every: play 20 games each time this many steps have passed, while training goes on and with separate
            seeds; the best checkpoint is kept in the directory best/ of the run.
        evaluate_actions: play these games with greedy actions or with actions sampled from the policy; choose those
            that the agent will be scored with.
        cluster: run the workers on a Ray cluster, one on each core: local starts one on this machine, auto finds the
            one that this machine belongs to, HOST:PORT names one.
        compression: with --cluster, the number type in which gradients and weights are sent; 16 bits halve the traffic.
        max_staleness: with --cluster, drop gradients that are more than this many updates behind.
        import_: a module of your own to import first; it registers environments or encoders.
    """
    recipe = dataclasses.replace(recipe, env=plain_id(recipe.env))
    for option, steps in {"--stop-at": stop_at, "--evaluate-every": evaluate_every}.items():
        if steps is not None and steps < 1:
            raise ValueError(f"{option} must be at least 1 step")
    if resume and out:
        raise ValueError("a resumed run goes on in its own directory: give --resume or --out, not both")
    run_training(
        recipe,
        resume or out or new_directory(recipe),
        resume=resume is not None,
        stop_at=stop_at,
        evaluate_every=evaluate_every,
        evaluate_actions=evaluate_actions,
        cluster=cluster_of(cluster, compression, max_staleness),
    )


def cluster_of(address: str | None, compression: Compression, max_staleness: int | None) -> Cluster | None:
    """What the options of `train_` say of a cluster. Raises ValueError for options that need one."""
    if address is not None:
        return Cluster(address=address, compression=compression, max_staleness=max_staleness)
    if compression != "float32" or max_staleness is not None:
        raise ValueError("--compression and --max-staleness are for workers on a cluster: give --cluster too")
    return None


class Rent(NamedTuple):
    """What is rented, and how."""

    flavor: str = "cpu-upgrade"
    """the kind of machine; a wrong name lists all, with their prices."""
    machines: int = 1
    """how many; several are a Ray cluster, whose first machine holds the shared weights."""
    hours: float = 1.0
    """after which the machines are taken away. The run ends just before, and can be resumed."""
    attempts: int = 2
    """how often a job is started at most, where its machine is taken away or it fails. It goes on from the last
    checkpoint on the Hub."""
    namespace: str | None = None
    """the user or organization that pays; by default you."""
    repo: str | None = None
    """the private repository for checkpoint and log; by default NAMESPACE/a3c-runs."""
    dry_run: bool = False
    """tell what it would do and cost, and rent nothing."""
    yes: bool = False
    """rent without asking."""
    follow: str | None = None
    """follow a job that was started before, by its id, and bring its run home."""
    cancel: str | None = None
    """cancel a job by its id, with all machines of its training, and bring its run home."""


def submit_(
    name: Positional[Name] = None,
    /,
    *,
    recipe: Annotated[Recipe, tyro.conf.arg(name="")],
    rent: Annotated[Rent, tyro.conf.arg(name="")],
    resume: Path | None = None,
    stop_at: int | None = None,
    evaluate_every: int | None = None,
    evaluate_actions: Actions = "greedy",
    compression: Compression = "float32",
    max_staleness: int | None = None,
) -> None:
    """Train on rented machines, which are Hugging Face Jobs and cost money: `submit NAME --flavor FLAVOR`.

    What it would do and cost is told first, and asked for. The log is followed, and at the end checkpoint and log are
    brought into runs/. Ctrl-C asks whether to leave it running or to cancel it.

    Args:
        name: the recipe; every number of it is an option.
        recipe: what to train.
        rent: what is rented, and how.
        resume: go on with the run in this directory, under its name.
        stop_at: stop after so many steps.
        evaluate_every: play 20 games whenever so many steps have passed; the best checkpoint is kept in best/.
        evaluate_actions: play these games with greedy actions or with actions sampled from the policy.
        compression: with several machines, the type in which gradients and weights travel.
        max_staleness: with several machines, drop gradients that are more updates behind than this.
    """
    from training import submit  # training needs no client of the Hub
    from training.rented import Order
    from zoo import hub, jobs

    if rent.follow or rent.cancel:
        job = jobs.look(rent.follow or rent.cancel)
        if rent.cancel:
            submit.cancel(job)
        submit.attend(job, RUNS, asked=asked)
        return
    recipe = dataclasses.replace(recipe, env=plain_id(recipe.env))
    spaces_of(recipe.phase(0))  # raises where the environment, or a package that it needs, is not there
    owner = rent.namespace or hub.account()
    order = Order(
        owner=owner,
        repo=rent.repo or f"{owner}/a3c-runs",
        run=resume.resolve().name if resume else submit.new_name(recipe),
        recipe=recipe,
        machines=rent.machines,
        hours=rent.hours,
        stop_at=stop_at,
        evaluate_every=evaluate_every,
        evaluate_actions=evaluate_actions,
        compression=compression,
        max_staleness=max_staleness,
    )
    offer = submit.offer(order, rent.flavor, attempts=rent.attempts, resume=resume)
    print(submit.described(offer), flush=True)
    if rent.dry_run:
        return
    if not (rent.yes or asked("rent it?")):
        raise SystemExit("nothing was rented" + ("" if sys.stdin.isatty() else ": add --yes, or answer at a terminal"))
    job = submit.start(offer)
    print(f"job {job.name} is started: {job.url}", flush=True)
    submit.attend(job, RUNS, asked=asked)


def asked(question: str) -> bool:
    """Whether somebody at the terminal says yes."""
    if not sys.stdin.isatty():
        return False
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False
    finally:
        signal.signal(signal.SIGINT, before)


def repeat_(
    agent: Positional[str], /, *, seed: int | None = None, out: Path | None = None, dry_run: bool = False
) -> None:
    """Train an agent again from scratch, through all phases of its training.

    Workers are asynchronous, so no two trainings are the same: this repeats the recipe, not the weights. Abandoned
    branches of the training are not repeated.

    Args:
        agent: an agent of the zoo, a repository user/name on the Hugging Face Hub, or a directory that training wrote.
        seed: a seed other than the agent's.
        out: directory for checkpoint, log.jsonl and TensorBoard events; by default a new one in runs/.
        dry_run: print the phases and train nothing.
    """
    recipe, end = training_of(agent)
    recipe = recipe if seed is None else dataclasses.replace(recipe, seed=seed)
    if dry_run:
        print(plan(recipe, end))
    else:
        run_training(recipe, out or new_directory(recipe), stop_at=end)


def training_of(agent: str) -> tuple[Recipe, int]:
    """The recipe of an agent's whole training, and the steps at which it was stopped. Raises as `zoo.load`."""
    if Path(agent).is_dir() and agent not in zoo.entries():
        saved = saved_run(Path(agent))
        return saved.recipe, saved.steps
    entry = zoo.find(agent)
    return entry.whole, entry.score.steps


def plan(recipe: Recipe, end: int) -> str:
    """What a training would do: a line for each phase, with its steps and changes."""
    parts = parts_of(recipe, end=end)
    lines = [f"{recipe.env}, {parts[-1].end:,} steps in {len(parts)} {'phases' if len(parts) > 1 else 'phase'}"]
    for part in parts:
        changes = (
            ", ".join(f"{name}={value}" for name, value in part.changes.items()) or "all settings at their defaults"
        )
        fresh = ", fresh optimizer" if part.fresh_optimizer else ""
        first, last = part.recipe.learning_rate_at(part.start), part.recipe.learning_rate_at(part.end)
        lines.append(
            f"  steps {part.start:,} to {part.end:,}, learning rate {first:.3g} to {last:.3g}{fresh}: {changes}"
        )
    return "\n".join(lines)


def run_training(
    recipe: Recipe,
    directory: Path,
    *,
    resume: bool = False,
    stop_at: int | None = None,
    evaluate_every: int | None = None,
    evaluate_actions: Actions = "greedy",
    cluster: Cluster | None = None,
) -> None:
    """Trains with a progress bar. Ctrl-C ends early and keeps what was learnt."""
    spaces_of(recipe.phase(0))  # raises where the environment, or a package that it needs, is not there
    if resume and any(directory.resolve().is_relative_to(home.weights.resolve()) for home in homes()):
        raise ValueError(f"{directory} belongs to the zoo, and training would change it: copy it, and resume the copy")
    print(f"training {recipe.env} in {directory}, the encoder in {encoder_name(recipe)}", flush=True)
    if resume and (directory / RECIPE).exists() and not (directory / RESUME).exists():
        print(f"there is no {RESUME} in it: the optimizer starts afresh", flush=True)
    progress, signs = None, Diagnostics()
    ends = {
        "stop": _interrupted.is_set,
        "stop_at": stop_at,
        "evaluate_every": evaluate_every,
        "evaluate_greedy": evaluate_actions == "greedy",
        "cluster": cluster,
    }
    terminal = sys.stderr.isatty()
    bar = tqdm(
        total=min(recipe.last_step, stop_at or recipe.last_step),
        unit=" steps",
        unit_scale=True,
        dynamic_ncols=True,
        mininterval=0.1 if terminal else 30,
    )
    try:
        running = train(recipe, directory, resume=resume, **ends)
        with bar, logging_redirect_tqdm(), closing(running):
            for progress in running:
                for ailment in signs.check(progress):
                    tqdm.write(f"WARNING: {ailment}", file=sys.stderr)
                if resume and not bar.n:
                    bar.initial = bar.n = bar.last_print_n = progress.steps
                bar.set_postfix_str(words(progress.mean_return), refresh=False)
                bar.update(min(progress.steps, bar.total) - bar.n)
        if _interrupted.is_set():
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        kept = f"the checkpoint is in {directory}, continue with --resume {directory}"
        print(f"stopped: {kept if (directory / RESUME).exists() else 'nothing was learnt yet'}", file=sys.stderr)
        raise SystemExit(130) from None
    print(
        f"{progress.steps:,} steps in {progress.seconds:.1f} s, {progress.episodes:,} episodes, "
        f"{words(progress.mean_return)}\nscore it:  {program('training')} evaluate {directory}"
    )


def encoder_name(recipe: Recipe) -> str:
    """What the workers' encoders compute with, in words."""
    used = str(encoder_dtype(recipe)).removeprefix("torch.")
    return used if used == recipe.precision else f"{used} (this machine has no fast {recipe.precision})"


def new_directory(recipe: Recipe) -> Path:
    """A directory in runs/ that is not there yet."""
    stem = f"{recipe.env.removeprefix('ALE/')}-seed{recipe.seed}"
    return next(path for n in range(1, 10**6) if not (path := RUNS / f"{stem}-{n}").exists())


def search_(
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
    print(plan_of_study(what, steps_per_second=steps_per_second), flush=True)
    if dry_run:
        return
    for result in search(what, directory, stop=_interrupted.is_set):
        print(json.dumps(dataclasses.asdict(result)), flush=True)
    if _interrupted.is_set():
        raise KeyboardInterrupt
    table = report(what, read_results(directory))
    (directory / "table.md").write_text(table, encoding="utf-8")
    print(table, end="")


def compare_(
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
        for trial in compare(comparison, directory, stop=_interrupted.is_set):
            speed = f"{trial.steps_per_second:,.0f} steps/s"
            tqdm.write(
                f"{trial.cell}: {trial.seconds:.1f} s, {speed}, "
                f"staleness {trial.staleness:.2f}, score {trial.score:.1f}"
            )
            bar.update()
    if _interrupted.is_set():
        raise KeyboardInterrupt


def widen_(run: Positional[Path], /, *, out: Path) -> None:
    """Give an agent a network with twice the filters and units that plays exactly the same, to train it further.

    Args:
        run: a directory with an agent whose encoder is a3c.
        out: a directory for the widened agent, with the run's schedule, log and snapshots.
    """
    widen_run(run, out)
    print(f"{out} holds the agent, with a3c_wide\ntrain it:  {program('training')} train --resume {out} --steps STEPS")


def evaluate_(
    agent: Positional[str],
    /,
    *,
    episodes: int = 100,
    first_seed: int = 0,
    protocol: Protocol = "classic",
    actions: zoo.Actions = "recorded",
    average: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    import_: Import = None,
) -> None:
    """Score an agent over many games, each with a seed that no training uses.

    Args:
        agent: an agent of the zoo, or a directory that training wrote.
        episodes: how many games.
        first_seed: seed of the first game; the others follow.
        protocol: rules for Atari games: classic, or sticky, which repeats the previous action with probability 0.25.
        actions: greedy, sampled from the policy, or recorded: as the agent's entry in the zoo says.
        average: score the averaged weights of a run that was trained with an average_decay.
        as_json: print JSON, with every game's return.
        import_: a module of your own to import first; it registers environments or encoders.
    """
    if import_:
        register_module(import_)
    if average:
        agent = str(average_of(Path(agent)))
    with tqdm(total=episodes, unit=" games", disable=not sys.stderr.isatty()) as bar:
        score = evaluate(
            zoo.load(agent),
            episodes,
            greedy=zoo.is_greedy(agent, actions),
            protocol=protocol,
            first_seed=first_seed,
            progress=lambda finished: bar.update(finished - bar.n),
        )
    if as_json:
        print(json.dumps(score_record(agent, score)))
    else:
        print(f"{agent}: {score.mean:.2f} ± {score.std:.2f} on {score.env} ({score.conditions})")


def score_record(agent: str, score: Score) -> dict[str, object]:
    """A score as `evaluate --json` prints it."""
    return {
        "agent": agent,
        "env": score.env,
        "mean": score.mean,
        "std": score.std,
        "standard_error": score.standard_error,
        "median": score.median,
        "best": score.best,
        "protocol": score.protocol,
        "greedy": score.greedy,
        "first_seed": score.first_seed,
        "episodes": len(score.returns),
        "steps": score.steps,
        "returns": list(score.returns),
    }


def keep_(
    run: Positional[Path],
    /,
    *,
    name: str,
    summary: str | None = None,
    limits: str = "",
    command: str = "",
    episodes: int | None = None,
    actions: Actions = "greedy",
    average: bool = False,
    force: bool = False,
    import_: Import = None,
) -> None:
    """Score a run and add its agent to the zoo, if it beats the zoo's agent of that name.

    Args:
        run: a directory that training wrote.
        name: the agent's name in the zoo.
        summary: one line about the agent.
        limits: what the agent does badly, in a few sentences.
        command: the command that trained it; by default it is worked out from the run's recipe.
        episodes: how many games to score it over; by default 1000, for Atari 100 under each protocol.
        actions: score it with greedy actions or with actions sampled from the policy; its entry records which.
        average: keep the run's averaged weights if they score better than its last ones.
        force: replace an agent that scores better.
        import_: a module of your own to import first; it registers environments or encoders.
    """
    if import_:
        register_module(import_)
    recipe = load_agent(run).recipe
    command = command or command_of(name, saved_run(run).recipe)
    episodes = episodes or (100 if is_atari(recipe.env) else 1000)
    if average:
        run = better_weights(run, episodes, greedy=actions == "greedy")
    with tqdm(total=episodes, unit=" games", disable=not sys.stderr.isatty()) as bar:
        entry = keep(
            run,
            name,
            summary=summary,
            limits=limits,
            command=command,
            episodes=episodes,
            greedy=actions == "greedy",
            force=force,
            progress=lambda finished: bar.update(finished - bar.n),
        )
    print(f"{entry.name}: {entry.score.mean:.2f} ± {entry.score.std:.2f}, kept in {entry.directory}")


def publish_(
    agent: Positional[str | None] = None,
    /,
    *,
    namespace: str | None = None,
    private: bool = False,
    dry_run: bool = False,
    all_: Annotated[bool, tyro.conf.arg(name="all")] = False,
    name: str | None = None,
    summary: str | None = None,
    actions: Actions = "greedy",
    episodes: int | None = None,
    import_: Import = None,
) -> None:
    """Check an agent's score by playing its games again, then publish it on the Hugging Face Hub.

    The repository holds weights, card, video and snapshots.

    Args:
        agent: an agent of the zoo, or a directory that training wrote.
        namespace: the user or organization to publish as; by default A3C_ZOO_NAMESPACE.
        private: make the repository private.
        dry_run: write the repository into runs/publish and upload nothing.
        all_: publish every agent of the zoo, and a collection of them.
        name: the name of an agent from a directory; by default the name of its environment's recipe. The repository
            is called a3c-ENVIRONMENT, or a3c-ENVIRONMENT-NAME for any other name.
        summary: one line about an agent from a directory.
        actions: play an agent from a directory with greedy actions or with actions sampled from the policy.
        episodes: how many games to play; by default all games of its recorded score, for a directory 100.
        import_: a module of your own to import first; it registers environments or encoders.
    """
    from training.publish import Publication, assemble, publish  # training needs no client of the Hub
    from zoo import hub

    if import_:
        register_module(import_)
    if all_ == (agent is not None):
        raise ValueError("name one agent or directory to publish, or --all")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # the video is drawn into arrays
    namespace, known = hub.namespace_of(namespace), zoo.entries()
    repos = []
    for choice in known if all_ else [agent]:
        with tqdm(unit=" games", disable=not sys.stderr.isatty()) as bar:
            said = {"episodes": episodes, "progress": lambda finished, bar=bar: bar.update(finished - bar.n)}
            if choice in known:
                publication = Publication.of_entry(known[choice], **said)
            else:
                greedy = actions == "greedy"
                publication = Publication.of_run(Path(choice), name, summary=summary, greedy=greedy, **said)
        repos.append(hub.repository_of(publication.entry.name, publication.entry.recipe.env, namespace))
        if dry_run:
            folder = RUNS / "publish" / repos[-1].split("/")[1]
            shutil.rmtree(folder, ignore_errors=True)
            assemble(publication, repos[-1], folder)
            print(f"{folder} holds the files for {repos[-1]}; nothing was uploaded")
        else:
            published = publish(publication, repos[-1], private=private)
            if choice in known:
                write_entry(dataclasses.replace(known[choice], published=published))
            print(f"{repos[-1]} is published, commit {published.revision}")
    if all_ and not dry_run:
        print(f"collection {hub.collect(namespace, 'A3C Arcade', repos)}")


class Base(NamedTuple):
    """The options of `train_` and `submit_`, for a first look at which recipe they begin with."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    names: Positional[tuple[str, ...]] = ()
    """At most one. tyro reads an optional one as "[]" where an option follows that it does not know, as --help."""
    out: Path | None = None
    resume: Path | None = None
    stop_at: int | None = None
    evaluate_every: int | None = None
    evaluate_actions: Actions = "greedy"
    cluster: str | None = None
    compression: Compression = "float32"
    max_staleness: int | None = None
    import_: Import = None
    rent: Annotated[Rent, tyro.conf.arg(name="")] = Rent()


def base_recipe(argv: list[str]) -> Recipe:
    """The recipe whose numbers are the defaults of the options: the named one, that of a run to resume or of an
    environment.

    Raises ValueError where the options name none of them.
    """
    nothing = Base(Recipe(env=""))
    given, _ = tyro.cli(
        Base, args=argv, default=nothing, add_help=False, return_unknown_args=True, config=CONFIG, registry=SCHEDULES
    )
    name = given.names[0] if given.names else None
    if name not in (None, *RECIPES):
        raise ValueError(f"unknown recipe {name!r}: choose one of {', '.join(RECIPES)}, or give --env ID")
    if given.import_:
        register_module(given.import_)
    if given.resume:
        saved = saved_run(given.resume)
        resumed = dataclasses.replace(saved.in_force, schedule=saved.recipe.schedule[saved.phase :])
        if name and RECIPES[name].env != resumed.env:
            raise ValueError(f"{given.resume} plays {resumed.env}, not {RECIPES[name].env}: leave the name out")
        return resumed
    if name:
        return RECIPES[name]
    if given.rent.follow or given.rent.cancel:
        return Recipe()
    if given.recipe.env:
        return recipe_for(plain_id(given.recipe.env))
    if {"-h", "--help"} & set(argv):
        return Recipe()
    raise ValueError(f"name a recipe ({', '.join(RECIPES)}), an environment (--env ID) or a run (--resume RUN)")


def plain_id(env: str) -> str:
    """The id of an environment that --env names; module:id imports and registers it."""
    return register_env(env) if ":" in env else env


SCHEDULES = tyro.constructors.ConstructorRegistry()
"""How the command line reads a schedule: as JSON, like recipe.json has it."""


@SCHEDULES.primitive_rule
def _schedule(
    kind: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[tuple[Phase, ...]] | None:
    if kind.type != tuple[Phase, ...]:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda words: TypeAdapter(tuple[Phase, ...]).validate_json(words[0], strict=True),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda schedule: [schedule_json(schedule)],
    )


_interrupted = threading.Event()
"""Set by a Ctrl-C, since the exception gets lost where Python happens to be in a finalizer."""


def _interrupt(*_: object) -> None:
    """The first Ctrl-C or polite kill ends a run; the next ones would only spoil the checkpoint that it writes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _interrupted.set()
    raise KeyboardInterrupt


def main(argv: list[str]) -> None:
    """Parses the command line; known errors end in one sentence."""
    _interrupted.clear()
    for polite in (signal.SIGINT, signal.SIGTERM):
        signal.signal(polite, _interrupt)
    try:
        recipe = base_recipe(argv[1:]) if argv[:1] in (["train"], ["submit"]) else Recipe()
        commands = {
            "train": partial(train_, recipe=recipe),
            "submit": partial(submit_, recipe=recipe, rent=Rent()),
            "repeat": repeat_,
            "search": search_,
            "compare": compare_,
            "widen": widen_,
            "evaluate": evaluate_,
            "keep": keep_,
            "publish": publish_,
        }
        tyro.extras.subcommand_cli_from_dict(
            commands, prog=program("training"), description=__doc__, args=argv, config=CONFIG, registry=SCHEDULES
        )
    except ValidationError as error:
        raise SystemExit(f"error: {mistakes(error)}") from None
    except (ValueError, OSError, ImportError, WorkerDied) as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        print("stopped: run the same command again to start over; `search` and `compare` continue", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main(sys.argv[1:])
