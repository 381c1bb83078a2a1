"""The zoo's figures: scores on one scale, returns as bars, two ways of training with their bands. Text stays text."""

import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from ui.figures import HEIGHT, WIDTH, Axis, down, grid_lines, number, ticks

FAR = 4.0
"""A score so many times as high as the next is off the scale: an arrow at its end."""
BARS = 20
"""About as many bars has a histogram."""
POINTS = 80
"""Of a band's edge."""


class Mark(NamedTuple):
    """A player's score on a scale."""

    name: str
    low: float
    high: float
    words: str
    """The score as it is written."""
    kind: str
    """ours, peer, range, human or random: each has its own shape."""

    @property
    def middle(self) -> float:
        """Where its dot is."""
        return (self.low + self.high) / 2


def scale(marks: Sequence[Mark], label: str) -> str:
    """Scores under one another on one scale, the highest first."""
    axis = _reach([end for mark in _near(marks) for end in (mark.low, mark.high)])
    rows = "".join(_row(mark, axis) for mark in sorted(marks, key=lambda mark: -mark.middle))
    low, high = (number(end) for end in (axis.low, axis.high))
    return (
        f'<figure class="scale"><figcaption>{escape(label)}</figcaption><ul>{rows}</ul>'
        f'<div class="ends" aria-hidden="true"><span>{low}</span><span>{high}</span></div></figure>'
    )


def _reach(values: Sequence[float]) -> Axis:
    """From the least to the greatest; from 0 where they are all the same."""
    low, high = min(values), max(values)
    return Axis(low, high) if high - low > 1e-6 else Axis(min(0.0, low), max(0.0, high) or 1.0)


def _near(marks: Sequence[Mark]) -> list[Mark]:
    """The marks without those so high that they would press all others into a corner."""
    ordered = sorted(marks, key=lambda mark: mark.high)
    while len(ordered) > 2 and ordered[-1].high > FAR * max(ordered[-2].high, 1.0):
        ordered.pop()
    return ordered


def _row(mark: Mark, axis: Axis) -> str:
    name, score = escape(mark.name), escape(mark.words)
    return (
        f'<li class="{mark.kind}"><span class="who">{name}</span>'
        f'<span class="track" aria-hidden="true">{_drawn(mark, axis)}</span><span class="points">{score}</span></li>'
    )


def _drawn(mark: Mark, axis: Axis) -> str:
    if mark.low > axis.high:
        return '<i class="far">→</i>'
    low, high = axis.share(mark.low), axis.share(min(mark.high, axis.high))
    span = f'<i class="span" style="left:{low:.2%};width:{high - low:.2%}"></i>'
    return f'{span}<i class="dot" style="left:{axis.share(min(mark.middle, axis.high)):.2%}"></i>'


def histogram(values: Sequence[float], label: str) -> str:
    """How often which value occurs, as bars over round numbers."""
    width = _width(values)
    bins = Counter(math.floor(value / width + 1e-9) for value in values)
    first, last = min(bins), max(bins)
    most = max(bins.values())
    bars = "".join(f'<i style="height:{bins[place] / most:.1%}"></i>' for place in range(first, last + 1))
    ends = (first * width, last * width) if _all_whole(values) and width == 1 else (first * width, (last + 1) * width)
    spoken = f"{label}: from {number(min(values))} to {number(max(values))}, median {_median(values)}"
    return (
        f'<figure class="histogram" style="--bars:{last - first + 1}"><figcaption>{escape(label)}</figcaption>'
        f'<div class="bars" role="img" aria-label="{escape(spoken)}">{bars}</div>'
        f'<div class="ends">{"".join(f"<span>{number(end)}</span>" for end in dict.fromkeys(ends))}</div></figure>'
    )


def _width(values: Sequence[float]) -> float:
    marks = ticks(values, BARS)
    width = marks[1] - marks[0]
    return max(1.0, round(width)) if _all_whole(values) else width


def _all_whole(values: Sequence[float]) -> bool:
    return all(float(value).is_integer() for value in values)


def _median(values: Sequence[float]) -> str:
    return number(float(np.median(values)))


class Line(NamedTuple):
    """One seed's curve."""

    x: Sequence[float]
    y: Sequence[float]


class Band(NamedTuple):
    """Several seeds of one way of training."""

    name: str
    kind: str
    """How it is drawn: a class of the style sheet."""
    lines: Sequence[Line]


def bands(groups: Sequence[Band], *, label: str, end: str) -> str:
    """The median over seeds of each group as a line, in a band from the least to the greatest."""
    x_high = max(line.x[-1] for group in groups for line in group.lines)
    heights = ticks([0.0, *(value for group in groups for line in group.lines for value in line.y)], 4)
    x, y_axis = np.linspace(0.0, x_high, POINTS), Axis(heights[0], heights[-1])
    drawn = "".join(_band(group, x, y_axis) for group in groups)
    key = "".join(f'<li class="{group.kind}">{escape(group.name)}</li>' for group in groups)
    return (
        f'<figure class="curve bands"><figcaption><span>{escape(label)}</span></figcaption><ul class="key">{key}</ul>'
        f'<div class="plot">{grid_lines(y_axis, heights)}'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'{drawn}</svg></div><div class="ends"><span>0</span><span>{escape(end)}</span></div></figure>'
    )


def _band(group: Band, x: np.ndarray, axis: Axis) -> str:
    seeds = np.array([np.interp(x, line.x, line.y) for line in group.lines])
    low, middle, high = seeds.min(0), np.median(seeds, 0), seeds.max(0)
    around = f"{_points(x, high, axis)} {_points(x[::-1], low[::-1], axis)}"
    return (
        f'<polygon class="{group.kind}" points="{around}"/>'
        f'<polyline class="{group.kind}" points="{_points(x, middle, axis)}"/>'
    )


def _points(x: np.ndarray, y: np.ndarray, axis: Axis) -> str:
    shares = x / x.max() * WIDTH
    return " ".join(f"{a:.1f},{down(axis, b) * HEIGHT:.2f}" for a, b in zip(shares, y, strict=True))
