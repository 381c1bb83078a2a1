"""What asynchrony bought and cost: A3C against A2C, as `python -m benchmarks.asynchrony` has measured it."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ui.agents.figures import Band, Line, bands

RESULT = Path(__file__).with_name("asynchrony.json")


class Trial(NamedTuple):
    """One training: a mean return at each of some moments."""

    kind: str
    seed: int
    workers: int
    envs_per_worker: int
    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    returns: tuple[float, ...]


class Result(NamedTuple):
    """What the benchmark keeps."""

    goal: float
    trials: tuple[Trial, ...]

    def of(self, kind: str) -> list[Trial]:
        """The trials of A2C or of A3C."""
        return [trial for trial in self.trials if trial.kind == kind]


KINDS = ("A2C", "A3C")


def kept(path: Path) -> Result | None:
    """What was measured; None where nothing was, or cannot be read."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        result = Result(record["goal"], tuple(Trial(**trial) for trial in record["trials"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return result if all(result.of(kind) for kind in KINDS) else None


def asynchrony_section(path: Path = RESULT) -> str:
    """The comparison as HTML; empty where it was not measured."""
    result = kept(path)
    if result is None:
        return ""
    label = "Mean return of the last 100 training games, {}"
    steps, seconds = (max(getattr(t, unit)[-1] for t in result.trials) for unit in ("steps", "seconds"))
    return (
        '<section class="card" data-game="CartPole-v1"><h2>A3C against A2C: what asynchrony gained and cost</h2>'
        f"<p>{sentence(result)}</p><div class=learning>"
        f"{bands(groups(result, 'steps'), label=label.format('by steps'), end=f'{steps:,} steps')}"
        f"{bands(groups(result, 'seconds'), label=label.format('by time'), end=f'{seconds:.1f} s')}</div>"
        '<p class="small">CartPole, the zoo\'s recipe. Lines are medians over seeds, bands show the '
        "lowest and highest. <code>python -m benchmarks.asynchrony</code> measures it again.</p></section>"
    )


def groups(result: Result, unit: str) -> list[Band]:
    """Both ways of training, against steps or seconds."""
    found = []
    for kind in KINDS:
        trials = result.of(kind)
        found.append(Band(name_of(kind, trials[0]), kind.lower(), [Line(getattr(t, unit), t.returns) for t in trials]))
    return found


def name_of(kind: str, trial: Trial) -> str:
    """A way of training in words."""
    workers = f"{trial.workers} worker{'s' if trial.workers > 1 else ''}"
    return f"{kind}: {workers} with {trial.envs_per_worker} games{' each' if trial.workers > 1 else ''}"


def sentence(result: Result) -> str:
    """What the medians to the goal say, whichever way they point."""
    seeds = len(result.of("A3C"))
    missed = {kind: sum(reached(t, "steps", result.goal) is None for t in result.of(kind)) for kind in KINDS}
    if any(missed.values()):
        told = " and ".join(f"{missed[kind]} of {len(result.of(kind))} with {kind}" for kind in KINDS)
        return f"A mean return of {result.goal:g} was not reached in {told}; see the curves."
    gains = [
        f"{bargain(*(median(result.of(kind), unit, result.goal) for kind in KINDS), fewer)} {what}"
        for unit, fewer, what in (("seconds", "less", "time"), ("steps", "fewer", "steps"))
    ]
    return (
        f"To a mean return of {result.goal:g}, two asynchronous workers needed {gains[0]} and {gains[1]} than one "
        f"worker with as many games (medians over {seeds} seeds)."
    )


def bargain(one: float, other: float, fewer: str) -> str:
    """How much less (or `fewer`) or more `other` is than `one`."""
    share = round(100 * abs(other - one) / max(one, 1e-9))
    return f"{share} % {fewer if other < one else 'more'}"


def median(trials: Sequence[Trial], unit: str, goal: float) -> float:
    """The median of when the trials reached the goal; all have."""
    return statistics.median(reached(trial, unit, goal) for trial in trials)


def reached(trial: Trial, unit: str, goal: float) -> float | None:
    """The steps or seconds at which a trial first had the goal's mean return."""
    return next((at for at, value in zip(getattr(trial, unit), trial.returns, strict=True) if value >= goal), None)
