"""Learning takes what acting has computed, and learns from it what it would have learnt from its own."""

import math

import pytest
import torch

from a3c_core.activation_cache import Recall
from a3c_core.envs import make_envs, spaces_of
from a3c_core.loss import a3c_loss
from a3c_core.model import build_model
from a3c_core.recipe import Recipe
from a3c_core.rollout import Stepper
from a3c_core.worker import encoder_dtype, gradient_of

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
    """A network, and what it has seen in five steps of two games."""
    recipe = Recipe(**{**RECIPE, **changes})
    model = build_model(recipe, spaces_of(recipe))
    model.encoder.to(encoder_dtype(recipe))
    stepper = Stepper(games, recipe, model, seed=0)
    torch.manual_seed(0)
    return recipe, model, stepper.rollout(model, 5)


@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.parametrize("encoder", ["a3c", "a3c_wide", "nature"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_gradient_is_that_of_a_forward_pass_of_its_own(games, encoder, core, precision, layer_norm):
    recipe, model, rollout = played(games, encoder=encoder, core=core, precision=precision, layer_norm=layer_norm)
    recalled = gradient_of(a3c_loss(model, rollout, recipe).total, model)
    anew = gradient_of(a3c_loss(model, rollout._replace(encoded=()), recipe).total, model)
    assert recalled.norm() > 1e-3
    assert (recalled - anew).norm() < ROUNDING[encoder_dtype(recipe)] * anew.norm()


def test_what_was_kept_is_taken_as_it_is(games):
    recipe, model, rollout = played(games, encoder="nature")
    assert [part.shape for part in rollout.encoded] == [(10, 32, 20, 20), (10, 64, 9, 9), (10, 64, 7, 7), (10, 512)]
    forgotten = rollout._replace(encoded=tuple(torch.zeros_like(part) for part in rollout.encoded))
    assert a3c_loss(model, forgotten, recipe).entropy.item() == pytest.approx(math.log(4))
    assert a3c_loss(model, rollout, recipe).entropy.item() != pytest.approx(math.log(4), abs=1e-7)


def test_what_another_encoder_put_out_is_refused(games):
    recipe, model, _ = played(games, encoder="a3c")
    _, _, rollout = played(games, encoder="nature")
    with pytest.raises((ValueError, RuntimeError)):
        a3c_loss(model, rollout, recipe)
    with pytest.raises(ValueError, match="of another encoder"), Recall(rollout.encoded):
        pass


def test_a_value_that_is_asked_for_between_two_steps_is_not_kept(cut_short):
    cut_short(3)
    games = make_envs(Recipe(**RECIPE), 2)
    _, model, rollout = played(games, encoder="a3c", precision="float32")
    games.close()
    assert not rollout.discounts.all()
    assert {len(part) for part in rollout.encoded} == {10}
    with torch.no_grad():
        torch.testing.assert_close(model.encoder[0](rollout.obs.flatten(0, 1)), rollout.encoded[0])


def test_vectors_are_handed_on_and_nothing_is_kept():
    recipe = Recipe(env="CartPole-v1")
    model = build_model(recipe, spaces_of(recipe))
    envs = make_envs(recipe, 2)
    assert Stepper(envs, recipe, model, seed=0).rollout(model, 2).encoded == ()
    envs.close()
