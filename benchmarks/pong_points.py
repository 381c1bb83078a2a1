"""How a Pong agent wins and loses its points: how long they take, where its paddle is while the ball comes, and how
fast the balls come that it misses.

    python -m benchmarks.pong_points zoo/weights/pong_sticky runs/Pong-v5-seed0-1

Each agent plays greedy games, and the ball and the paddle are found in its observations. A paddle that is far away
until the last steps dashes to the ball: a sticky action can delay the dash. The ball arrives where it turns back at the
right side, or where it was last seen before a lost point. Distances are in rows of the observation: the field has 63 of
them, and a paddle 8.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tyro
from tyro.conf import Positional

from a3c_core.agent import Agent
from a3c_core.checkpoint import load_agent
from a3c_core.envs import Protocol
from a3c_core.evaluation import Stepped, evaluate
from benchmarks.text import table

BEFORE = (8, 4, 3, 2, 1, 0)
"""Steps of the agent before the ball arrives at which the distance is told."""

FIELD = slice(14, 77)
"""Rows of an observation between the walls."""

BALL_COLUMNS = slice(12, 73)
"""Columns between the paddles."""

PADDLE_COLUMNS = slice(74, 76)
"""Columns of the agent's paddle."""

RIGHT = 62
"""A ball that turns back beyond this column was hit by the agent."""

FAST = 1.5
"""A ball that leaves at more than this multiple of the speed at which it came was hit by a paddle that fired."""

SPEEDS = {"up to 3": (0, 3), "3 to 5": (3, 5), "more than 5": (5, np.inf)}
"""Columns per step at which a ball comes: what the opponent returns keeps the speed at which the agent hit it."""


class Track(NamedTuple):
    """One game, step by step."""

    column: np.ndarray
    """Column of the ball, float [steps]; NaN where it isn't between the paddles."""
    row: np.ndarray
    """Row of the ball, float [steps]; NaN where the column is."""
    paddle: np.ndarray
    """Row of the middle of what is seen of the agent's paddle, float [steps]; NaN where it is hidden."""
    reward: np.ndarray
    """Float [steps]: 1 where the agent won a point, -1 where it lost one."""


def positions(screen: np.ndarray) -> tuple[float, float, float]:
    """Column and row of the ball and row of the paddle in the screen, uint8 [84, 84]; NaN what isn't seen."""
    field = screen[FIELD]
    seen = field != np.bincount(field.ravel()).argmax()
    rows, columns = np.nonzero(seen[:, BALL_COLUMNS])
    ball = (BALL_COLUMNS.start + columns.mean(), rows.mean()) if len(rows) else (np.nan, np.nan)
    paddle = np.flatnonzero(seen[:, PADDLE_COLUMNS].any(axis=1))
    return *ball, paddle.mean() if len(paddle) else np.nan


def play(agent: Agent, games: int, protocol: Protocol, first_seed: int) -> list[Track]:
    """Plays greedy games with the seeds first_seed and following."""
    steps: list[list[tuple[float, float, float, float]]] = [[] for _ in range(games)]

    def watch(stepped: Stepped) -> None:
        for game, obs, reward in zip(stepped.game, stepped.obs, stepped.reward, strict=True):
            steps[game].append((*positions(obs[-1]), reward))

    evaluate(agent, games, protocol=protocol, first_seed=first_seed, watch=watch)
    return [Track(*np.array(game).T) for game in steps]


def arrivals(track: Track) -> tuple[np.ndarray, np.ndarray]:
    """The steps at which the agent hits the ball, and at which a ball that it misses is last seen; int64 each."""
    before, now, after = track.column[:-2], track.column[1:-1], track.column[2:]
    hits = 1 + np.flatnonzero((now > RIGHT) & (before < now) & (after < now))
    seen = np.flatnonzero(~np.isnan(track.column))
    lost = np.flatnonzero(track.reward < 0)
    return hits, seen[np.searchsorted(seen, lost, side="right") - 1]


def distances(track: Track, steps: np.ndarray) -> np.ndarray:
    """Rows between the paddle and where the ball arrives, at the times of `BEFORE`; float [arrivals, times].

    Leaves out arrivals that have fewer steps before them.
    """
    steps = steps[steps >= max(BEFORE)]
    return np.abs(track.paddle[steps[:, None] - np.array(BEFORE)] - track.row[steps, None])


