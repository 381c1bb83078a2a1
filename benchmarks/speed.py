"""Steps per second on Pong with two cores: ours, stable-baselines3's A2C with the same network, the emulator alone.

    pip install -r benchmarks/requirements.txt
    python -m benchmarks.speed

A step is one decision of one agent: four frames. Every trial runs alone, in a fresh process, competitor after
competitor in each round; the seconds of starting up are not counted. The emulator alone steps random actions with two
threads: no training can be faster. Ours trains the recipe `pong`, with the network and the workers that its line names,
and with the recipe's 8 games for each worker unless the line says more: many games make a better use of each call. It
computes its encoder with bfloat16 where the processor has it, as the recipe does; the peer has float32 alone, so two
lines of ours have that too.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import tyro

from a3c_core.recipe import Recipe
from benchmarks.results import PACKAGES, machine, save

WARM_UP = 5.0
"""Seconds of full speed before the count begins."""


class Trial(NamedTuple):
    """One stretch of one competitor."""

    competitor: str
    round: int
    steps: int
    seconds: float


def ours(seconds: float, **changes: str | int) -> tuple[int, float]:
    """Our engine with the recipe of Pong but for some changes; no layer norm, since the peer's network has none."""
    from training.recipes import RECIPES

    return stretch_of(replace(RECIPES["pong"], layer_norm=False, **changes), seconds)


def stretch_of(recipe: Recipe, seconds: float) -> tuple[int, float]:
    """Steps of a training after its warm-up, and the seconds that they took; checkpoints and logs are part of it."""
    from training.run import train

    with tempfile.TemporaryDirectory() as directory:
        run = train(replace(recipe, steps=10**9), Path(directory) / "run")
        begun = next(moment for moment in run if moment.updates)
        first = next(moment for moment in run if moment.seconds - begun.seconds >= WARM_UP)
        last = next(moment for moment in run if moment.seconds - first.seconds >= seconds)
        run.close()
    return last.steps - first.steps, last.seconds - first.seconds


def sb3(seconds: float, *, games: int = 16) -> tuple[int, float]:
    """stable-baselines3's A2C with its network of the Nature paper and RL Zoo's settings for Atari."""
    import ale_py
    import gymnasium as gym
    from stable_baselines3 import A2C
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    gym.register_envs(ale_py)

    class For(BaseCallback):
        def _on_step(self) -> bool:
            marks.append((self.num_timesteps, time.perf_counter()))
            return marks[-1][1] - marks[0][1] < WARM_UP + seconds

    marks: list[tuple[int, float]] = []
    envs = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=games, seed=0), n_stack=4)
    settings = {"ent_coef": 0.01, "vf_coef": 0.25, "policy_kwargs": {"optimizer_class": _rmsprop()}}
    A2C("CnnPolicy", envs, device="cpu", seed=0, **settings).learn(10**9, callback=For())
    first = next(mark for mark in marks if mark[1] - marks[0][1] >= WARM_UP)
    return marks[-1][0] - first[0], marks[-1][1] - first[1]


def _rmsprop() -> type:
    from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

    return RMSpropTFLike


def emulator(seconds: float) -> tuple[int, float]:
    """ALE's vector environment alone, 64 games on two threads."""
    import numpy as np

    from a3c_core.atari import AtariGames

    count, random = 64, np.random.default_rng(0)
    games = AtariGames("ALE/Pong-v5", count, sticky=0.0, full_action_space=False, threads=2)
    games.reset(seed=0)
    marks: list[tuple[int, float]] = []
    started = time.perf_counter()
    while not marks or marks[-1][1] - marks[0][1] < seconds:
        games.step(random.integers(games.single_action_space.n, size=count))
        if time.perf_counter() - started >= WARM_UP:
            marks.append((len(marks) * count, time.perf_counter()))
    return marks[-1][0], marks[-1][1] - marks[0][1]


COMPETITORS: dict[str, Callable[[float], tuple[int, float]]] = {
    "emulator alone": emulator,
    "a3c, paper's network, 2 workers": partial(ours, encoder="a3c"),
    "a3c, paper's network, 1 worker": partial(ours, encoder="a3c", workers=1),
    "a3c, Nature network, 2 workers": partial(ours, encoder="nature"),
    "a3c, Nature network in float32, 2 workers": partial(ours, encoder="nature", precision="float32"),
    "stable-baselines3 A2C, Nature network": sb3,
    "a3c, paper's network, 2 workers of 32 games": partial(ours, encoder="a3c", envs_per_worker=32),
    "a3c, Nature network, 2 workers of 32 games": partial(ours, encoder="nature", envs_per_worker=32),
    "a3c, Nature network in float32, 2 workers of 32 games": partial(
        ours, encoder="nature", precision="float32", envs_per_worker=32
    ),
    "stable-baselines3 A2C, Nature network, 64 games": partial(sb3, games=64),
}


def main(rounds: int = 3, seconds: float = 8.0) -> None:
    """Run all trials, one at a time, and write results/speed.json and README.md.

    Args:
        rounds: how often each competitor runs; the median counts.
        seconds: how long it runs.
    """
    trials = []
    for number in range(rounds):
        for name in COMPETITORS:
            command = [sys.executable, "-m", "benchmarks.speed", "trial", name, str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            trials.append(Trial(name, number, *json.loads(done.stdout.splitlines()[-1])))
            print(f"{name}: {trials[-1].steps / trials[-1].seconds:,.0f} steps/s", flush=True)
    save("speed", {"machine": machine(*PACKAGES, "stable-baselines3"), "trials": [trial._asdict() for trial in trials]})


if __name__ == "__main__":
    if sys.argv[1:2] == ["trial"]:
        print(json.dumps(COMPETITORS[sys.argv[2]](float(sys.argv[3]))))
    else:
        tyro.cli(main)
