"""Nudges in an address: `120.left-340.right` pushes a game before its steps 120 and 340."""

from a3c_core.recipe import Recipe
from playback.perturbation import Perturbation, perturbations_of

MOST_NUDGES = 20


def nudges_of(text: str, recipe: Recipe, most_steps: int) -> tuple[Perturbation, ...]:
    """The nudges that an address names. Raises ValueError, with a sentence."""
    if not text:
        return ()
    parts = [part.partition(".") for part in text.split("-", MOST_NUDGES)]
    if len(parts) > MOST_NUDGES:
        raise ValueError(f"A game allows {MOST_NUDGES} nudges at most.")
    kinds = perturbations_of(recipe)
    if not kinds:
        raise ValueError(f"{recipe.env} allows no nudges.")
    if not all(_whole(step, most_steps) and kind in kinds for step, _, kind in parts):
        raise ValueError(
            f"A nudge is a step before {most_steps:,} and one of {', '.join(kinds)}, as in 120.{kinds[0]}."
        )
    nudges = tuple(Perturbation(int(step), kind) for step, _, kind in parts)
    if list(nudges) != sorted(nudges, key=lambda nudge: nudge.step):
        raise ValueError("List the nudges in the order of their steps.")
    return nudges


def written(nudges: tuple[Perturbation, ...]) -> str:
    """Nudges as an address has them; nothing where there are none."""
    return "-".join(f"{step}.{kind}" for step, kind in nudges)


def _whole(text: str, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6 and int(text) < most
