"""What is said of an agent, from its entry alone: table row and description serve README, command line and app."""

from dataclasses import asdict

from a3c_core.play import Score
from zoo.entry import ZooEntry


def points(number: float) -> str:
    """A score as it is shown: one decimal."""
    return f"{number:,.1f}"


def score_words(score: Score) -> str:
    """Mean, spread and conditions in a sentence."""
    return f"{mean_and_spread(score)}, median {points(score.median)}, best {points(score.best)} ({score.conditions})"


def mean_and_spread(score: Score) -> str:
    """Mean and standard deviation of a score."""
    return f"{points(score.mean)} ± {points(score.std)}"


COLUMNS = {
    "Agent": lambda e: e.name,
    "Environment": lambda e: e.recipe.env,
    "Score": lambda e: mean_and_spread(e.score),
    "Sticky": lambda e: mean_and_spread(e.sticky_score) if e.sticky_score else "",
    "Conditions": lambda e: e.score.conditions,
    "Steps": lambda e: f"{e.score.steps:,}",
    "Trained in": lambda e: duration(e.hours),
    "Weights": lambda e: f"{e.parameters:,}",
}


def duration(hours: float) -> str:
    """Hours, minutes or seconds, whichever reads best."""
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{hours * 60:.0f} min" if hours * 60 >= 2 else f"{hours * 3600:.0f} s"


def rows(entries: dict[str, ZooEntry]) -> list[list[str]]:
    """The zoo's table, a row of strings per agent under COLUMNS."""
    return [[cell(entry) for cell in COLUMNS.values()] for entry in entries.values()]


def markdown_table(entries: dict[str, ZooEntry]) -> str:
    """The zoo's table as it stands in the README."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *rows(entries)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text_table(entries: dict[str, ZooEntry]) -> str:
    """The zoo's table for a terminal."""
    lines = [list(COLUMNS), *rows(entries)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def description(entry: ZooEntry) -> str:
    """All that is known of one agent, for a terminal."""
    numbers = ", ".join(f"{name}={value}" for name, value in asdict(entry.recipe).items())
    return "\n".join(
        [
            f"{entry.name}: {entry.summary}",
            f"  environment  {entry.recipe.env}",
            *(f"  score        {score_words(score)}" for score in (entry.score, entry.sticky_score) if score),
            f"  trained      {entry.score.steps:,} steps in {duration(entry.hours)} on {entry.machine}",
            f"  made by      {entry.command}",
            f"  weights      {entry.parameters:,} in {entry.directory}, licence {entry.licence}",
            f"  recipe       {numbers}",
        ]
    )
