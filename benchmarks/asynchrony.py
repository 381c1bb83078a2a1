"""A3C against A2C: what `python -m training compare` has measured, made ready for the page and for docs/asynchrony.md.

    pip install ".[app,study]"
    python -m training compare cartpole
    python -m training compare training/studies/ablations_cartpole.json
    python -m benchmarks.asynchrony runs/compare-cartpole runs/compare-ablations_cartpole

Nothing is trained here. Of each way to train, the interquartile mean over its trainings and its 95 % interval are
worked out for every measure and every point of a curve, and the intervals of its ratio to, or its difference from, what
it is compared with: one worker, lock-free updates by as many workers, the base of its setting.

A training that did not reach a goal counts as infinitely long there: it may take part in the middle half, and then the
mean is "never". Where a way to train has ended sooner than others in seconds, its last mean return stands.
"""

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import tyro
from tyro.conf import Positional

from benchmarks.intervals import Intervals, differences, intervals, ratios
from benchmarks.results import PACKAGES, machine
from benchmarks.text import table
from training.compare import BASE, HANDOVERS, MARKS, UPDATES, Trial, read_trials
from ui.asynchrony import figures, findings
from ui.asynchrony.findings import A2C, LOCK_FREE, Finding
from ui.asynchrony.record import RECORD, Curve, Estimate, Record, Study, Way

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURES = DOCS / "asynchrony.md", DOCS / "asynchrony"
BEGIN, END = "<!-- written by python -m benchmarks.asynchrony; do not edit -->", "<!-- the end of what it writes -->"
NEVER, BEYOND = 1e18, 1e10
"""What stands for the steps or seconds of a goal that was not reached, and what only such numbers exceed."""
BY_DIFFERENCE = {question.measure for question in findings.QUESTIONS if not question.ratio}


def main(directories: Positional[tuple[Path, ...]], /, keep: bool = True) -> None:
    """Work out the statistics of comparisons, and write record.json of ui/asynchrony and docs/asynchrony.md.

    Args:
        directories: with the results.jsonl of a comparison each.
        keep: write all of it; --no-keep only prints what the numbers say.
    """
    try:
        record = Record(studies=tuple(study_of(read_trials(each), each) for each in directories))
    except ValueError as error:
        sys.exit(f"error: {error}")
    if keep:
        RECORD.write_text(json.dumps(asdict(record), separators=(",", ":")) + "\n", encoding="utf-8")
        write_docs(record)
    print(written(record))


def study_of(trials: Sequence[Trial], source: Path) -> Study:
    """The statistics of one comparison. Raises ValueError where there are no trainings, or too few of a kind."""
    if not trials:
        raise ValueError(f"{source} has no results.jsonl with trainings: name directories that compare has written")
    groups: dict[tuple[str, int, str], list[Trial]] = {}
    for trial in sorted(trials, key=lambda each: (each.workers, HANDOVERS.index(each.handover))):
        groups.setdefault((trial.setting, trial.workers, trial.handover), []).append(trial)
    if few := [group[0].cell for group in groups.values() if len(group) < 2]:
        raise ValueError(f"{source} has one training of {few[0]}: an interval needs two, compare with more --seeds")
    first = trials[0]
    ordered = sorted(groups.items(), key=lambda each: [trial.setting for trial in trials].index(each[0][0]))
    return Study(
        game=first.game,
        total_envs=first.workers * first.envs_per_worker,
        steps=first.planned_steps,
        machine=machine(*PACKAGES),
        goals=tuple(first.reached),
        ways=tuple(way_of(group, references(group[0], groups)) for _, group in ordered),
    )


def references(trial: Trial, groups: dict[tuple[str, int, str], list[Trial]]) -> dict[str, list[Trial]]:
    """What the trainings of a kind are compared with, without themselves."""
    setting, workers, handover = trial.setting, trial.workers, trial.handover
    keys = {
        A2C: (setting, 1, LOCK_FREE),
        LOCK_FREE: (setting, workers, LOCK_FREE),
        BASE: (BASE, workers, handover),
    }
    return {name: groups[key] for name, key in keys.items() if key in groups and key != (setting, workers, handover)}


