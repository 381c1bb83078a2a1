"""Learning takes what acting has computed, and learns from it what it would have learnt from its own."""

import math

import pytest
import torch

from a3c_core.activation_cache import ActivationCache
from a3c_core.devices import encoder_dtype
from a3c_core.envs import make_envs, spaces_of
from a3c_core.loss import a3c_loss, batch_of
from a3c_core.model import build_model
from a3c_core.recipe import Recipe
from a3c_core.rollout import Stepper
from a3c_core.worker import gradient_of

RECIPE = {"env": "ALE/Breakout-v5", "head_layers": (), "core_size": 8, "pixel_shift": -50.0, "precision": "bfloat16"}
ROUNDING = {torch.float32: 1e-3, torch.bfloat16: 2e-2}
"""The same sums in another order differ by such a share of the largest."""


@pytest.fixture(scope="module")
def games():
    """Two games of Breakout: they take longer to make than all else here."""
    envs = make_envs(Recipe(**RECIPE), 2)
    yield envs
    envs.close()


def played(games, **changes):
    """A network, what it has seen in five steps of two games, and what its encoder computed meanwhile."""
    recipe = Recipe(**{**RECIPE, **changes})
    model = build_model(recipe, spaces_of(recipe))
    model.encoder.to(encoder_dtype(recipe))
    stepper, cache = Stepper(games, recipe, model, seed=0), ActivationCache(model.encoder, recipe)
    torch.manual_seed(0)
    rollout = stepper.rollout(model, 5, cache.record)
    return recipe, model, batch_of(rollout, recipe), cache


@pytest.mark.parametrize(
    ("encoder", "core", "precision", "layer_norm"),
    [
        ("a3c", "none", "float32", False),
        ("a3c", "none", "bfloat16", True),
        ("a3c", "lstm", "float32", True),
        ("a3c", "lstm", "bfloat16", False),
        ("nature", "none", "float32", True),
        ("nature", "none", "bfloat16", False),
        ("residual", "none", "float32", False),
        ("residual", "none", "bfloat16", True),
    ],
)
def test_the_gradient_is_that_of_a_forward_pass_of_its_own(games, encoder, core, precision, layer_norm):
    recipe, model, batch, cache = played(games, encoder=encoder, core=core, precision=precision, layer_norm=layer_norm)
    with cache.replay():
        replayed = gradient_of(a3c_loss(model, batch, recipe).total, model)
    computed = gradient_of(a3c_loss(model, batch, recipe).total, model)
    assert replayed.norm() > 1e-3
    assert (replayed - computed).norm() < ROUNDING[encoder_dtype(recipe)] * computed.norm()


def test_what_was_recorded_is_taken_as_it_is_and_once(games):
    recipe, model, batch, cache = played(games, encoder="nature")
    with torch.no_grad():
        for parts in cache._outputs.values():
            for part in parts:
                part.zero_()
    with cache.replay():
        assert a3c_loss(model, batch, recipe).entropy.item() == pytest.approx(math.log(4))
    with cache.replay():
        assert a3c_loss(model, batch, recipe).entropy.item() != pytest.approx(math.log(4), abs=1e-7)


def test_what_another_encoder_computed_is_refused(games):
    recipe, model, batch, _ = played(games, encoder="a3c")
    *_, other = played(games, encoder="nature")
    with pytest.raises((ValueError, RuntimeError)), other.replay():
        a3c_loss(model, batch, recipe)
    *_, unused = played(games, encoder="nature")
    with pytest.raises(ValueError, match="another encoder"), unused.replay():
        pass


def test_a_value_that_is_asked_for_between_two_steps_is_not_recorded(cut_short):
    cut_short(3)
    games = make_envs(Recipe(**RECIPE), 2)
    _, model, batch, cache = played(games, encoder="a3c", precision="float32")
    games.close()
    assert {sum(map(len, parts)) for parts in cache._outputs.values()} == {10}
    with torch.no_grad():
        recorded = torch.cat(cache._outputs[model.encoder[0]])
        torch.testing.assert_close(model.encoder[0](batch.obs.flatten(0, 1)), recorded)


def test_nothing_is_recorded_of_an_encoder_without_layers():
    recipe = Recipe(env="CartPole-v1")
    assert ActivationCache(build_model(recipe, spaces_of(recipe)).encoder, recipe)._outputs == {}


@pytest.mark.parametrize("changes", [{"minibatches": 2}, {"vtrace": True}])
def test_nothing_is_recorded_that_the_first_gradient_does_not_reuse(changes):
    recipe = Recipe(**RECIPE, encoder="a3c", **changes)
    assert ActivationCache(build_model(recipe, spaces_of(recipe)).encoder, recipe)._outputs == {}
