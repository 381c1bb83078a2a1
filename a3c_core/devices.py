"""Where a training computes, CPU or GPU, and in which numbers."""

import torch

from a3c_core.recipe import Recipe


def device_of(kind: str, rank: int = 0) -> torch.device:
    """The CPU, or the GPU of worker `rank`, who take them in turn. Raises ValueError where there is none."""
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError("there is no CUDA device here: train with --device cpu --shared-device cpu")
    return torch.device("cuda", rank % torch.cuda.device_count())


def wait_for_kernels(device: torch.device) -> None:
    """Returns once a GPU has done what it was asked to do: calls only queue kernels, and a lock must outlast them."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def encoder_dtype(recipe: Recipe) -> torch.dtype:
    """What the encoder computes with: bfloat16 only where the recipe asks for it and the hardware has it."""
    fast = torch.cuda.is_available() if recipe.device == "cuda" else torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if recipe.precision == "bfloat16" and fast else torch.float32
