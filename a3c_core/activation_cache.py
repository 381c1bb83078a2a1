"""Learning reuses what acting has computed.

A worker's weights do not change from one pull to its first gradient, so learning would compute the encoder's
convolutions and linear layers for each observation a second time. An ActivationCache records their outputs while the
worker acts; while it replays, the layers hand the outputs back instead of computing them, and their gradients are what
they would have been. `python -m benchmarks.activation_cache` measures what that saves.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from a3c_core.model import FrameEncoder
from a3c_core.recipe import Recipe


class ActivationCache:
    """Outputs of the convolutions and linear layers of one encoder, for the observations of one rollout.

    It records FrameEncoders alone, whose layers are called once each, in the order in which they stand; and these only
    where the first gradient is that of the whole rollout, by the weights that acted.
    """

    def __init__(self, encoder: nn.Module, recipe: Recipe) -> None:
        reused = isinstance(encoder, FrameEncoder) and recipe.minibatches == 1 and not recipe.vtrace
        layers = encoder.modules() if reused else ()
        self._layers = [layer for layer in layers if isinstance(layer, nn.Conv2d | nn.Linear)]
        self._outputs: dict[nn.Module, list[Tensor]] = {layer: [] for layer in self._layers}
        self._recording = False
        for layer in self._layers:
            layer.register_forward_hook(self._keep)

    @contextmanager
    def record(self) -> Iterator[None]:
        """While it is open, keeps the outputs of each call. The encoder must not change between calls."""
        self._recording = True
        try:
            yield
        finally:
            self._recording = False

    def _keep(self, layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        if self._recording:
            self._outputs[layer].append(output)

    @contextmanager
    def replay(self) -> Iterator[None]:
        """While it is open, the encoder called with all recorded observations at once computes nothing twice.

        Replays once: the recorded outputs are gone afterwards, and without any it changes nothing. Raises ValueError
        where the encoder did not ask for all that was recorded.
        """
        outputs = [torch.cat(parts) for parts in self._outputs.values() if parts]
        for parts in self._outputs.values():
            parts.clear()
        with _Replay(outputs):
            yield
        if outputs:
            raise ValueError("the recorded outputs belong to another encoder: it did not ask for all of them")


class _Replay(TorchFunctionMode):
    def __init__(self, outputs: list[Tensor]) -> None:
        super().__init__()
        self._outputs = outputs

    def __torch_function__(
        self, function: Callable, types: Sequence[type], args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        if self._outputs and function in _REPLAYED:
            return _REPLAYED[function].apply(self._outputs.pop(0), *args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        output: Tensor,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor,
        stride: tuple[int, int],
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.shape = (stride, padding, dilation, False, (0, 0), groups)
        channels_last = inputs.is_contiguous(memory_format=torch.channels_last)
        return output.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:4]
        gradients = torch.ops.aten.convolution_backward(gradient, inputs, weight, [len(weight)], *ctx.shape, wanted)
        return None, *gradients, None, None, None, None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, output: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return output

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        return None, gradient @ weight, gradient.T @ inputs, gradient.sum(0)


_REPLAYED = {functional.conv2d: _Convolution, functional.linear: _Linear}
