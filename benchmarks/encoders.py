"""What each encoder for frames costs: microseconds a frame to act and to learn, and ratios to the paper's network.

    python -m benchmarks.encoders

One thread, frames of Pong's shape, encoders with layer norm. Acting is a forward pass over 16 frames, learning the
forward and backward pass over 320. All encoders take turns in every round, and the median of the rounds counts; compare
ratios, since what the machine does beside changes every figure. bfloat16 is left out where the processor has none.
"""

import time
from statistics import median
from typing import NamedTuple

import torch
import tyro
from torch import Tensor, nn

from a3c_core.devices import encoder_dtype
from a3c_core.envs import spaces_of
from a3c_core.model import build_model, fitting_encoders
from a3c_core.recipe import Recipe
from benchmarks.results import machine, save

ACTING, LEARNING = 16, 320
PONG = Recipe(env="ALE/Pong-v5", encoder="a3c", layer_norm=True, head_layers=(), pixel_shift=-87.0, pixel_scale=3 / 255)


class Trial(NamedTuple):
    """One round of one encoder: microseconds a frame."""

    encoder: str
    precision: str
    round: int
    acting: float
    learning: float


def encoder_of(name: str, dtype: torch.dtype) -> nn.Module:
    """A fresh encoder for Pong that computes in that type."""
    recipe = Recipe(**{**vars(PONG), "encoder": name})
    return build_model(recipe, spaces_of(recipe)).encoder.to(dtype)


def act(encoder: nn.Module, frames: Tensor) -> None:
    """One forward pass."""
    with torch.no_grad():
        encoder(frames)


def learn(encoder: nn.Module, frames: Tensor) -> None:
    """One forward and backward pass."""
    torch.autograd.grad(encoder(frames).sum(), list(encoder.parameters()))


def main(rounds: int = 15) -> None:
    """Measure all encoders and write results/encoders.json and README.md.

    Args:
        rounds: how often each encoder has its turn; the median counts.
    """
    torch.set_num_threads(1)
    names = fitting_encoders(spaces_of(PONG).observation)
    precisions = {"float32": torch.float32}
    if encoder_dtype(Recipe(precision="bfloat16")) == torch.bfloat16:
        precisions["bfloat16"] = torch.bfloat16
    encoders = {(name, each): encoder_of(name, dtype) for each, dtype in precisions.items() for name in names}
    few, many = (torch.randint(256, (count, 4, 84, 84), dtype=torch.uint8) for count in (ACTING, LEARNING))
    trials = []
    for number in range(-1, rounds):  # the first turn warms up
        for (name, precision), encoder in encoders.items():
            marks = [time.perf_counter()]
            for _ in range(10):
                act(encoder, few)
            marks.append(time.perf_counter())
            learn(encoder, many)
            marks.append(time.perf_counter())
            acting, learning = (1e6 * (marks[1] - marks[0]) / (10 * ACTING), 1e6 * (marks[2] - marks[1]) / LEARNING)
            if number >= 0:
                trials.append(Trial(name, precision, number, acting, learning))
    for precision in precisions:
        for name in names:
            group = [trial for trial in trials if (trial.encoder, trial.precision) == (name, precision)]
            acting, learning = median(trial.acting for trial in group), median(trial.learning for trial in group)
            print(f"{name}, {precision}: acting {acting:.0f} us, learning {learning:.0f} us a frame", flush=True)
    save("encoders", {"machine": machine("torch"), "trials": [trial._asdict() for trial in trials]})


if __name__ == "__main__":
    tyro.cli(main)
