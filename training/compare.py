"""A3C against A2C: one recipe, trained by different numbers of workers and ways to hand gradients over.

All trainings of a comparison have the same environments, steps and numbers; only `workers`, `envs_per_worker`,
`handover` and the seed differ. One worker is A2C, one environment for each worker is the paper's A3C, and `synchronous`
is A2C of several processes. With one worker there is nobody to wait for or to overwrite, so that is trained once for
each seed, lock-free.

One training runs at a time, since seconds are measured; workers are processes of one thread. A training that was cut
off starts again from nothing, for the same reason. All start alike: workers are forked from a process that has only
imported the program, and a short training before the first has imported all else.
"""

import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pvariance
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from safetensors.torch import load_file

from a3c_core.checkpoint import RESUME, load_agent
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Recipe
from a3c_core.worker import Report
from training.recipes import RECIPES
from training.results import append_line, read_lines
from training.run import train
from training.search import RESULTS

Handover = Literal["lock-free", "lock", "queue", "synchronous"]
HANDOVERS: tuple[Handover, ...] = get_args(Handover)
GOALS = {"cartpole": (195.0, 475.0), "pendulum": (-200.0,)}
"""Mean returns of the last 100 training episodes whose first time is kept."""
STEPS = {"cartpole": 120_000, "pendulum": 1_000_000}
"""Steps of a training where none are asked for: the learning rate reaches 0 there."""
COMPARING_SEED = 900_000_000
"""First of the games of the final scores, which nothing else is played with."""
EPISODES = 100
"""Training episodes that a mean return is of."""
MARKS = 40
"""Points of a curve, at equal shares of the steps."""
UPDATES = tuple(range(100, 2001, 100))
"""Updates at which the mean return is kept, where the training has so many."""
STALEST = 15
"""Gradients that are as stale or staler share the last place of the histogram."""
WARM_UP_STEPS = 2_000


class Cell(NamedTuple):
    """One training of a comparison."""

    workers: int
    handover: Handover
    seed: int


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Comparison:
    """What is compared."""

    game: str
    """Name of a shipped recipe."""
    workers: tuple[Annotated[int, Field(ge=1, le=64)], ...]
    total_envs: Annotated[int, Field(ge=1, le=4096)]
    """Environments of all workers together."""
    handovers: tuple[Handover, ...] = HANDOVERS
    seeds: Annotated[int, Field(ge=1, le=1000)] = 10
    steps: Annotated[int, Field(ge=1)]
    episodes: Annotated[int, Field(ge=1)] = 20
    """Greedy games of the final score."""

    def __post_init__(self) -> None:
        if self.game not in RECIPES:
            raise ValueError(f"unknown recipe {self.game!r}: choose one of {', '.join(RECIPES)}")
        for count in self.workers:
            if self.total_envs % count:
                raise ValueError(f"{self.total_envs} environments can't be shared equally by {count} workers")

    def cells(self) -> list[Cell]:
        """All trainings, seed by seed, so that a machine that slows down slows every way to train."""
        ways = [
            (count, handover)
            for count in self.workers
            for handover in (self.handovers if count > 1 else ("lock-free",))
        ]
        return [Cell(count, handover, seed) for seed in range(self.seeds) for count, handover in ways]

    def recipe(self, cell: Cell) -> Recipe:
        """The recipe of one training."""
        share = self.total_envs // cell.workers
        return replace(RECIPES[self.game], **cell._asdict(), envs_per_worker=share, steps=self.steps, schedule=())


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Trial:
    """What one training has shown. A mean return is of the last 100 training episodes, or None before there are 100."""

    game: str
    workers: int
    handover: Handover
    seed: int
    envs_per_worker: int
    steps: int
    updates: int
    seconds: float
    """Of the training, the workers' start included."""
    steps_per_second: float
    """From the first update to the last."""
    reached: dict[str, tuple[int, float] | None]
    """For each goal: the steps and seconds at which the mean return first was as high."""
    returns: tuple[float | None, ...]
    """Mean return at each of MARKS equal shares of the steps that were asked for."""
    clock: tuple[float, ...]
    """Seconds at the same marks."""
    returns_by_updates: tuple[float | None, ...]
    """Mean return at each of UPDATES, as far as the training went."""
    variance: float | None
    """Of the training returns in the second half of the steps."""
    gradient_norm: float
    """Mean 2-norm of the workers' gradients before they are clipped."""
    staleness: float
    """Mean over all gradients."""
    stalest: tuple[int, ...]
    """How many gradients had staleness 0, 1 and so on; the last number is of STALEST and more."""
    lost: int | None
    """Updates of which the optimizer's own counter knows nothing: another one overwrote it. None where it has none."""
    score: float
    """Mean return of the greedy games at the end."""

    @property
    def cell(self) -> Cell:
        return Cell(self.workers, self.handover, self.seed)


