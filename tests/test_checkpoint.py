"""A checkpoint comes back bit by bit, and each way of being broken ends in a sentence that names the file."""

import errno
import json
import os
from dataclasses import asdict

import pytest
import torch
from safetensors.torch import load_file, save_file

from a3c_core.agent import Agent
from a3c_core.checkpoint import (
    MAX_JSON_BYTES,
    MODEL,
    RECIPE,
    SCHEMA_VERSION,
    CheckpointError,
    count_parameters,
    load_agent,
    save_agent,
    save_tensors,
    write_record,
)
from a3c_core.recipe import Recipe
from training.recipes import RECIPES

SMALL = Recipe(head_layers=(8,), seed=3)
WEIGHT = "policy.logits.0.weight"


@pytest.fixture
def checkpoint(tmp_path):
    """A directory with a sound checkpoint in it."""
    save_agent(tmp_path, Agent.untrained(SMALL)._replace(steps=123))
    return tmp_path


@pytest.mark.parametrize(
    "recipe",
    [
        SMALL,
        Recipe(core="lstm", core_size=8, head_layers=()),
        Recipe(env="Pendulum-v1", n_steps=(5, 20)),
        Recipe(env="ALE/Pong-v5", encoder="a3c", layer_norm=True, pixel_shift=-87.0, head_layers=()),
    ],
    ids=["feed-forward", "lstm", "continuous", "frames"],
)
def test_an_agent_comes_back_bit_by_bit(tmp_path, recipe):
    agent = Agent.untrained(recipe)._replace(steps=2**40)
    save_agent(tmp_path / "new" / "place", agent)
    back = load_agent(tmp_path / "new" / "place")
    assert (back.recipe, back.steps) == (recipe, 2**40)
    assert back.model.state_dict().keys() == agent.model.state_dict().keys()
    for name, tensor in agent.model.state_dict().items():
        assert torch.equal(back.model.state_dict()[name], tensor)


def test_a_snapshot_in_bfloat16_comes_back_as_float32_with_rounded_weights(checkpoint, tmp_path):
    agent = load_agent(checkpoint)
    save_agent(tmp_path / "snapshots" / "5", agent, dtype=torch.bfloat16)
    assert {tensor.dtype for tensor in load_file(tmp_path / "snapshots" / "5" / MODEL).values()} == {torch.bfloat16}
    back = load_agent(tmp_path / "snapshots" / "5")
    assert (back.recipe, back.steps) == (agent.recipe, 123)
    rounded = back.model.state_dict()[WEIGHT]
    assert rounded.dtype == torch.float32
    assert torch.equal(rounded, agent.model.state_dict()[WEIGHT].bfloat16().float())
    torch.testing.assert_close(rounded, agent.model.state_dict()[WEIGHT], rtol=2**-8, atol=0)
    assert not torch.equal(rounded, agent.model.state_dict()[WEIGHT])


def test_saving_a_snapshot_leaves_the_agents_own_weights_alone(tmp_path):
    agent = Agent.untrained(SMALL)
    before = {name: tensor.clone() for name, tensor in agent.model.state_dict().items()}
    save_agent(tmp_path, agent, dtype=torch.bfloat16)
    assert all(torch.equal(tensor, before[name]) for name, tensor in agent.model.state_dict().items())
    assert {tensor.dtype for tensor in agent.model.state_dict().values()} == {torch.float32}


def test_saving_again_replaces_the_old_one_and_leaves_nothing_else(checkpoint):
    agent = Agent.untrained(Recipe(head_layers=(4,)))
    save_agent(checkpoint, agent)
    assert load_agent(checkpoint).recipe.head_layers == (4,)
    assert sorted(path.name for path in checkpoint.iterdir()) == [MODEL, RECIPE]


def test_parameters_are_counted():
    # 4 inputs, 8 hidden units, 2 actions and 1 value: (4 * 8 + 8) + (8 * 2 + 2), (4 * 8 + 8) + (8 + 1)
    assert count_parameters(Agent.untrained(SMALL)) == 58 + 49


def edit_weights(edit):
    def breaks(directory):
        tensors = load_file(directory / MODEL)
        edit(tensors)
        save_file(tensors, directory / MODEL)

    return breaks


def edit_record(edit):
    def breaks(directory):
        record = json.loads((directory / RECIPE).read_text())
        edit(record)
        (directory / RECIPE).write_text(json.dumps(record))

    return breaks


def write(file, content):
    return lambda directory: (directory / file).write_bytes(content)


