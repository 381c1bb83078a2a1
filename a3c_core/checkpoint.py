"""A checkpoint is a directory that knows what it is: weights as safetensors, everything else as JSON.

    model.safetensors    the weights, one tensor per parameter
    recipe.json          the Recipe that made them, with the schema's version, the steps trained and the phase reached
    resume.safetensors   what a run goes on from: weights, optimizer state and counters of one moment
    snapshots/5/         the same agent after 5 % of its training: a checkpoint whose weights are bfloat16
    average/             the agent with averaged weights, where the recipe has an average_decay: a checkpoint

Every file is replaced as a whole, so a crash leaves the old one or the new one. Loading is strict; files of older
schema versions are migrated when they are read (see `a3c_core.migrations`).
"""

import json
import math
import os
import re
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from a3c_core.agent import Agent
from a3c_core.migrations import SCHEMA_VERSION, migrate
from a3c_core.recipe import Recipe, mistakes

MODEL, RECIPE, RESUME = "model.safetensors", "recipe.json", "resume.safetensors"
SNAPSHOTS, AVERAGE = "snapshots", "average"
MAX_JSON_BYTES = 8 * 2**20
LARGEST_GAIN = 1e32
"""How many times larger than its largest input the output of all layers may be. float32 ends at 3e38, so this leaves
1e6 for the observation; beyond it sums could become infinite, and then there is no action to choose. What training
writes is many orders of magnitude below."""

Record = TypeVar("Record")


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class RecipeRecord:
    """The fields of recipe.json."""

    steps: Annotated[int, Field(ge=0)]
    recipe: dict[str, Any]
    phase: Annotated[int, Field(ge=0)] = 0
    """How many phases of the recipe's schedule have begun. A run passes `at` before it has changed its network, so the
    steps alone do not tell."""


class Saved(NamedTuple):
    """What recipe.json tells of the agent beside it."""

    recipe: Recipe
    """Of the whole run, with its schedule."""
    steps: int
    phase: int

    @property
    def in_force(self) -> Recipe:
        """The recipe of the phase that the run has reached: the network is of this one."""
        return self.recipe.phase(self.phase)


class CheckpointError(ValueError):
    """A checkpoint can't be read or written; the message names the file and what to do."""


def save_agent(
    directory: Path, agent: Agent, *, dtype: torch.dtype = torch.float32, run: Recipe | None = None, phase: int = 0
) -> None:
    """Writes `agent` as a checkpoint; raises CheckpointError where the disk refuses.

    With bfloat16 the file has half the size, and the agent that is loaded from it has rounded weights. `run` is the
    recipe of the whole run, whose `phase` the agent's own recipe is; without it the agent's own is written.
    """
    save_recipe(directory, Saved(run or agent.recipe, agent.steps, phase))
    save_tensors(directory / MODEL, {name: tensor.to(dtype) for name, tensor in agent.model.state_dict().items()})


def save_recipe(directory: Path, saved: Saved) -> None:
    """Writes recipe.json of the checkpoint in `directory`; raises CheckpointError where the disk refuses."""
    write_record(directory / RECIPE, asdict(RecipeRecord(saved.steps, asdict(saved.recipe), saved.phase)))


def load_agent(directory: Path) -> Agent:
    """The agent that `directory` holds, with the recipe of the phase that its training has reached.

    Raises CheckpointError for a missing, broken or foreign file and for weights that are not the recipe's:
    a missing, extra or wrongly shaped tensor, a value that is not a number, or weights that overflow.
    """
    saved = saved_in(directory)
    try:
        agent = Agent.untrained(saved.in_force)._replace(steps=saved.steps)
    except ValueError as error:
        raise CheckpointError(f"{directory / RECIPE}: {error}") from None
    load_weights(agent, directory / MODEL)
    return agent


def saved_in(directory: Path) -> Saved:
    """What recipe.json tells of the agent that `directory` holds, without loading it. Raises CheckpointError."""
    path = directory / RECIPE
    if not path.is_file():
        raise CheckpointError(
            f"{directory} is no checkpoint: it has no {RECIPE}. Name a directory that training wrote."
        )
    record = parse(RecipeRecord, read_record(path), path)
    if left_out := {field.name for field in fields(Recipe)} - record.recipe.keys():
        raise CheckpointError(f"{path} lacks recipe.{', recipe.'.join(sorted(left_out))}. {_DAMAGED}")
    recipe = parse(Recipe, record.recipe, path)
    if record.phase > len(recipe.schedule):
        raise CheckpointError(f"{path} names phase {record.phase} of {len(recipe.schedule)}. {_DAMAGED}")
    return Saved(recipe, record.steps, record.phase)


def steps_of(directory: Path) -> int:
    """Steps of training behind the agent that `directory` holds, without loading it. Raises CheckpointError."""
    return parse(RecipeRecord, read_record(directory / RECIPE), directory / RECIPE).steps


