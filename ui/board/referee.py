"""Who lets games onto the boards: each is played again here, and scores what that comes to, whatever is claimed."""

import hashlib
import math
import os
import sqlite3
import sys
import threading
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import zoo
from playback.takeover import until
from ui.admission import Admission
from ui.board.days import day_of, open_days, seed_of, today
from ui.board.names import cleaned
from ui.board.store import DAYS, FILE, Board, Declined, Entry, Store
from ui.figures import number as shown
from ui.play.controls import CONTROLS
from ui.streaming import takeovers
from ui.streaming.chunks import EpisodeSpec
from ui.streaming.replay import Outcome, replay
from ui.streaming.routes import FAILURES, Refused, number, spec_of
from ui.streaming.stream import BrokenOff

SETTING = "A3C_BOARD"
"""The environment variable with the directory that keeps the boards, or `off`; without it memory keeps them."""
OFF = "off"
END_SECONDS = 2.0
"""How long the end of the process waits for a game of an agent to end."""


class Placed(NamedTuple):
    """Where a game has come to stand on its board."""

    place: int
    score: float
    query: str
    """As its entry has it."""


class Referee:
    """Plays games again and keeps the boards."""

    def __init__(self, store: Store) -> None:
        self.checks = Admission(at_once=1, waiting=6)
        """Visitors' games that are played again: one takes a core for some seconds, half an hour of Atari a minute."""
        self._store = store
        self._ending = threading.Event()
        self._agents: threading.Thread | None = None
        self._asked: set[tuple[Board, str]] = set()
        """Which agents have been let onto which boards: one that breaks down is not asked again and again."""
        self._lock = threading.Lock()
        store.forget_others({name: weights_of(entry) for name, entry in zoo.entries().items()})

    def entries(self, board: Board) -> list[Entry]:
        """The entries of a board, the best first."""
        return self._store.entries(board)

    def enter(self, asked: Mapping[str, str]) -> Placed:
        """Plays the game of a link again, and puts it on its board under the name that comes with it.

        Raises Refused and Declined, with a sentence, Busy, and what `replay` raises.
        """
        spec, claimed = fair_spec(asked), claim_of(asked)
        with self.checks.turn():
            outcome = replay(asked, self._go_on)
        if claimed is not None and not math.isclose(claimed, outcome.score, abs_tol=1e-6):
            raise Declined(f"Played again, this game scores {shown(outcome.score)}, not {claimed:,g}.")
        entry = entry_of(outcome, cleaned(asked.get("name", "")))
        if not entry.by_hand:
            raise Declined("You have played no step of this game. Take over before its end.")
        return Placed(self._store.enter(board_of(spec), entry), entry.score, entry.query)

    def let_agents_play(self, board: Board) -> bool:
        """Lets the zoo's agents play that are not on a board yet, and returns whether some are still at it."""
        with self._lock:
            if self._agents and self._agents.is_alive():
                return True
            there = {entry.name for entry in self.entries(board) if not entry.by_hand}
            names = [name for name, entry in zoo.entries().items() if entry.recipe.env == board.env]
            lacking = [name for name in names if name not in there and (board, name) not in self._asked]
            if not lacking or board.day not in open_days() or self._ending.is_set():
                return False
            self._asked |= {(board, name) for name in lacking}
            self._agents = threading.Thread(target=self._let_play, args=(board, lacking), daemon=True)
            self._agents.start()
            return True

    def _let_play(self, board: Board, names: list[str]) -> None:
        for name in names:
            try:
                outcome = replay({"agent": name, "seed": str(seed_of(board.day))}, self._go_on)
                self._store.enter(board, entry_of(outcome, name))
            except BrokenOff:
                return
            except (*FAILURES, sqlite3.Error) as error:
                print(f"{name} is not on the board: {error}", file=sys.stderr)

    def _go_on(self, steps: int) -> None:
        """Raises BrokenOff once the app ends."""
        if self._ending.is_set():
            raise BrokenOff

    def end(self) -> None:
        """Ends the games that are played again, and closes the boards."""
        self._ending.set()
        if self._agents:
            self._agents.join(END_SECONDS)
        self._store.close()


def board_of(spec: EpisodeSpec) -> Board:
    """The board of a fair spec."""
    return Board(zoo.entries()[spec.agent].recipe.env, day_of(spec.seed))


def fair_spec(asked: Mapping[str, str]) -> EpisodeSpec:
    """The spec of a game that can come onto a board. Raises Refused, with a sentence."""
    spec = spec_of(asked)
    if spec.agent not in zoo.entries() or zoo.entries()[spec.agent].recipe.env not in CONTROLS:
        raise Refused("The board takes games that people can play, taken over from an agent of the zoo.")
    if day_of(spec.seed) not in open_days():
        raise Refused(f"Today's board takes games of seed {seed_of(today())}, and this one has seed {spec.seed}.")
    if spec.protocol != "classic" or spec.nudges:
        raise Refused("The board takes games without sticky actions and nudges: all who play have the same game.")
    if not spec.takeovers:
        raise Refused("This is the agent's own game, which the board has already. Take over and play a step yourself.")
    return spec


def claim_of(asked: Mapping[str, str]) -> float | None:
    """The score that a visitor has seen, if it is told. Raises Refused, with a sentence."""
    try:
        return float(asked["score"]) if "score" in asked else None
    except ValueError:
        raise Refused("The score must be a number.") from None


def entry_of(outcome: Outcome, name: str) -> Entry:
    """A game as its board has it; what a link does after the game's end is no part of it."""
    spec = outcome.spec
    played = until(spec.takeovers, outcome.steps)
    asked = {"agent": spec.agent, "seed": spec.seed, "snapshot": spec.snapshot}
    asked |= {"actions": "greedy" if spec.greedy else "sampled"}
    asked |= {"takeovers": takeovers.written(played)} if played else {}
    return Entry(
        name=name,
        score=outcome.score,
        steps=outcome.steps,
        by_hand=sum(len(takeover.actions) for takeover in played),
        query=urlencode(asked),
        agent=spec.agent,
        weights=weights_of(zoo.entries()[spec.agent]),
        moves=hashlib.sha256(outcome.actions.tobytes()).hexdigest(),
    )


def weights_of(entry: zoo.ZooEntry) -> str:
    """The hash of all files of an agent."""
    return hashlib.sha256(repr(sorted(entry.sha256.items())).encode()).hexdigest()


def asked_board(asked: Mapping[str, str]) -> Board:
    """The board of a query's game and seed. Raises Refused, with a sentence, where none is kept."""
    env, seed = asked.get("env", ""), number(asked, "seed", 0, seed_of(date.max))
    if env not in CONTROLS:
        raise Refused(f"Choose a game: {' or '.join(CONTROLS)}.")
    day = day_of(seed)
    if day is None or not 0 <= (today() - day).days < DAYS:
        raise Refused(f"There are boards of the last {DAYS} days, such as seed {seed_of(today())}.")
    return Board(env, day)


def referee_of_host() -> Referee | None:
    """One that keeps the boards where the host wants them; None where there are to be none."""
    place = os.environ.get(SETTING, "").strip()
    if place.lower() == OFF:
        return None
    try:
        if place:
            Path(place).mkdir(parents=True, exist_ok=True)
            return Referee(Store(Path(place) / FILE))
    except (OSError, sqlite3.Error) as error:
        print(f"The boards cannot be kept in {place} ({error}), so they last until the app ends.", file=sys.stderr)
    return Referee(Store())