def cut_short(directory):
    data = (directory / MODEL).read_bytes()
    (directory / MODEL).write_bytes(data[: len(data) // 2])


def grow(directory):
    with (directory / RECIPE).open("r+b") as file:
        file.truncate(MAX_JSON_BYTES + 1)


BROKEN_WEIGHTS = {
    "missing": (lambda d: (d / MODEL).unlink(), "again"),
    "a directory": (lambda d: ((d / MODEL).unlink(), (d / MODEL).mkdir()), "again"),
    "empty": (write(MODEL, b""), "again"),
    "cut short": (cut_short, "again"),
    "not safetensors": (write(MODEL, b"\x80\x04pickle" * 100), "again"),
    "a tensor missing": (edit_weights(lambda t: t.pop(WEIGHT)), f"lacks tensor {WEIGHT}"),
    "a tensor too many": (edit_weights(lambda t: t.update(more=torch.zeros(1))), "unknown tensor more"),
    "wrongly shaped": (edit_weights(lambda t: t.update({WEIGHT: torch.zeros(8, 5)})), r"shape \(8, 5\), not \(8, 4\)"),
    "transposed": (edit_weights(lambda t: t.update({WEIGHT: torch.zeros(4, 8)})), r"shape \(4, 8\), not \(8, 4\)"),
    "double precision": (edit_weights(lambda t: t.update({WEIGHT: t[WEIGHT].double()})), "float64, not torch.float32"),
    "half precision": (edit_weights(lambda t: t.update({WEIGHT: t[WEIGHT].half()})), "float16, not torch.float32"),
    "integers": (edit_weights(lambda t: t.update({WEIGHT: t[WEIGHT].int()})), "int32, not torch.float32"),
    "rounded and not a number": (
        edit_weights(lambda t: t.update({WEIGHT: t[WEIGHT].bfloat16().fill_(torch.nan)})),
        "not numbers.*another checkpoint",
    ),
    "not a number": (edit_weights(lambda t: t[WEIGHT].fill_(torch.nan)), "not numbers.*another checkpoint"),
    "infinite": (edit_weights(lambda t: t[WEIGHT][0].fill_(torch.inf)), "not numbers.*another checkpoint"),
}


@pytest.mark.parametrize(("breaks", "says"), BROKEN_WEIGHTS.values(), ids=BROKEN_WEIGHTS)
def test_broken_weights_are_refused_with_their_name_and_what_to_do(checkpoint, breaks, says):
    breaks(checkpoint)
    with pytest.raises(CheckpointError, match=says) as caught:
        load_agent(checkpoint)
    assert str(checkpoint / MODEL) in str(caught.value)
    assert "\n" not in str(caught.value)


BROKEN_RECIPES = {
    "empty": (write(RECIPE, b""), "not valid JSON.*again"),
    "not JSON": (write(RECIPE, b"{'env': 1}"), "not valid JSON.*again"),
    "not text": (write(RECIPE, b"\xff\xfe\x00"), "not valid JSON.*again"),
    "nested without end": (write(RECIPE, b"[" * 100_000), "not valid JSON.*again"),
    "a list": (write(RECIPE, b"[1, 2]"), "no schema_version"),
    "a number": (write(RECIPE, b"7"), "no schema_version"),
    "huge": (grow, "larger than"),
    "no schema version": (edit_record(lambda r: r.pop("schema_version")), "no schema_version"),
    "a schema version in words": (edit_record(lambda r: r.update(schema_version="1")), "no schema_version"),
    "a future schema version": (
        edit_record(lambda r: r.update(schema_version=SCHEMA_VERSION + 1)),
        "written by a newer version .*update A3C Arcade",
    ),
    "no recipe": (edit_record(lambda r: r.pop("recipe")), "recipe: Field required"),
    "a list as recipe": (edit_record(lambda r: r.update(recipe=[])), "object"),
    "no steps": (edit_record(lambda r: r.pop("steps")), "steps: Field required"),
    "steps in words": (edit_record(lambda r: r.update(steps="many")), "integer"),
    "an unknown field": (edit_record(lambda r: r.update(colour="red")), "colour.*damaged"),
    "an unknown field of the recipe": (edit_record(lambda r: r["recipe"].update(colour="red")), "colour.*damaged"),
    "words for a number": (edit_record(lambda r: r["recipe"].update(gamma="0.99")), "gamma"),
    "a number for words": (edit_record(lambda r: r["recipe"].update(core=1)), "core"),
    "a fraction for an integer": (edit_record(lambda r: r["recipe"].update(workers=1.5)), "workers"),
    "a number for yes or no": (edit_record(lambda r: r["recipe"].update(vtrace=1)), "vtrace"),
    "a value out of range": (edit_record(lambda r: r["recipe"].update(gamma=1.5)), "gamma"),
    "a value that is not a number": (
        edit_record(lambda r: r["recipe"].update(epsilon=float("nan"))),
        "not what",
    ),
    "too many layers": (edit_record(lambda r: r["recipe"].update(head_layers=[8] * 9)), "head_layers"),
    "a phase that there is not": (edit_record(lambda r: r.update(phase=1)), "names phase 1 of 0"),
    "a phase of code": (
        edit_record(lambda r: r["recipe"].update(schedule=[{"at": 5, "changes": {"env": "this:Tetris-v0"}}])),
        "stays the same",
    ),
    "phases out of order": (
        edit_record(lambda r: r["recipe"].update(schedule=[{"at": 5, "changes": {}}, {"at": 5, "changes": {}}])),
        "must begin after",
    ),
    "a phase with words for a number": (
        edit_record(lambda r: r["recipe"].update(schedule=[{"at": 5, "changes": {"gamma": "0.9"}}])),
        "gamma.*valid number",
    ),
    "an unknown field of a phase": (
        edit_record(lambda r: r["recipe"].update(schedule=[{"at": 5, "changes": {}, "colour": "red"}])),
        "colour.*damaged",
    ),
    "a null": (edit_record(lambda r: r["recipe"].update(seed=None)), "seed"),
    "an unknown environment": (
        edit_record(lambda r: r["recipe"].update(env="Tetris-v0")),
        "Tetris-v0.*did you mean ALE.Tetris-v5",
    ),
    "an environment of code": (
        edit_record(lambda r: r["recipe"].update(env="this:Tetris-v0")),
        "this:Tetris-v0.*import the module",
    ),
}


@pytest.mark.parametrize(("breaks", "says"), BROKEN_RECIPES.values(), ids=BROKEN_RECIPES)
def test_a_broken_recipe_is_refused_with_its_name_and_what_to_do(checkpoint, breaks, says):
    breaks(checkpoint)
    with pytest.raises(CheckpointError, match=says) as caught:
        load_agent(checkpoint)
    assert str(checkpoint / RECIPE) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["gamma", "core"])
def test_a_recipe_that_lacks_a_field_is_refused(checkpoint, field):
    edit_record(lambda record: record["recipe"].pop(field))(checkpoint)
    with pytest.raises(CheckpointError, match=field):
        load_agent(checkpoint)


def test_weights_that_training_can_reach_are_loaded(checkpoint):
    edit_weights(lambda tensors: tensors["value.2.bias"].fill_(1500.0))(checkpoint)
    assert load_agent(checkpoint).model.state_dict()["value.2.bias"].item() == 1500.0


def test_weights_whose_sums_could_overflow_together_are_refused(checkpoint):
    edit_weights(lambda tensors: [tensor.fill_(1e12) for tensor in tensors.values()])(checkpoint)
    with pytest.raises(CheckpointError, match="could overflow"):
        load_agent(checkpoint)


def test_a_negative_number_of_steps_is_refused(checkpoint):
    edit_record(lambda record: record.update(steps=-1))(checkpoint)
    with pytest.raises(CheckpointError, match="steps"):
        load_agent(checkpoint)


def test_every_field_that_is_wrong_is_named(checkpoint):
    edit_record(lambda record: record["recipe"].update(gamma=2, workers=0))(checkpoint)
    with pytest.raises(CheckpointError, match=r"workers: .*; gamma: "):
        load_agent(checkpoint)


def test_weights_of_another_recipe_are_refused(checkpoint):
    write_record(checkpoint / RECIPE, {"steps": 0, "recipe": asdict(RECIPES["pendulum"])})
    with pytest.raises(CheckpointError, match=r"do not belong to the recipe\.json beside them"):
        load_agent(checkpoint)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_text("x")])
