"""A recipe is complete, checked, and the same after a trip through JSON."""

import ast
import dataclasses
import itertools
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from a3c_core import recipe as recipe_file
from a3c_core.checkpoint import parse
from a3c_core.envs import known
from a3c_core.recipe import Phase, Recipe
from training.recipes import RECIPES

UNUSUAL = Recipe(
    env="ALE/Pong-v5",
    sticky_actions=(0.0, 0.25),
    full_action_space=True,
    life_loss_ends_return=True,
    stall_ends_return=300,
    stall_earns_nothing=200,
    seed=7,
    steps=1,
    workers=3,
    n_steps=(5, 20),
    encoder="nature",
    pixel_shift=-87.0,
    pixel_scale=3 / 255,
    layer_norm=True,
    core="lstm",
    head_layers=(),
    gae_lambda=1.0,
    normalize_advantages=False,
    reward_shift=-8.0,
    reward_clip=1.0,
    optimizer="rmsprop",
    learning_rate_decay="none",
    max_gradient_norm=None,
    share_statistics=False,
    handover="synchronous",
    precision="bfloat16",
    device="cuda",
    shared_device="cuda",
)


@pytest.mark.parametrize("recipe", [Recipe(), UNUSUAL, *RECIPES.values()])
def test_json_gives_back_the_same_recipe(recipe):
    assert parse(Recipe, json.loads(json.dumps(dataclasses.asdict(recipe))), Path("recipe.json")) == recipe


def test_a_recipe_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Recipe().gamma = 0.5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("env", "x" * 101),
        ("sticky_actions", (1.1,)),
        ("sticky_actions", (0.0, -0.1)),
        ("sticky_actions", ()),
        ("stall_ends_return", 0),
        ("stall_earns_nothing", 0),
        ("seed", -1),
        ("seed", 10**9),
        ("steps", 0),
        ("workers", 0),
        ("workers", 257),
        ("envs_per_worker", 0),
        ("n_steps", ()),
        ("n_steps", (5, 0)),
        ("encoder", "Res Net"),
        ("encoder", "../resnet"),
        ("pixel_shift", 1.0),
        ("pixel_shift", -256.0),
        ("pixel_scale", 0.0),
        ("layer_norm", None),
        ("core", "gru"),
        ("core_size", 4097),
        ("head_layers", (64, 0)),
        ("initial_std", 0.0),
        ("gamma", 1.01),
        ("gamma", float("nan")),
        ("gae_lambda", -0.1),
        ("entropy_cost", -0.01),
        ("entropy_cost", float("inf")),
        ("reward_scale", 0.0),
        ("reward_shift", float("nan")),
        ("reward_clip", 0.0),
        ("optimizer", "sgd"),
        ("learning_rate", 0.0),
        ("learning_rate", float("inf")),
        ("learning_rate_decay", "cosine"),
        ("adam_betas", (0.9, 1.1)),
        ("epsilon", 0.0),
        ("max_gradient_norm", -1.0),
        ("precision", "float16"),
        ("device", "cuda:1"),
        ("shared_device", "mps"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field, value):
    with pytest.raises(ValidationError, match=field):
        Recipe(**{field: value})


def test_an_unknown_field_is_refused():
    with pytest.raises(ValidationError, match="gama"):
        Recipe(gama=0.9)


def test_rollout_lengths_and_sticky_actions_are_dealt_out_by_rank():
    recipe = Recipe(n_steps=(5, 20, 40), sticky_actions=(0.0, 0.25))
    own = [recipe.of_worker(rank) for rank in range(5)]
    assert [each.n_steps for each in own] == [(5,), (20,), (40,), (5,), (20,)]
    assert [each.sticky_actions for each in own] == [(0.0,), (0.25,), (0.0,), (0.25,), (0.0,)]


@pytest.mark.parametrize(("steps", "rate"), [(0, 0.01), (250, 0.0075), (1000, 0.0), (1100, 0.0)])
def test_learning_rate_falls_in_a_line_to_zero_and_stays_there(steps, rate):
    assert Recipe(steps=1000, learning_rate=0.01).learning_rate_at(steps) == pytest.approx(rate)


@pytest.mark.parametrize("steps", [0, 500, 1000])
def test_learning_rate_without_decay_stays(steps):
    assert Recipe(steps=1000, learning_rate=0.01, learning_rate_decay="none").learning_rate_at(steps) == 0.01


def test_every_field_says_what_it_means():
    nodes = ast.parse(Path(recipe_file.__file__).read_text()).body
    (body,) = [n.body for n in nodes if isinstance(n, ast.ClassDef) and n.name == "Recipe"]
    bare = [
        node.target.id
        for node, after in itertools.pairwise(body)
        if isinstance(node, ast.AnnAssign)
        and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    ]
    assert bare == []


@pytest.mark.parametrize("name", RECIPES)
def test_shipped_recipes_name_an_environment_that_is_there(name):
    assert known(RECIPES[name].env)


@pytest.mark.parametrize(
    ("recipe", "changes", "says"),
    [
        ({}, {"core": "lstm"}, "changes 'core', which stays the same in a run"),
        ({}, {"schedule": ()}, "changes 'schedule', which stays the same in a run"),
        ({}, {"colour": 1}, "changes 'colour'"),
        ({}, {"encoder": "a3c"}, "only a3c can become a3c_wide"),
        ({"encoder": "a3c_wide"}, {"encoder": "a3c"}, "only a3c can become a3c_wide"),
        ({"average_decay": 0.9}, {"average_decay": None}, "ends the average of the weights"),
        ({"share_statistics": False}, {"workers": 3}, "an optimizer of its own"),
        ({}, {"gamma": 1.5}, "gamma: Input should be less than or equal to 1"),
        ({}, {"vtrace": 1}, "vtrace: Input should be a valid boolean"),
        ({}, {"handover": "post"}, "handover: Input should be 'lock-free', 'lock', 'queue' or 'synchronous'"),
        ({}, {"learning_rate": float("nan")}, "learning_rate"),
    ],
)
def test_a_phase_changes_only_what_can_change_in_a_run(recipe, changes, says):
    with pytest.raises(ValueError, match=says):
        Recipe(**recipe, schedule=(Phase(at=5, changes=changes),))


def test_each_phase_changes_the_recipe_of_the_one_before():
    whole = Recipe(
        encoder="a3c",
        schedule=(
            Phase(at=10, changes={"gamma": 0.5, "steps": 20}),
            Phase(at=15, changes={"encoder": "a3c_wide", "n_steps": (4, 8), "reward_clip": 1.0}),
            Phase(at=30, changes={"gamma": 0.6, "reward_clip": None}),
        ),
    )
    assert [whole.at(steps).gamma for steps in (0, 9, 10, 29, 30, 10**9)] == [0.99, 0.99, 0.5, 0.5, 0.6, 0.6]
    assert (whole.at(15).encoder, whole.at(15).n_steps, whole.at(15).schedule) == ("a3c_wide", (4, 8), ())
    assert [whole.phases_begun(steps) for steps in (9, 15, 30)] == [0, 2, 3]
    assert (whole.last_step, whole.phase(0).steps) == (20, Recipe().steps)
