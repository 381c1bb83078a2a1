"""Plays the games and runs the trainings that the page How it works shows: `python -m ui.how.record`. Takes minutes."""

import base64
import dataclasses
import io
import json
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import zoo
from a3c_core.checkpoint import MODEL
from playback.episode import play
from training.recipes import RECIPES
from training.run import train
from ui.how.records import RECORDS, Picture, RecordedGame, Training
from ui.how.trace import Update, traced

AGENT, YOUNG = "pong", 25
YOUNG_SEED = 31
"""Of a game in which one point is lost that the value foresaw and one that it did not."""
STEPS = 420
"""Of each game: half a minute."""
SHOWN_UPDATES = 22
TRACED_STEPS = 60_000
TRAINED_STEPS = 200_000
TOO_HIGH = 10
"""Times the recipe's learning rate."""


def main() -> None:
    """Records everything and writes it."""
    recipe = RECIPES["cartpole"]
    young = game(YOUNG, seed=YOUNG_SEED, greedy=False)
    traces = {workers: trace(workers) for workers in (2, 4)}
    trainings = [training({}), training({"learning_rate": TOO_HIGH * recipe.learning_rate})]
    everything = {
        "trained": game(100, seed=0, greedy=True)._asdict(),
        "young": young._asdict(),
        "frames": [picture._asdict() for picture in frames(young)],
        "trace": [dict(zip(Update._fields, update, strict=True)) for update in shown(traces[2])],
        "staleness": {workers: Counter(update.staleness for update in found) for workers, found in traces.items()},
        "trainings": [each._asdict() for each in trainings],
    }
    RECORDS.write_text(compact(everything), encoding="utf-8")


def game(snapshot: int, *, seed: int, greedy: bool) -> RecordedGame:
    """The beginning of a game of Pong."""
    print(f"playing {AGENT} at {snapshot} %", flush=True)
    entry = zoo.entries()[AGENT]
    file = MODEL if snapshot == 100 else f"snapshots/{snapshot}/{MODEL}"
    episode = play(entry.open(snapshot), seed, greedy=greedy, max_steps=STEPS)
    values = [round(float(value), 3) for value in episode.values]
    return RecordedGame(
        AGENT, snapshot, entry.sha256[file], seed, greedy, episode.actions.tolist(), values, episode.rewards.tolist()
    )


def frames(young: RecordedGame) -> list[Picture]:
    """The four frames that the agent saw shortly before it lost its first point."""
    step = int(np.flatnonzero(young.rewards)[0]) - 8
    with closing(zoo.load(AGENT).make_env()) as env:
        env.reset(seed=young.seed)
        for action in young.actions[:step]:
            obs, *_ = env.step(action)
    return [Picture(step - 3 + i, png(frame)) for i, frame in enumerate(obs)]


def png(frame: np.ndarray) -> str:
    """A grey picture, as text."""
    file = io.BytesIO()
    Image.fromarray(frame).save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def trace(workers: int) -> list[Update]:
    """All updates of a short CartPole training."""
    print(f"tracing {workers} workers", flush=True)
    return traced(dataclasses.replace(RECIPES["cartpole"], workers=workers, steps=TRACED_STEPS))


def shown(updates: list[Update]) -> list[Update]:
    """The first stretch of the second half in which staleness 0, 1 and 2 occur; its first pull is at 0 ms."""
    windows = [updates[i : i + SHOWN_UPDATES] for i in range(len(updates) // 2, len(updates) - SHOWN_UPDATES)]
    found = next(w for w in windows if {update.staleness for update in w} >= {0, 1, 2})
    start = min(update.pull for update in found)
    times = ("pull", "play", "learn", "push", "done")
    return [u._replace(**{name: round(getattr(u, name) - start, 2) for name in times}) for u in found]


def training(change: dict[str, float]) -> Training:
    """The first half of a CartPole training."""
    print(f"training with {change}", flush=True)
    recipe = dataclasses.replace(RECIPES["cartpole"], **change)
    moments = []
    with tempfile.TemporaryDirectory() as place, closing(train(recipe, Path(place) / "run")) as progress:
        for moment in progress:
            if moment.mean_return is not None and moment.updates:
                moments.append(moment)
            if moment.steps >= TRAINED_STEPS:
                break
    return Training(
        change,
        [moment.steps for moment in moments],
        [round(moment.mean_return, 1) for moment in moments],
        [round(moment.entropy, 3) for moment in moments],
    )


def compact(record: dict[str, Any]) -> str:
    """JSON with a line for each part."""
    lines = [f'"{name}": {json.dumps(part, separators=(",", ":"))}' for name, part in record.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