def load_weights(agent: Agent, path: Path) -> None:
    """Replaces the weights of `agent` by those in `path`; raises CheckpointError unless they fit exactly."""
    expected = agent.model.state_dict()
    tensors = load_tensors(path, expected)
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise CheckpointError(f"{path}: tensor {name} holds values that are not numbers. Take another checkpoint.")
    if math.prod(_gain(tensors[name]) for name, _ in agent.model.named_parameters()) > LARGEST_GAIN:
        raise CheckpointError(
            f"{path} holds weights so large that sums of them could overflow. Take another checkpoint."
        )
    agent.model.load_state_dict(tensors)
    agent.model.eval()


def _gain(weights: Tensor) -> float:
    """How many times larger than its largest input the output of a layer with these weights, or biases, can be."""
    sums = weights.double().abs().flatten(1).sum(1) if weights.dim() > 1 else weights.double().abs()
    return max(1.0, sums.max().item())


_DAMAGED = "It is damaged, or not a file of A3C Arcade: take another checkpoint."


def read_record(path: Path) -> dict[str, Any]:
    """The fields of a JSON file of ours as the newest schema version has them, without that. Raises CheckpointError."""
    try:
        refuse_special(path)
        if path.stat().st_size > MAX_JSON_BYTES:
            raise CheckpointError(f"{path} is larger than {MAX_JSON_BYTES} bytes: not a file of ours.")
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}. Download or copy it again.") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON ({error}). Download or copy it again.") from None
    version = record.pop("schema_version", None) if isinstance(record, dict) else None
    if type(version) is not int or version < 1:
        raise CheckpointError(f"{path} has no schema_version: it is not a file of ours. Take another checkpoint.")
    if version > SCHEMA_VERSION:
        raise CheckpointError(
            f"{path} was written by a newer version (schema {version}, this one knows up to {SCHEMA_VERSION}): "
            "update A3C Arcade."
        )
    return migrate(record, version)


def refuse_special(path: Path) -> None:
    """Raises CheckpointError for what is there but is no file, such as a named pipe, whose opening would never end."""
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is no regular file. Download or copy it again.")


def parse(kind: type[Record], value: object, path: Path) -> Record:
    """`value` from the JSON file `path` as a `kind`; raises CheckpointError that names each field that is wrong."""
    try:
        return TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        wrong = printable(mistakes(error, "value"))
        raise CheckpointError(f"{path} is not what it should be: {wrong}. {_DAMAGED}") from None


def printable(text: object, most: int = 1000) -> str:
    """Untrusted text, cut to so many letters, without those that move a terminal's cursor or change its colours."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:most])


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Writes a JSON file of ours as a whole. Raises CheckpointError."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **record}, indent=2)
    text = re.sub(r"\[[-+\d.eE,\s]+\]", lambda numbers: " ".join(numbers[0].split()), text)  # a list in one line
    write_atomically(path, lambda part: part.write_text(text + "\n", encoding="utf-8"))


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes a safetensors file as a whole. Raises CheckpointError."""
    data = save(
        {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}, {"format": "pt"}
    )
    write_atomically(path, lambda part: part.write_bytes(data))


def load_tensors(path: Path, expected: dict[str, Tensor], *, optional: Set[str] = frozenset()) -> dict[str, Tensor]:
    """The tensors of a safetensors file, which must have exactly the names, shapes and types of `expected`.

    Those in `optional` may be missing. Only bfloat16 may stand for float32. The header is checked before any tensor is
    read. Raises CheckpointError.
    """
    refuse_special(path)
    try:
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            expected = {name: tensor for name, tensor in expected.items() if name in names or name not in optional}
            for what, wrong in (("lacks", expected.keys() - names), ("has an unknown", names - expected.keys())):
                if wrong:
                    raise CheckpointError(
                        f"{path} {what} tensor {printable(', '.join(sorted(wrong)))}. {_NOT_ITS_RECIPE}"
                    )
            for name, tensor in expected.items():
                shape = tuple(file.get_slice(name).get_shape())
                if shape != tuple(tensor.shape):
                    raise CheckpointError(
                        f"{path}: tensor {name} has shape {shape}, not {tuple(tensor.shape)}. {_NOT_ITS_RECIPE}"
                    )
            tensors = {name: file.get_tensor(name) for name in expected}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"cannot read {path} ({printable(error)}). Download or copy it again.") from None
    for name, tensor in tensors.items():
        if tensor.dtype == torch.bfloat16:
            tensor = tensors[name] = tensor.float()
        if tensor.dtype != expected[name].dtype:
            raise CheckpointError(
                f"{path}: tensor {name} is {tensor.dtype}, not {expected[name].dtype}. {_NOT_ITS_RECIPE}"
            )
    return tensors


_NOT_ITS_RECIPE = f"The weights do not belong to the {RECIPE} beside them: take both from the same checkpoint."


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file beside `path`, then renames it to `path`. Raises CheckpointError, the old file kept."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise CheckpointError(
            f"cannot write {path}: {error.strerror}. Free some space or choose another place."
        ) from None
    finally:
        with suppress(OSError):
            part.unlink()


def count_parameters(agent: Agent) -> int:
    """Number of weights of the agent's network."""
    return sum(torch.numel(parameter) for parameter in agent.model.parameters())
