"""Seconds from the call to train until the mean of the last 100 training episodes reaches a goal, ours against peers.

    pip install -r benchmarks/requirements.txt
    python -m benchmarks.time_to_solve

Every trial runs alone, in a fresh process, competitor after competitor for each seed. The clock starts at the call to
train: our workers' start counts; first imports (torch, its dynamo, the peers) and the making of the peers' models do
not. Ours is read four times a second, which counts against us by up to a quarter. A trial that uses up its
competitor's steps is unsolved.

The peers are stable-baselines3 with RL Zoo's settings for these environments (its hyperparams/a2c.yml and ppo.yml).
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import tyro

from benchmarks.results import PACKAGES, machine, save

GOALS = {"cartpole": 475.0, "pendulum": -200.0}


class Trial(NamedTuple):
    """One training of one competitor."""

    task: str
    competitor: str
    seed: int
    seconds: float | None
    """Until solved; None for never."""
    steps: int
    """Until solved, or all that were taken."""


def ours(task: str, seed: int) -> list[Trial]:
    """Our recipe twice: `a3c` starts the workers' server as part of the trial, `a3c, warm` finds it running."""
    import torch._dynamo  # noqa: F401  a first import, which the optimizer would do on the clock

    from training.recipes import RECIPES
    from training.run import train

    recipe = dataclasses.replace(RECIPES[task], seed=seed)
    trials = []
    for name in ("a3c", "a3c, warm"):
        with tempfile.TemporaryDirectory() as directory:
            started = time.perf_counter()
            run = train(recipe, Path(directory) / "run")
            for progress in run:
                if progress.episodes >= 100 and progress.mean_return >= GOALS[task]:
                    trials.append(Trial(task, name, seed, time.perf_counter() - started, progress.steps))
                    break
            else:
                trials.append(Trial(task, name, seed, None, progress.steps))
            run.close()
    return trials


def linear(start: float) -> Callable[[float], float]:
    """A schedule from `start` to 0 over the training, as RL Zoo's `lin_`."""
    return lambda left: left * start


def sb3_settings(task: str, algorithm: str) -> tuple[int, int, bool, dict]:
    """RL Zoo's settings: steps, environments, normalize, keyword arguments."""
    return {
        ("cartpole", "a2c"): (500_000, 8, False, {"ent_coef": 0.0}),
        ("cartpole", "ppo"): (
            100_000,
            8,
            False,
            {
                "n_steps": 32,
                "batch_size": 256,
                "gae_lambda": 0.8,
                "gamma": 0.98,
                "n_epochs": 20,
                "ent_coef": 0.0,
                "learning_rate": linear(0.001),
                "clip_range": linear(0.2),
            },
        ),
        ("pendulum", "a2c"): (
            1_000_000,
            8,
            True,
            {
                "ent_coef": 0.0,
                "max_grad_norm": 0.5,
                "n_steps": 8,
                "gae_lambda": 0.9,
                "vf_coef": 0.4,
                "gamma": 0.9,
                "use_rms_prop": True,
                "normalize_advantage": False,
                "learning_rate": linear(7e-4),
                "use_sde": True,
                "policy_kwargs": {"log_std_init": -2, "ortho_init": False},
            },
        ),
        ("pendulum", "ppo"): (
            100_000,
            4,
            False,
            {
                "n_steps": 1024,
                "gae_lambda": 0.95,
                "gamma": 0.9,
                "n_epochs": 10,
                "ent_coef": 0.0,
                "learning_rate": 1e-3,
                "clip_range": 0.2,
                "use_sde": True,
                "sde_sample_freq": 4,
            },
        ),
    }[task, algorithm]


def sb3(algorithm: str) -> Callable[[str, int], list[Trial]]:
    """A trial of stable-baselines3's A2C or PPO."""

    def trial(task: str, seed: int) -> list[Trial]:
        from stable_baselines3 import A2C, PPO
        from stable_baselines3.common.callbacks import BaseCallback
        from stable_baselines3.common.env_util import make_vec_env
        from stable_baselines3.common.vec_env import VecNormalize

        from training.recipes import RECIPES

        class UntilSolved(BaseCallback):
            solved: tuple[float, int] | None = None

            def _on_step(self) -> bool:
                recent = self.model.ep_info_buffer
                if len(recent) == 100 and sum(episode["r"] for episode in recent) / 100 >= GOALS[task]:
                    self.solved = (time.perf_counter() - started, self.num_timesteps)
                return self.solved is None

        steps, count, normalize, settings = sb3_settings(task, algorithm)
        envs = make_vec_env(RECIPES[task].env, n_envs=count, seed=seed)
        envs = VecNormalize(envs, gamma=settings["gamma"]) if normalize else envs
        model = {"a2c": A2C, "ppo": PPO}[algorithm]("MlpPolicy", envs, seed=seed, device="cpu", **settings)
        until = UntilSolved()
        started = time.perf_counter()
        model.learn(steps, callback=until)
        seconds, taken = until.solved or (None, model.num_timesteps)
        return [Trial(task, f"stable-baselines3 {algorithm.upper()}", seed, seconds, taken)]

    return trial


COMPETITORS = {"a3c": ours, "sb3-a2c": sb3("a2c"), "sb3-ppo": sb3("ppo")}


def main(cartpole_seeds: int = 10, pendulum_seeds: int = 3) -> None:
    """Run all trials, one at a time, and write results/time_to_solve.json and README.md.

    Args:
        cartpole_seeds: seeds of each competitor on CartPole.
        pendulum_seeds: seeds of each competitor on Pendulum.
    """
    trials = []
    for task, seeds in (("cartpole", cartpole_seeds), ("pendulum", pendulum_seeds)):
        for seed in range(seeds):
            for competitor in COMPETITORS:
                command = [sys.executable, "-m", "benchmarks.time_to_solve", "trial", competitor, task, str(seed)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                made = [Trial(**record) for record in json.loads(done.stdout.splitlines()[-1])]
                print(*made, sep="\n", flush=True)
                trials += made
    about = machine(*PACKAGES, "stable-baselines3")
    save("time_to_solve", {"machine": about, "trials": [trial._asdict() for trial in trials]})


if __name__ == "__main__":
    if sys.argv[1:2] == ["trial"]:
        name, task, seed = sys.argv[2:]
        print(json.dumps([trial._asdict() for trial in COMPETITORS[name](task, int(seed))]))
    else:
        tyro.cli(main)
