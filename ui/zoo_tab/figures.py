"""The zoo's figures: scores on one scale, returns as bars, ways of training with their bands. Text stays text."""

import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from ui.figures import HEIGHT, WIDTH, Axis, down, grid_lines, minus, number, ticks

FAR = 4.0
"""A score so many times as high as the next is off the scale: an arrow at its end."""
BARS = 20
"""About as many bars has a histogram."""


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


class Stroke(NamedTuple):
    """How a line is told from others: by its colour, by day and by night, and by dashes, for who sees no colours."""

    day: str
    night: str
    dashes: str


STROKES = (
    Stroke("#33312c", "#ece8df", ""),
    Stroke("#0072b2", "#56b4e9", "9 5"),
    Stroke("#c44e00", "#f0975a", "2 4"),
    Stroke("#00805c", "#3ccba0", "12 4 2 4"),
    Stroke("#a8437f", "#e39ac6", "5 3"),
)
"""In the order of the bands; the hues are those of Okabe and Ito."""


class Band(NamedTuple):
    """A line and the interval around it, at places from left to right."""

    name: str
    x: Sequence[float]
    low: Sequence[float]
    middle: Sequence[float]
    high: Sequence[float]


def bands(groups: Sequence[Band], *, label: str, end: str) -> str:
    """Lines in their bands, for the page, which says whether it is day or night."""
    x_axis, y_axis, heights = _axes(groups)
    hues = [f'style="--day:{each.day};--night:{each.night}"' for each in STROKES]
    drawn = "".join(
        f"<g {hue}>{_band(group, stroke, x_axis, y_axis)}</g>"
        for group, stroke, hue in zip(groups, STROKES, hues, strict=False)
    )
    key = "".join(
        f'<li {hue}><svg viewBox="0 0 40 8" aria-hidden="true"><polyline points="1,4 39,4" '
        f'stroke-dasharray="{stroke.dashes}"/></svg>{escape(group.name)}</li>'
        for group, stroke, hue in zip(groups, STROKES, hues, strict=False)
    )
    return (
        f'<figure class="curve bands"><figcaption><span>{escape(label)}</span></figcaption><ul class="key">{key}</ul>'
        f'<div class="plot">{grid_lines(y_axis, heights)}'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'{drawn}</svg></div><div class="ends"><span>0</span><span>{escape(end)}</span></div></figure>'
    )


def bands_file(groups: Sequence[Band], *, label: str, end: str, night: bool) -> str:
    """The same as a picture of its own, text and all: the content of an SVG file."""
    x_axis, y_axis, heights = _axes(groups)
    ink, quiet, line, paper = NIGHT if night else DAY
    left, top, right, bottom = 62, 40 + 24 * len(groups), 700, 40 + 24 * len(groups) + 260
    drawn, key = [], []
    for place, (group, stroke) in enumerate(zip(groups, STROKES, strict=False)):
        hue, y = stroke.night if night else stroke.day, 52 + 24 * place
        drawn.append(f'<g fill="{hue}" stroke="{hue}">{_band(group, stroke, x_axis, y_axis)}</g>')
        key.append(
            f'<line x1="{left}" x2="{left + 44}" y1="{y}" y2="{y}" stroke="{hue}" stroke-width="2.5" '
            f'stroke-dasharray="{stroke.dashes}"/><text x="{left + 54}" y="{y + 5}">{escape(group.name)}</text>'
        )
    grid = "".join(
        f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{line}"/>'
        f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{quiet}">{minus(f"{height:,g}")}</text>'
        for height in heights
        for y in [top + down(y_axis, height) * (bottom - top)]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {bottom + 30}" font-family="sans-serif" '
        f'font-size="14" fill="{ink}" role="img"><title>{escape(label)}</title>'
        "<style>polygon{opacity:.16;stroke:none}"
        "polyline{fill:none;stroke-width:2.2px;stroke-linejoin:round;vector-effect:non-scaling-stroke}</style>"
        f'<rect width="720" height="{bottom + 30}" fill="{paper}"/>'
        f'<text x="{left}" y="24" font-size="16" font-weight="bold">{escape(label)}</text>{"".join(key)}{grid}'
        f'<svg x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'preserveAspectRatio="none" overflow="visible">{"".join(drawn)}</svg>'
        f'<g fill="{quiet}"><text x="{left}" y="{bottom + 20}">0</text>'
        f'<text x="{right}" y="{bottom + 20}" text-anchor="end">{escape(end)}</text></g></svg>\n'
    )


DAY, NIGHT = ("#1d1c1b", "#6f6b62", "#e2ded4", "#ffffff"), ("#ece8df", "#a5a096", "#34322f", "#161513")
"""Ink, quiet ink, lines and paper of a picture."""


def _axes(groups: Sequence[Band]) -> tuple[Axis, Axis, list[float]]:
    """Both directions, and the round numbers that the upward one runs through."""
    heights = ticks([0.0, *(value for group in groups for value in (*group.low, *group.high))], 4)
    return Axis(0.0, max(group.x[-1] for group in groups)), Axis(heights[0], heights[-1]), heights


def _band(group: Band, stroke: Stroke, x_axis: Axis, y_axis: Axis) -> str:
    low, middle, high = (
        [f"{x_axis.share(a) * WIDTH:.1f},{down(y_axis, b) * HEIGHT:.2f}" for a, b in zip(group.x, line, strict=True)]
        for line in (group.low, group.middle, group.high)
    )
    return (
        f'<polygon points="{" ".join([*high, *reversed(low)])}"/>'
        f'<polyline points="{" ".join(middle)}" stroke-dasharray="{stroke.dashes}"/>'
    )


def shares(values: Sequence[float], label: str, ends: tuple[str, str]) -> str:
    """Shares of a whole as bars, in their order."""
    bars = "".join(f'<i style="height:{value / max(*values, 1e-9):.1%}"></i>' for value in values)
    spoken = f"{label}: {', '.join(f'{value:.0%}' for value in values)}"
    return (
        f'<figure class="histogram" style="--bars:{len(values)}"><figcaption>{escape(label)}</figcaption>'
        f'<div class="bars" role="img" aria-label="{escape(spoken)}">{bars}</div>'
        f'<div class="ends"><span>{escape(ends[0])}</span><span>{escape(ends[1])}</span></div></figure>'
    )
