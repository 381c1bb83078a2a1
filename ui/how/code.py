"""Pieces of the program's own code, read from it as it runs."""

import inspect
import textwrap
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import NamedTuple

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from a3c_core.handover import QueuedParameters, SynchronousParameters
from a3c_core.loss import a3c_loss, advantages, batch_of, discounted_sums
from a3c_core.model import ActorCritic, LSTMCore
from a3c_core.rollout import Stepper
from a3c_core.shared import SharedParameters
from a3c_core.worker import work

ROOT = Path(__file__).parents[2]
INDENT = "    "


class Piece(NamedTuple):
    """Lines of a function, from one that begins with `first` to the next that begins with `last`, both included."""

    function: Callable
    first: str
    last: str = ""
    """Empty: the piece is one line. "end": it goes on to the function's last line."""


PIECES: dict[str, Piece] = {
    "network": Piece(ActorCritic.forward, "features = ", "end"),
    "rollout_act": Piece(Stepper.rollout, "for _ in range", "log_prob = "),
    "rollout_step": Piece(Stepper.rollout, "self._obs, reward", "learner_reward = "),
    "rollout_end": Piece(Stepper.rollout, "cut_short = ", "learner_reward += "),
    "rollout_discount": Piece(Stepper.rollout, "stops = ", "self._reset"),
    "rollout_return": Piece(Stepper.rollout, "*parts, values = ", "rollout = "),
    "deltas": Piece(advantages, "deltas = ", "end"),
    "estimates": Piece(discounted_sums, "total, ", "end"),
    "loss_look": Piece(a3c_loss, "policy, values, _"),
    "loss_constants": Piece(batch_of, "estimates = ", "returns = "),
    "loss_weight": Piece(a3c_loss, "weight = ", "weight = (weight"),
    "loss_terms": Piece(a3c_loss, "log_probs = ", "total = "),
    "work_begin": Piece(work, "envs = ", "stepper = "),
    "work_pull": Piece(work, "while ", "seen = "),
    "work_play": Piece(work, "rollout = ", "steps, returns = "),
    "work_learn": Piece(work, "if recipe.vtrace", "gradient, norm"),
    "work_push": Piece(work, "before = "),
    "work_report": Piece(work, "_, *parts = ", "report("),
    "pull": Piece(SharedParameters.pull, "def ", "end"),
    "push": Piece(SharedParameters.push, "def ", "end"),
    "push_queue": Piece(QueuedParameters.push, "def ", "end"),
    "push_mean": Piece(SynchronousParameters.push, "def ", "end"),
    "lstm": Piece(LSTMCore.forward, "def ", "end"),
}
"""By the names that the text has for them."""


def lines_of(piece: Piece) -> tuple[list[str], int]:
    """A piece's lines, as far to the left as its function allows, and the number of the first. Raises LookupError."""
    lines, start = inspect.getsourcelines(piece.function)
    name = f"{piece.function.__qualname__} has no line that begins with"
    begin = _find(lines, piece.first, 0, f"{name} {piece.first!r}")
    end = len(lines) - 1 if piece.last == "end" else begin
    if piece.last not in ("", "end"):
        end = _find(lines, piece.last, begin, f"{name} {piece.last!r}")
    text = textwrap.dedent("".join(lines)).splitlines()[begin : end + 1]
    whole = text[0].startswith(("def ", "@"))
    return text if whole else [line.removeprefix(INDENT) for line in text], start + begin


def shown(name: str) -> str:
    """A piece as HTML, with its place in the code."""
    piece = PIECES[name]
    lines, number = lines_of(piece)
    file = Path(inspect.getsourcefile(inspect.unwrap(piece.function))).relative_to(ROOT).as_posix()
    coloured = highlight("\n".join(lines), PythonLexer(), HtmlFormatter(nowrap=True))
    place = f"{file}, line {number}"
    return (
        f'<figure class="code"><figcaption>{escape(place)}</figcaption>'
        f'<pre tabindex="0" aria-label="{escape(place)}"><code>{coloured}</code></pre></figure>'
    )


def _find(lines: list[str], start: str, after: int, otherwise: str) -> int:
    for i, line in enumerate(lines[after:], start=after):
        if line.strip().startswith(start):
            return i
    raise LookupError(otherwise)
