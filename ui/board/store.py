"""Where the boards are kept: in SQLite, and no more of them than fits, whatever is sent."""

import sqlite3
import threading
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

FILE = "board.sqlite3"
MEMORY = ":memory:"
SCHEMA_VERSION = 1
PLACES = 50
"""For visitors, on one board."""
DAYS = 8
"""Boards of a week and of today are kept."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY,
    env TEXT NOT NULL,
    day TEXT NOT NULL,
    name TEXT NOT NULL,
    score REAL NOT NULL,
    steps INTEGER NOT NULL,
    by_hand INTEGER NOT NULL,
    query TEXT NOT NULL,
    agent TEXT NOT NULL,
    weights TEXT NOT NULL,
    moves TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS best ON entries (env, day, score DESC, id);
"""


class Board(NamedTuple):
    """Which board: one per game and day."""

    env: str
    day: date

    @property
    def key(self) -> tuple[str, str]:
        """As it is stored."""
        return self.env, self.day.isoformat()


class Entry(NamedTuple):
    """A game on a board."""

    name: str
    score: float
    steps: int
    by_hand: int
    """How many of its steps its visitor played; none of an agent's own game."""
    query: str
    """Of the link to it."""
    agent: str
    """Who played the other steps."""
    weights: str
    """The hash of that agent's: with others the link would be another game."""
    moves: str
    """The hash of all its actions: with the same ones it is the same game, whatever its link says."""


class Declined(ValueError):
    """A game that the board does not take; the message says why."""


class Store:
    """All boards. Raises sqlite3.Error, here and below, where they cannot be read or written."""

    def __init__(self, path: Path | str = MEMORY) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False)
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA_VERSION):
            raise sqlite3.DatabaseError(f"{path} is of version {version}, and this is version {SCHEMA_VERSION}")
        self._database.execute("PRAGMA journal_mode = WAL")  # who reads waits for nobody who writes
        self._database.executescript(f"{SCHEMA} PRAGMA user_version = {SCHEMA_VERSION};")

    def entries(self, board: Board) -> list[Entry]:
        """The entries of a board, the best first; of equal ones the earlier."""
        columns = ", ".join(Entry._fields)
        with self._lock:
            found = self._database.execute(
                f"SELECT {columns} FROM entries WHERE env = ? AND day = ? ORDER BY score DESC, id", board.key
            )
            return [Entry(*row) for row in found]

    def enter(self, board: Board, entry: Entry) -> int:
        """Puts a game on a board, and returns its place. Raises Declined where it is there already, or is not good
        enough for a board that is full."""
        with self._lock, self._database as database:
            if entry.by_hand:
                twin = database.execute(
                    "SELECT name FROM entries WHERE env = ? AND day = ? AND moves = ?", (*board.key, entry.moves)
                ).fetchone()
                if twin:
                    raise Declined(f"This very game is on the board already, by {twin[0]}.")
            marks = ", ".join("?" * (len(board.key) + len(entry)))
            columns = ", ".join(("env", "day", *Entry._fields))
            number = database.execute(
                f"INSERT INTO entries ({columns}) VALUES ({marks})", (*board.key, *entry)
            ).lastrowid
            best = "SELECT id FROM entries WHERE env = ? AND day = ? AND by_hand > 0 ORDER BY score DESC, id"
            kept = [row[0] for row in database.execute(f"{best} LIMIT {PLACES}", board.key)]
            if entry.by_hand and number not in kept:
                raise Declined(f"The board has room for {PLACES} games, and all of them scored as much or more.")
            database.execute(f"DELETE FROM entries WHERE id IN ({best} LIMIT -1 OFFSET {PLACES})", board.key)
            latest = f"SELECT DISTINCT day FROM entries ORDER BY day DESC LIMIT {DAYS}"
            database.execute(f"DELETE FROM entries WHERE day NOT IN ({latest})")
            better = "SELECT COUNT(*) FROM entries WHERE env = ? AND day = ? AND (score > ? OR (score = ? AND id < ?))"
            return 1 + database.execute(better, (*board.key, entry.score, entry.score, number)).fetchone()[0]

    def forget_others(self, weights: Mapping[str, str]) -> None:
        """Forgets the games of agents that are not these: each name with the hash of its weights."""
        with self._lock, self._database as database:
            known = database.execute("SELECT DISTINCT agent, weights FROM entries").fetchall()
            gone = [pair for pair in known if weights.get(pair[0]) != pair[1]]
            database.executemany("DELETE FROM entries WHERE agent = ? AND weights = ?", gone)

    def close(self) -> None:
        """Ends it."""
        with self._lock:
            self._database.close()