class Watch:
    """Takes in what the workers of one training report."""

    def __init__(self, recipe: Recipe, goals: Sequence[float]) -> None:
        self.recipe, self.goals = recipe, goals
        self.updates = 0
        self.reached: dict[str, tuple[int, float] | None] = {f"{goal:g}": None for goal in goals}
        self.by_updates: list[float | None] = []
        self._reports = 0
        self._recent: deque[float] = deque(maxlen=EPISODES)
        self._late: list[float] = []
        self._norms, self._staleness = 0.0, Counter()
        self._moments: list[tuple[int, float, float | None]] = []

    def __call__(self, report: Report, steps: int, seconds: float) -> None:
        """Takes in one update, after which the whole training has so many steps and seconds."""
        self._reports += 1
        self._norms += report.gradient_norm
        self._staleness[report.staleness] += 1
        self._recent.extend(report.returns)
        if 2 * steps >= self.recipe.steps:
            self._late += report.returns
        mean = fmean(self._recent) if len(self._recent) == EPISODES else None
        self._moments.append((steps, round(seconds, 3), mean))
        for goal in self.goals:
            if mean is not None and mean >= goal and self.reached[f"{goal:g}"] is None:
                self.reached[f"{goal:g}"] = (steps, round(seconds, 3))
        each = self.recipe.workers if self.recipe.handover == "synchronous" else 1
        if self._reports % each == 0:
            self.updates += 1
            if self.updates in UPDATES:
                self.by_updates.append(rounded(mean))

    def trial(self, cell: Cell, game: str, *, lost: int | None, score: float) -> Trial:
        """All of it, once the training has ended."""
        marks = [self._at(self.recipe.steps * (mark + 1) / MARKS) for mark in range(MARKS)]
        (first_steps, first, _), (steps, seconds, _) = self._moments[0], self._moments[-1]
        counts = [self._staleness[each] for each in range(STALEST)]
        return Trial(
            game=game,
            **cell._asdict(),
            envs_per_worker=self.recipe.envs_per_worker,
            steps=steps,
            updates=self.updates,
            seconds=seconds,
            steps_per_second=round((steps - first_steps) / max(seconds - first, 1e-3), 1),
            reached=self.reached,
            returns=tuple(rounded(mean) for _, _, mean in marks),
            clock=tuple(round(seconds, 2) for _, seconds, _ in marks),
            returns_by_updates=tuple(self.by_updates),
            variance=rounded(pvariance(self._late)) if self._late else None,
            gradient_norm=round(self._norms / self._reports, 4),
            staleness=round(sum(each * count for each, count in self._staleness.items()) / self._reports, 4),
            stalest=(*counts, self._reports - sum(counts)),
            lost=lost,
            score=score,
        )

    def _at(self, steps: float) -> tuple[int, float, float | None]:
        """The first moment with so many steps; the last one of all if there is none."""
        return next((moment for moment in self._moments if moment[0] >= steps), self._moments[-1])


def rounded(mean: float | None) -> float | None:
    """A return as it is kept."""
    return None if mean is None else round(mean, 2)


def read_trials(out: Path) -> list[Trial]:
    """The trainings so far."""
    return read_lines(out / RESULTS, Trial)


def missing(comparison: Comparison, trials: Sequence[Trial]) -> list[Cell]:
    """The trainings that are still to be made. Raises ValueError where the others are of another comparison."""
    for trial in trials:
        wanted = (comparison.game, comparison.total_envs)
        if (trial.game, trial.workers * trial.envs_per_worker) != wanted or not _as_long(trial, comparison):
            raise ValueError(
                "the results are of another comparison (game, environments or steps): choose another directory (--out)"
            )
    done = {trial.cell for trial in trials}
    return [cell for cell in comparison.cells() if cell not in done]


def _as_long(trial: Trial, comparison: Comparison) -> bool:
    """Whether the training ended where it was to end: at most all workers' last rollouts, and a full queue, later."""
    recipe = comparison.recipe(trial.cell)
    beyond = 2 * recipe.workers * max(recipe.n_steps) * recipe.envs_per_worker
    return comparison.steps <= trial.steps <= comparison.steps + beyond


def compare(comparison: Comparison, out: Path, *, stop: Callable[[], bool]) -> Iterator[Trial]:
    """Makes the trainings that are missing, one after the other, and yields each as it is kept in `out`.

    Ends early where `stop` says so; the training that was running is lost. Raises as `train`, and ValueError where
    `out` holds another comparison.
    """
    due = missing(comparison, read_trials(out))
    goals = GOALS.get(comparison.game, ())
    for number, cell in enumerate(due):
        recipe = comparison.recipe(cell)
        with tempfile.TemporaryDirectory() as scratch:
            if number == 0:
                _train(replace(recipe, steps=WARM_UP_STEPS), Path(scratch) / "before", Watch(recipe, goals), stop)
            watch, directory = Watch(recipe, goals), Path(scratch) / "run"
            _train(recipe, directory, watch, stop)
            if stop():
                return
            score = evaluate(load_agent(directory), comparison.episodes, first_seed=COMPARING_SEED).mean
            counted = load_file(directory / RESUME).get("optimizer.0.step")
            lost = None if counted is None else watch.updates - int(counted)
        trial = watch.trial(cell, comparison.game, lost=lost, score=round(score, 2))
        append_line(out / RESULTS, trial)
        yield trial


def _train(recipe: Recipe, directory: Path, watch: Watch, stop: Callable[[], bool]) -> None:
    with closing(train(recipe, directory, stop=stop, watch=watch)) as running:
        for _ in running:
            pass