def way_of(trials: Sequence[Trial], against: dict[str, list[Trial]]) -> Way:
    """All statistics of trainings of one kind."""
    first, measures = trials[0], measures_of(trials)
    found = intervals(np.array(list(measures.values())).T)
    stalest = np.sum([trial.stalest for trial in trials], axis=0)
    return Way(
        workers=first.workers,
        handover=first.handover,
        setting=first.setting,
        changes=first.changes,
        seeds=len(trials),
        reached={goal: sum(trial.reached[goal] is not None for trial in trials) for goal in first.reached},
        measures={name: estimate(found, column) for column, name in enumerate(measures)},
        stalest=tuple(float(f"{share:.4g}") for share in stalest / stalest.sum()),
        curves=curves_of(trials),
        against={name: compared(others, trials) for name, others in against.items()},
    )


def measures_of(trials: Sequence[Trial]) -> dict[str, list[float]]:
    """Each measure of each training; those that any of them lacks are left out."""
    of: dict[str, Callable[[Trial], float | None]] = {}
    for goal in trials[0].reached:
        for place, unit in enumerate(("steps", "seconds")):
            of[f"{unit}_to_{goal}"] = lambda trial, goal=goal, place=place: (trial.reached[goal] or [NEVER] * 2)[place]
    for name in ("steps_per_second", "score", "variance", "gradient_norm", "staleness"):
        of[name] = lambda trial, name=name: getattr(trial, name)
    of["lost"] = lambda trial: None if trial.lost is None else 1000 * trial.lost / trial.updates
    found = {name: [measure(trial) for trial in trials] for name, measure in of.items()}
    return {name: values for name, values in found.items() if None not in values}


def compared(ones: Sequence[Trial], others: Sequence[Trial]) -> dict[str, Estimate]:
    """Of each measure that both have, the ratio of `others` to `ones`, or the difference.

    Where neither has reached a goal, nothing is known of the ratio: the interval has no ends.
    """
    found, (first, second) = {}, (measures_of(ones), measures_of(others))
    for name in first.keys() & second.keys():
        one, other = (np.array(measures[name])[:, None] for measures in (first, second))
        if name in BY_DIFFERENCE:
            found[name] = estimate(differences(one, other), 0)
        elif one.min() > 0:
            longer, shorter = (np.where(values == NEVER, NEVER**2, values) for values in (other, one))
            low, high = ratios(shorter, other).low.item(), ratios(one, longer).high.item()
            found[name] = Estimate(*map(finite, (low, ratios(one, other).middle.item(), high)))
    return {name: found[name] for name in first if name in found}


def estimate(found: Intervals, column: int) -> Estimate:
    """One column's interquartile mean and interval."""
    return Estimate(*(finite(float(each[column])) for each in found))


def finite(value: float) -> float | None:
    """A number as it is kept: None where a goal that was not reached is in it, 0 where it is a share of such a one."""
    return (float(f"{value:.5g}") if abs(value) > 1 / BEYOND else 0.0) if abs(value) < BEYOND else None


def curves_of(trials: Sequence[Trial]) -> dict[str, Curve]:
    """The mean return by steps, by seconds and by updates."""
    returns = np.array([[math.nan if value is None else value for value in trial.returns] for trial in trials])
    clocks = np.array([trial.clock for trial in trials])
    steps = trials[0].planned_steps * np.arange(1, MARKS + 1) / MARKS
    seconds = np.linspace(0.0, clocks[:, -1].max(), MARKS + 1)[1:]
    by_seconds = [at(seconds, clock, values) for clock, values in zip(clocks, returns, strict=True)]
    count = min(len(trial.returns_by_updates) for trial in trials)
    by_updates = [[math.nan if v is None else v for v in trial.returns_by_updates[:count]] for trial in trials]
    return {
        "steps": curve_of(steps, returns),
        "seconds": curve_of(seconds, np.array(by_seconds)),
        "updates": curve_of(np.array(UPDATES[:count], dtype=float), np.array(by_updates)),
    }


