"""A3C against A2C: one recipe, trained by different numbers of workers and ways to hand gradients over.

All trainings of a comparison have the same environments, steps and numbers; only `workers`, `envs_per_worker`,
`handover` and the seed differ. One worker is A2C, one environment for each worker is the paper's A3C, and `synchronous`
is A2C of several processes. With one worker there is nobody to wait for or to overwrite, so that is trained once for
each seed, lock-free. A comparison can be a JSON file, which may name settings besides: changes of the recipe, each of
which is trained beside the base that has none of them (an ablation).

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
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from safetensors.torch import load_file

from a3c_core.checkpoint import RESUME, load_agent
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Recipe, mistakes
from a3c_core.worker import Report
from training.recipes import RECIPES
from training.results import append_line, read_lines
from training.run import train
from training.search import RESULTS, Changes, Name, changed

Handover = Literal["lock-free", "lock", "queue", "synchronous"]
HANDOVERS: tuple[Handover, ...] = get_args(Handover)
GOALS = {"cartpole": (195.0, 475.0), "pendulum": (-200.0,), "pong": (0.0, 18.0)}
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
BASE = "base"
"""The setting that changes nothing."""
FIXED = {"env", "seed", "steps", "schedule", "workers", "envs_per_worker", "handover"}
"""Fields of the recipe that no setting changes: a comparison sets them by other means, or never."""


class Cell(NamedTuple):
    """One training of a comparison."""

    workers: int
    handover: Handover
    seed: int
    setting: str = BASE

    def __str__(self) -> str:
        setting = "" if self.setting == BASE else f", {self.setting}"
        return f"{self.workers} worker{'s' if self.workers > 1 else ''}, {self.handover}{setting}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Comparison:
    """What is compared."""

    game: str
    """Name of a shipped recipe."""
    workers: tuple[Annotated[int, Field(ge=1, le=64)], ...] = (1, 2, 4, 8)
    total_envs: Annotated[int, Field(ge=1, le=4096)] = 8
    """Environments of all workers together."""
    handovers: tuple[Handover, ...] = HANDOVERS
    seeds: Annotated[int, Field(ge=1, le=1000)] = 10
    steps: Annotated[int, Field(ge=1)]
    episodes: Annotated[int, Field(ge=1)] = 20
    """Greedy games of the final score."""
    base: Changes = Field(default_factory=dict)
    """Fields of the recipe that all trainings share, in place of the game's."""
    settings: dict[Name, Changes] = Field(default_factory=dict)
    """What is trained beside the base, and the fields of the recipe that each changes."""

    def __post_init__(self) -> None:
        if self.game not in RECIPES:
            raise ValueError(f"unknown recipe {self.game!r}: choose one of {', '.join(RECIPES)}")
        for count in self.workers:
            if self.total_envs % count:
                raise ValueError(f"{self.total_envs} environments can't be shared equally by {count} workers")
        if BASE in self.settings:
            raise ValueError(
                f"a setting can't be named {BASE!r}: that is trained beside them, with none of their changes"
            )
        for cell in self.cells():
            self.recipe(cell)

    def cells(self) -> list[Cell]:
        """All trainings, seed by seed, so that a machine that slows down slows every way to train."""
        ways = [
            (count, handover, setting)
            for setting in (BASE, *self.settings)
            for count in self.workers
            for handover in (self.handovers if count > 1 else ("lock-free",))
        ]
        return [Cell(count, handover, seed, setting) for seed in range(self.seeds) for count, handover, setting in ways]

    def changes(self, setting: str) -> dict[str, Any]:
        """The fields of the game's recipe that a setting changes, those of the base among them."""
        return self.base | self.settings.get(setting, {})

    def recipe(self, cell: Cell) -> Recipe:
        """The recipe of one training. Raises ValueError where the changes make none."""
        changes, where = self.changes(cell.setting), f"the setting {cell.setting}"
        if not_here := FIXED & changes.keys():
            raise ValueError(f"{where} changes {', '.join(sorted(not_here))}: no setting of a comparison can")
        recipe = changed(replace(RECIPES[self.game], steps=self.steps, schedule=()), changes, where=where)
        share = self.total_envs // cell.workers
        return replace(recipe, workers=cell.workers, envs_per_worker=share, handover=cell.handover, seed=cell.seed)


