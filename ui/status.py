"""The state of a training in words and numbers."""

from html import escape

from training.log import Progress
from ui.figures import number


def alert_of(markup: str) -> str:
    """Why something else is shown than was asked for."""
    return f'<p role="alert"><strong>{markup}</strong></p>'


def status_of(sentence: str, progress: Progress | None = None, *, over: bool = False) -> str:
    """The state of a run: a sentence and, once it has begun, its numbers."""
    text = f'<p role="status">{escape(sentence)}</p>'
    if progress is None:
        return text
    rate = progress.steps / max(progress.seconds, 1e-9) if over else progress.steps_per_second
    left = "–" if progress.seconds_left is None else duration(progress.seconds_left)
    numbers = {
        "Steps": f"{progress.steps:,}",
        "Steps a second": f"{rate:,.0f}",
        "Mean return": "–" if progress.mean_return is None else number(progress.mean_return),
        **({"Time": duration(progress.seconds)} if over else {"Time left": left}),
    }
    return text + "<dl>" + "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in numbers.items()) + "</dl>"


def duration(seconds: float) -> str:
    """Seconds, or minutes and seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