def speeds(track: Track, steps: np.ndarray) -> np.ndarray:
    """Columns per step at which the ball came to each arrival; float, NaN where it isn't seen."""
    steps = steps[steps >= 3]
    return (track.column[steps - 1] - track.column[steps - 3]) / 2


def speed_ratios(track: Track, hits: np.ndarray) -> np.ndarray:
    """Columns per step of the ball after each hit, as a multiple of those before it; float, NaN where it isn't seen."""
    hits = hits[(hits >= 3) & (hits < len(track.column) - 3)]
    after = (track.column[hits + 1] - track.column[hits + 3]) / 2
    return after / speeds(track, hits)


def missed_row(tracks: list[Track], hits: Iterable[np.ndarray], missed: Iterable[np.ndarray]) -> tuple[str, ...]:
    """How many of the balls that came at each of `SPEEDS` were missed."""
    hit, gone = (
        np.concatenate([speeds(track, steps) for track, steps in zip(tracks, arrived, strict=True)])
        for arrived in (hits, missed)
    )
    counts = [[((low < came) & (came <= high)).sum() for came in (gone, hit)] for low, high in SPEEDS.values()]
    return tuple(f"{lost} of {lost + kept}" for lost, kept in counts)


def points_row(tracks: list[Track], hits: Iterable[np.ndarray]) -> tuple[str, str, str, str]:
    """How many of the points were lost, the mean steps of one that was won and of one that was lost, and the share of
    fast hits."""
    ends = [np.flatnonzero(track.reward) for track in tracks]
    steps = np.concatenate([np.diff(end, prepend=-1) for end in ends])
    lost = np.concatenate([track.reward[end] < 0 for track, end in zip(tracks, ends, strict=True)])
    won, gone = (f"{steps[which].mean():.0f}" if which.any() else "" for which in (~lost, lost))
    ratios = np.concatenate([speed_ratios(track, steps) for track, steps in zip(tracks, hits, strict=True)])
    ratios = ratios[~np.isnan(ratios)]
    fast = f"{(ratios > FAST).mean():.0%}" if len(ratios) else ""
    return f"{lost.sum()} of {len(lost)} ({lost.mean():.1%})", won, gone, fast


def paddle_row(tracks: list[Track], arrived: Iterable[np.ndarray]) -> tuple[int | str, ...]:
    """How many balls arrived, and the median distance at each of the times of `BEFORE`."""
    rows = np.concatenate([distances(track, steps) for track, steps in zip(tracks, arrived, strict=True)])
    medians = np.nanmedian(rows, axis=0) if len(rows) else ()
    return len(rows), *(f"{median:.1f}" for median in medians)


def main(
    agents: Positional[tuple[Path, ...]], /, games: int = 24, protocol: Protocol = "sticky", first_seed: int = 800_000
) -> None:
    """Tell how Pong agents win and lose their points.

    Args:
        agents: directories of trainings or of the zoo's weights.
        games: how many each of them plays.
        protocol: by which rules.
        first_seed: seed of the first game; the next ones follow.
    """
    points, paddles, lost = [], [], []
    for path in agents:
        agent = load_agent(path)
        if agent.recipe.env != "ALE/Pong-v5":
            sys.exit(f"error: {path} plays {agent.recipe.env}, not Pong")
        tracks = play(agent, games, protocol, first_seed)
        hits, missed = zip(*map(arrivals, tracks), strict=True)
        points.append((path, *points_row(tracks, hits)))
        paddles += [(path, "hit", *paddle_row(tracks, hits)), (path, "missed", *paddle_row(tracks, missed))]
        lost.append((path, *missed_row(tracks, hits, missed)))
    print(f"{protocol} protocol, {games} games, greedy actions, from seed {first_seed}\n")
    print(table(("agent", "points lost", "steps of a point won", "of a point lost", "fast hits"), points))
    print("\nRows between the paddle and where the ball arrives, the median, by steps before that:\n")
    print(table(("agent", "the ball is", "times", *map(str, BEFORE)), paddles))
    print("\nBalls missed, by the columns per step at which they come:\n")
    print(table(("agent", *SPEEDS), lost))


if __name__ == "__main__":
    tyro.cli(main)