def comparison_of(source: str, options: dict[str, Any]) -> Comparison:
    """What to compare: of a recipe that ships, or as a JSON file says; the options go before what the file says.

    Raises ValueError, OSError.
    """
    fields = {"game": source}
    if source.endswith(".json"):
        try:
            fields = TypeAdapter(dict[str, Any]).validate_json(Path(source).read_bytes())
        except ValidationError as error:
            raise ValueError(f"{source} is no comparison: {mistakes(error, 'file')}") from None
    fields |= options
    fields.setdefault("steps", STEPS.get(str(fields.get("game")), 1_000_000))
    try:
        return TypeAdapter(Comparison).validate_python(fields)
    except ValidationError as error:
        raise ValueError(mistakes(error, "compare")) from None


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Trial:
    """What one training has shown. A mean return is of the last 100 training episodes, or None before there are 100."""

    game: str
    workers: int
    handover: Handover
    seed: int
    setting: str = BASE
    changes: dict[str, Any] = Field(default_factory=dict)
    """Fields of the game's recipe that were changed, those of the base among them."""
    envs_per_worker: int
    planned_steps: int
    """At which it was to end."""
    steps: int
    """At which it did: a rollout of each worker, and a full queue, later at most."""
    updates: int
    seconds: float
    """Of the training, the workers' start included."""
    steps_per_second: float
    """From the first update to the last."""
    reached: dict[str, tuple[int, float] | None]
    """For each goal: the steps and seconds at which the mean return first was as high."""
    returns: tuple[float | None, ...]
    """Mean return at each of MARKS equal shares of the planned steps."""
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
    """Updates of which the optimizer's own counter knows nothing: another one overwrote it. None where it has none,
    or one for each worker."""
    score: float
    """Mean return of the greedy games at the end."""

    @property
    def cell(self) -> Cell:
        return Cell(self.workers, self.handover, self.seed, self.setting)


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

    def trial(self, cell: Cell, comparison: Comparison, *, steps: int, lost: int | None, score: float) -> Trial:
        """All of it, once the training has ended."""
        marks = [self._at(self.recipe.steps * (mark + 1) / MARKS) for mark in range(MARKS)]
        (first_steps, first, _), (last_steps, seconds, _) = self._moments[0], self._moments[-1]
        counts = [self._staleness[each] for each in range(STALEST)]
        return Trial(
            game=comparison.game,
            **cell._asdict(),
            changes=comparison.changes(cell.setting),
            envs_per_worker=self.recipe.envs_per_worker,
            planned_steps=self.recipe.steps,
            steps=steps,
            updates=self.updates,
            seconds=seconds,
            steps_per_second=round((last_steps - first_steps) / max(seconds - first, 1e-3), 1),
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
    changes = {setting: comparison.changes(setting) for setting in (BASE, *comparison.settings)}
    wanted = (comparison.game, comparison.total_envs, comparison.steps)
    for trial in trials:
        same = (trial.game, trial.workers * trial.envs_per_worker, trial.planned_steps) == wanted
        if not same or (trial.setting in (BASE, *comparison.settings) and trial.changes != changes[trial.setting]):
            raise ValueError(
                "the results are of another comparison (game, environments, steps or changes): "
                "choose another directory (--out)"
            )
    done = {trial.cell for trial in trials}
    return [cell for cell in comparison.cells() if cell not in done]


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
            agent = load_agent(directory)
            score = evaluate(agent, comparison.episodes, first_seed=COMPARING_SEED).mean
            counted = load_file(directory / RESUME).get("optimizer.0.step") if recipe.share_statistics else None
            lost = None if counted is None else watch.updates - int(counted)
        trial = watch.trial(cell, comparison, steps=agent.steps, lost=lost, score=round(score, 2))
        append_line(out / RESULTS, trial)
        yield trial


def _train(recipe: Recipe, directory: Path, watch: Watch, stop: Callable[[], bool]) -> None:
    with closing(train(recipe, directory, stop=stop, watch=watch)) as running:
        for _ in running:
            pass
