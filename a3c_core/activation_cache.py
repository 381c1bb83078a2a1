"""Learning takes what acting has computed.

A worker's weights stand still from one pull to the next, so learning's forward pass would compute what the encoder
put out for each frame of the rollout a second time. `Keep` holds on to it while the worker acts; inside `Recall` the
layers hand it back instead of computing, and their gradients are those that they would have had.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class Keep:
    """While it is open, holds on to what the convolutions and linear layers of `encoder` put out."""

    def __init__(self, encoder: nn.Module) -> None:
        self._layers = [layer for layer in encoder.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
        self._outputs: dict[nn.Module, list[Tensor]] = {layer: [] for layer in self._layers}

    def __enter__(self) -> None:
        self._hooks = [layer.register_forward_hook(self._see) for layer in self._layers]

    def _see(self, layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        self._outputs[layer].append(output)

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What each layer put out, in the order of the layers and of the calls, [inputs of all calls, ...]."""
        return tuple(torch.cat(parts) for parts in self._outputs.values())


class Recall(TorchFunctionMode):
    """While it is open, the first convolutions and linear layers called hand out `outputs`, one after the other."""

    def __init__(self, outputs: Sequence[Tensor]) -> None:
        super().__init__()
        self._outputs = list(outputs)

    def __torch_function__(
        self, function: Callable, types: Sequence[type], args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        if self._outputs and function in _RECALLED:
            return _RECALLED[function].apply(self._outputs.pop(0), *args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:  # noqa: ANN401
        super().__exit__(kind, *rest)
        if self._outputs and kind is None:
            raise ValueError("these outputs are of another encoder: nothing asked for all of them")


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


_RECALLED = {functional.conv2d: _Convolution, functional.linear: _Linear}
