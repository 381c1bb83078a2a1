"""`train` and `repeat`: a training on this machine, or on a cluster."""

import dataclasses
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import torch
import tyro
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm
from tyro.conf import Positional

import zoo
from a3c_core.checkpoint import RECIPE, RESUME
from a3c_core.devices import encoder_dtype
from a3c_core.envs import spaces_of
from a3c_core.recipe import Recipe
from training.commands.interrupt import interrupted
from training.commands.options import RUNS, Actions, Import, Name, plain_id
from training.diagnostics import Diagnostics
from training.engine import Cluster, Compression
from training.log import words
from training.run import train
from training.schedule import on_cpu, parts_of, saved_run
from zoo.entry import in_zoo
from zoo.program import program


def train_command(
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
    """What the options of `train_command` say of a cluster. Raises ValueError for options that need one."""
    if address is not None:
        return Cluster(address=address, compression=compression, max_staleness=max_staleness)
    if compression != "float32" or max_staleness is not None:
        raise ValueError("--compression and --max-staleness are for workers on a cluster: give --cluster too")
    return None


def repeat_command(
    agent: Positional[str], /, *, seed: int | None = None, out: Path | None = None, dry_run: bool = False
) -> None:
    """Train an agent again from scratch, through all phases of its training.

    Workers are asynchronous, so no two trainings are the same: this repeats the recipe, not the weights. Abandoned
    branches of the training are not repeated. What was trained on a GPU is trained on the CPU where there is none.

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
        recipe = recipe if torch.cuda.is_available() else on_cpu(recipe)
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
    if resume and in_zoo(directory):
        raise ValueError(f"{directory} belongs to the zoo, and training would change it: copy it, and resume the copy")
    print(f"training {recipe.env} in {directory}, the encoder in {encoder_name(recipe)}", flush=True)
    if resume and (directory / RECIPE).exists() and not (directory / RESUME).exists():
        print(f"there is no {RESUME} in it: the optimizer starts afresh", flush=True)
    progress, signs = None, Diagnostics()
    ends = {
        "stop": interrupted.is_set,
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
        if interrupted.is_set():
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
