"""Curves as SVG, drawn from numbers alone. Text stands beside the drawing and so keeps its size on every screen."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

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
    """
    x_axis = Axis(0.0, max(x_high or 0.0, x[-1] if len(x) else 0.0, 1e-9))
    heights = ticks([0.0, *y, *([goal.value] if goal else [])], marks)
    y_axis = Axis(heights[0], heights[-1])
    pairs = ((x_axis.share(a) * WIDTH, down(y_axis, b) * HEIGHT) for a, b in zip(x, y, strict=True))
    points = " ".join(f"{a:.1f},{b:.2f}" for a, b in pairs)
    numbers = f' data-numbers="{" ".join(f"{value:.4g}" for value in y)}"' if readout else ""
    last = number(y[-1]) if len(y) else ""
    spoken = f"{label}: {last} at the end" if last else label
    return (
        f'<figure class="curve" data-game="{escape(game)}" data-points="{len(y)}"{numbers}>'
        f"<figcaption><span>{escape(label)}</span><output>{last}</output></figcaption>"
        f'<div class="plot">{grid_lines(y_axis, heights)}{_goal(y_axis, goal)}'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(spoken)}">'
        f'<polyline points="{points}"/>{f"<line class=playhead y2={HEIGHT} />" if readout else ""}</svg>'
        f"{f'<p>{escape(empty)}</p>' if empty and not len(y) else ''}</div>"
        f'<div class="ends"><span>{escape(ends[0])}</span><span>{escape(ends[1])}</span></div></figure>'
    )


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


def _goal(axis: Axis, goal: Goal | None) -> str:
    if goal is None:
        return ""
    return f'<span class="goal" style="top:{down(axis, goal.value):.2%}"><b>{escape(goal.words)}</b></span>'


def down(axis: Axis, value: float) -> float:
    """How far below the top of a plot `value` is, as a share of its height."""
    return 1.0 - axis.share(value)