def at(seconds: np.ndarray, clock: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """The mean returns of one training at some seconds: unknown before the first, the last one after its end."""
    known = ~np.isnan(returns)
    if not known.any():
        return np.full(len(seconds), math.nan)
    return np.interp(seconds, clock[known], returns[known], left=math.nan)


def curve_of(x: np.ndarray, values: np.ndarray) -> Curve:
    """The intervals of [trainings, places], where all trainings have a number."""
    known = ~np.isnan(values).any(axis=0) if values.size else np.zeros(0, dtype=bool)
    if not known.any():
        return Curve(x=(), low=(), middle=(), high=())
    parts = (x[known], *intervals(values[:, known]))
    x, low, middle, high = (tuple(float(f"{value:.5g}") for value in part) for part in parts)
    return Curve(x=x, low=low, middle=middle, high=high)


def write_docs(record: Record) -> None:
    """Writes the pictures and the part of the page that is made from the numbers."""
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    for name, content in pictures(record).items():
        (PICTURES / name).write_text(content, encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")


def pictures(record: Record) -> dict[str, str]:
    """The SVG files by name, of each figure one for the day and one for the night."""
    return {
        f"{made.name}-{name}.svg": made.svg(night=night)
        for study in record.studies
        for made in figures.plots(study)
        for name, night in (("day", False), ("night", True))
    }


def page(text: str, record: Record) -> str:
    """docs/asynchrony.md with what the numbers say."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{written(record)}{END}{after}"


def written(record: Record) -> str:
    """What the numbers say, in Markdown; empty where nothing was measured."""
    parts = [part for study in record.studies for part in section(study)]
    opening = [
        "## What was found",
        "All of it comes from the commands above. The numbers are in `ui/asynchrony/record.json`.",
    ]
    return "".join(f"\n{part}\n" for part in (*opening, *parts)) + "\n" if parts else ""


def section(study: Study) -> list[str]:
    """The parts on one study."""
    described = ", ".join(f"{key} {value}" for key, value in study.machine.items())
    start = [f"{findings.conditions(study)}. Measured with: {described}."]
    drawn = [picture(made) for made in figures.plots(study)]
    numbers = [full_table(study)]
    if study.ablates:
        title = [f"### {findings.game_name(study)}: one change at a time"]
        return [*title, *start, *paragraphs(findings.ablation_findings(study)), *drawn, *numbers]
    return [
        f"### {findings.game_name(study)}: workers and hand-overs",
        *start,
        "#### What is often said, and what came out",
        *paragraphs(findings.claim_findings(study)),
        "#### Lock-free workers against A2C",
        *paragraphs(findings.comparison_findings(study)),
        "#### Against lock-free updates by as many workers",
        *paragraphs(findings.handover_findings(study)),
        *drawn,
        *numbers,
        *staleness_table(findings.asynchronous(study)),
    ]


def paragraphs(found: Sequence[Finding]) -> list[str]:
    """Findings in Markdown."""
    return [f"**{title}.** {text}" for title, text in found]


def picture(made: figures.Plot) -> str:
    """A figure that follows the reader's theme."""
    day, night = (f"{PICTURES.name}/{made.name}-{when}.svg" for when in ("day", "night"))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{night}"><img src="{day}" width="600" '
        f'alt="{made.label}"></picture>'
    )


def full_table(study: Study) -> str:
    """Every number of a study with its interval."""
    rows = ([f"{text} ({below})" if below else text for text, below in cells] for cells in figures.rows(study))
    return table(figures.heads(study), rows)


def staleness_table(ways: Sequence[Way]) -> list[str]:
    """A column for each number of workers; nothing where there is only one."""
    rows = list(zip(*(way.stalest for way in ways), strict=True))
    names = [*map(str, range(len(rows) - 1)), f"{len(rows) - 1} or more"]
    cells = ([name, *(f"{100 * share:.1f}" for share in row)] for name, row in zip(names, rows, strict=False))
    heads = ("staleness", *map(findings.workers, ways))
    return ["Share of the gradients by staleness, in %:", table(heads, cells)] if ways else []


if __name__ == "__main__":
    tyro.cli(main)
