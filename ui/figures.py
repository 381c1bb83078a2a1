"""Curves as SVG, drawn from numbers alone. Text stands beside the drawing and so keeps its size on every screen."""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple, TypeVar

WIDTH, HEIGHT = 1000, 100
"""The drawing's own units; the page stretches it."""


class Axis(NamedTuple):
    """What one direction of a curve runs over."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Where `value` lies between low (0) and high (1)."""
        return (value - self.low) / (self.high - self.low)


class Goal(NamedTuple):
    """A height to be reached, drawn as a line."""

    value: float
    words: str


Item = TypeVar("Item")


class Line(NamedTuple):
    """Another run's curve, drawn thin beside the first."""

    x: Sequence[float]
    y: Sequence[float]
    words: str
    """What it is, for the legend."""


def precise(value: float) -> str:
    """A number of any size with three digits that count, and with a true minus sign."""
    if abs(value) < 1e-6:
        return "0"
    return number(value) if abs(value) >= 100 else minus(f"{value:.3g}")


def curve(
    x: Sequence[float],
    y: Sequence[float],
    *,
    label: str,
    game: str,
    ends: tuple[str, str],
    x_high: float | None = None,
    goal: Goal | None = None,
    readout: bool = False,
    marks: int = 2,
    empty: str = "",
    beside: Sequence[Line] = (),
    name: str = "",
    words: Callable[[float], str] | None = None,
) -> str:
    """A curve as HTML.

    Args:
        x: from 0 upwards.
        y: as many, finite numbers.
        label: what y is.
        game: Gymnasium id, which gives the colour.
        ends: words under the left and the right end of the x axis.
        x_high: right end of the x axis, by default the last x.
        goal: a line to compare with.
        readout: show the number under the playhead, which follows the video in the same cabinet.
        marks: about how many intervals the y axis, which always holds 0, is divided into.
        empty: what to say where there is no point yet.
        beside: other runs' curves, which a legend names.
        name: what the legend calls this one.
        words: how the last number is written, by default as `number` does.
    """
    words = words or number
    x_axis = Axis(0.0, max(x_high or 0.0, 1e-9, *(line[-1] for line in (x, *(other.x for other in beside)) if line)))
    heights = ticks([0.0, *y, *(b for line in beside for b in line.y), *([goal.value] if goal else [])], marks)
    y_axis = Axis(heights[0], heights[-1])
    numbers = f' data-numbers="{" ".join(f"{value:.4g}" for value in y)}"' if readout else ""
    last = words(y[-1]) if len(y) else ""
    spoken = f"{label}: {last} at the end" if last else label
    return (
        f'<figure class="curve" data-game="{escape(game)}" data-points="{len(y)}"{numbers}>'
        f'<figcaption><span>{escape(label)}</span><output aria-live="off">{last}</output></figcaption>'
        f'<div class="plot">{grid_lines(y_axis, heights)}{_goal(y_axis, goal)}'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(spoken)}">'
        f"{''.join(_line(x_axis, y_axis, line.x, line.y, place) for place, line in enumerate(beside))}"
        f"{_line(x_axis, y_axis, x, y)}{f'<line class=playhead y2={HEIGHT} />' if readout else ''}</svg>"
        f"{f'<p>{escape(empty)}</p>' if empty and not (len(y) or beside) else ''}</div>"
        f'<div class="ends"><span>{escape(ends[0])}</span><span>{escape(ends[1])}</span></div>'
        f"{_legend(name if len(y) else '', beside)}</figure>"
    )


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """`most` of the items at even distances, the first and the last among them, or all where they are fewer."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def ticks(values: Sequence[float], count: int) -> list[float]:
    """Round numbers, about `count` of them apart from the first, from below the least value to above the greatest."""
    low, high = min(values), max(values)
    if high - low < 1e-6:
        high = low + 1.0
    rough = (high - low) / count
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = magnitude * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough * 0.999)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    return [step * i for i in range(first, last + 1)]


def number(value: float) -> str:
    """A number as the page shows it: whole where it is whole, else with one decimal, and with a true minus sign."""
    text = f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{round(value, 1) + 0.0:,.1f}"
    return minus(text)


def minus(text: str) -> str:
    """Numbers as text, with true minus signs."""
    return text.replace("-", "−")


def grid_lines(axis: Axis, heights: Sequence[float]) -> str:
    """Lines across a plot at round numbers, which stand beside it."""
    return "".join(
        f'<span class="tick" style="top:{down(axis, height):.2%}"><b>{minus(f"{height:,g}")}</b></span>'
        for height in heights
    )


def _line(x_axis: Axis, y_axis: Axis, x: Sequence[float], y: Sequence[float], place: int | None = None) -> str:
    pairs = ((x_axis.share(a) * WIDTH, down(y_axis, b) * HEIGHT) for a, b in zip(x, y, strict=True))
    points = " ".join(f"{a:.1f},{b:.2f}" for a, b in pairs)
    return f'<polyline{"" if place is None else f" class=earlier data-line={place}"} points="{points}"/>'


def _legend(name: str, beside: Sequence[Line]) -> str:
    """A list of this curve and those beside it, each with its stroke, its words and its last number."""
    if not beside:
        return ""
    stroke = '<svg viewBox="0 0 34 8" aria-hidden="true"><line x1="1" x2="33" y1="4" y2="4"/></svg>'
    items = [f'<li class="now">{stroke}<span>{escape(name)}</span></li>'] if name else []
    items += [
        f"<li data-line={place}>{stroke}<span>{escape(line.words)}</span><b>{number(line.y[-1])}</b></li>"
        for place, line in enumerate(beside)
    ]
    return f'<ul class="legend" aria-label="Trainings in this figure">{"".join(items)}</ul>'


def _goal(axis: Axis, goal: Goal | None) -> str:
    if goal is None:
        return ""
    return f'<span class="goal" style="top:{down(axis, goal.value):.2%}"><b>{escape(goal.words)}</b></span>'


def down(axis: Axis, value: float) -> float:
    """How far below the top of a plot `value` is, as a share of its height."""
    return 1.0 - axis.share(value)