def test_what_is_no_checkpoint_is_called_so(tmp_path, make):
    make(tmp_path / "place")
    with pytest.raises(CheckpointError, match=r"place is no checkpoint.*Name a directory that training wrote"):
        load_agent(tmp_path / "place")


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_failing_write_keeps_the_old_checkpoint_and_leaves_no_scraps(checkpoint, monkeypatch, call):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = {path.name: path.read_bytes() for path in checkpoint.iterdir()}
    monkeypatch.setattr(os, call, full)
    with pytest.raises(CheckpointError, match=r"cannot write .*No space left on device.*Free some space"):
        save_agent(checkpoint, Agent.untrained(Recipe(seed=9)))
    assert {path.name: path.read_bytes() for path in checkpoint.iterdir()} == before


def test_a_place_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="cannot write"):
        save_agent(tmp_path / "file" / "run", Agent.untrained(SMALL))


def test_a_place_that_is_a_directory_is_refused(tmp_path):
    (tmp_path / "weights").mkdir()
    with pytest.raises(CheckpointError, match="cannot write"):
        save_tensors(tmp_path / "weights", {"a": torch.zeros(1)})
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


def test_saved_tensors_are_those_of_the_call_even_where_they_share_memory(tmp_path):
    theta = torch.arange(6.0)
    save_tensors(tmp_path / "t", {"a": theta[:3], "b": theta.view(2, 3).T})
    back = load_file(tmp_path / "t")
    assert back["a"].tolist() == [0, 1, 2]
    assert back["b"].tolist() == [[0, 3], [1, 4], [2, 5]]
