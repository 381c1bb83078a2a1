"""Diagnostics: they show within minutes that a run learns nothing, where the score takes an hour."""

from collections.abc import Callable
from typing import NamedTuple

from training.log import Progress

PATIENCE = 60.0
"""Seconds that a sign must have been bad without a break; the first thousand updates are wild."""


class Diagnostic(NamedTuple):
    """Something that ails a run."""

    ails: Callable[[Progress], bool]
    says: str
    """What is wrong, and what has helped."""


DIAGNOSTICS = (
    Diagnostic(
        lambda p: min(p.active or (1.0,)) < 0.1,
        "nine in ten units of a layer are dead. Try layer_norm, a lower learning_rate, or a pixel_shift that makes the "
        "background 0.",
    ),
    Diagnostic(
        lambda p: p.explained_variance is not None and p.explained_variance < 0.01,
        "the value explains nothing. Try a higher learning_rate, or another pixel_shift or reward_scale.",
    ),
    Diagnostic(
        lambda p: p.gradient_norm == 0.0,
        "the gradient is zero: the agent has stopped learning. Train again with a lower learning_rate.",
    ),
)


class Diagnostics:
    """Watches the Progress of a run and says once what is wrong with it."""

    def __init__(self) -> None:
        self._since: dict[Diagnostic, float] = {}
        self._said: set[Diagnostic] = set()

    def check(self, progress: Progress) -> list[str]:
        """The signs that have been bad for PATIENCE seconds by now and were not told yet, in words."""
        if not progress.updates:
            return []
        ailing = [sign for sign in DIAGNOSTICS if sign.ails(progress)]
        self._since = {sign: self._since.get(sign, progress.seconds) for sign in ailing}
        news = [s for s in ailing if progress.seconds - self._since[s] >= PATIENCE and s not in self._said]
        self._said.update(news)
        return [f"at {progress.steps:,} steps {sign.says}" for sign in news]
