"""Acting and learning are the same call, memory begins anew with each episode, and fresh weights are the seed's."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn
from torch.nn import functional

from a3c_core import model as model_file
from a3c_core.agent import Agent
from a3c_core.checkpoint import count_parameters, load_agent
from a3c_core.envs import Spaces, spaces_of
from a3c_core.model import ContinuousPolicy, DiscretePolicy, MultiDiscretePolicy, build_model, register_encoder
from a3c_core.recipe import Recipe
from tests import toy
from training import engine
from training.run import train

T, B = 7, 3
RESETS = torch.zeros(T, B)
RESETS[0, 1] = RESETS[3, 0] = RESETS[3, 2] = RESETS[6, 2] = 1.0


def random_obs(time=T, batch=B):
    return torch.randn(time, batch, 2, generator=torch.Generator().manual_seed(0))


def model_and_memory(core, *, box=False):
    """A model with some weights everywhere, and a memory that is not empty where there can be one."""
    model = build_model(toy.recipe(core=core), toy.spaces(box=box))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model, tuple(torch.randn(part.shape, generator=generator) for part in model.initial_memory(B))


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("core", ["none", "lstm"])
@torch.no_grad()
def test_one_call_with_all_steps_equals_a_call_for_each(core, box):
    model, memory = model_and_memory(core, box=box)
    obs = random_obs()
    policy, value, last = model(obs, RESETS, memory)
    for t in range(T):
        policy_t, value_t, memory = model(obs[t : t + 1], RESETS[t : t + 1], memory)
        torch.testing.assert_close(policy_t.parameters()[0], policy.parameters()[t])
        torch.testing.assert_close(value_t[0], value[t])
    torch.testing.assert_close(memory, last)


@torch.no_grad()
def test_a_reset_makes_an_agent_that_has_seen_nothing():
    model, memory = model_and_memory("lstm")
    obs = random_obs()
    reset = torch.zeros(T, B)
    reset[4] = 1.0
    _, value, last = model(obs, reset, memory)
    _, fresh_value, fresh_last = model(obs[4:], torch.zeros(T - 4, B), model.initial_memory(B))
    torch.testing.assert_close(value[4:], fresh_value, rtol=0, atol=0)
    torch.testing.assert_close(last, fresh_last, rtol=0, atol=0)


@torch.no_grad()
def test_a_reset_empties_the_memory_of_its_own_environment_only():
    model, memory = model_and_memory("lstm")
    obs = random_obs(1)
    _, kept, _ = model(obs, torch.zeros(1, B), memory)
    _, value, _ = model(obs, torch.tensor([[0.0, 1.0, 0.0]]), memory)
    assert (value == kept).tolist() == [[True, False, True]]


def test_a_core_without_memory_carries_nothing():
    model, _ = model_and_memory("none")
    assert model.initial_memory(B) == ()
    assert model(random_obs(), RESETS, ())[2] == ()


@pytest.mark.parametrize(("box", "shape"), [(False, (T, B)), (True, (T, B, 1))])
def test_shapes_are_time_major(box, shape):
    model, memory = model_and_memory("lstm", box=box)
    policy, value, _ = model(random_obs(), RESETS, memory)
    assert value.shape == policy.log_prob(policy.act()).shape == policy.entropy().shape == (T, B)
    assert policy.act().shape == policy.act(greedy=True).shape == shape


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "ALE/Pong-v5"])
@pytest.mark.parametrize("core", ["none", "lstm"])
def test_fresh_weights_depend_on_the_recipes_seed_alone(env, core):
    def weights(seed):
        recipe = Recipe(env=env, encoder="a3c" if env.startswith("ALE/") else "vector", core=core, seed=seed)
        return torch.cat([p.flatten() for p in build_model(recipe, spaces_of(recipe)).parameters()])

    first = weights(5)
    torch.rand(10)
    assert torch.equal(weights(5), first)
    assert not torch.equal(weights(6), first)


def test_building_a_model_leaves_the_global_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    build_model(toy.recipe(core="lstm"), toy.spaces(box=True))
    assert torch.equal(torch.rand(4), expected)


def test_a_fresh_discrete_policy_is_nearly_uniform():
    model = build_model(toy.recipe(), toy.spaces(box=False))
    policy, _, _ = model(random_obs(), RESETS, ())
    torch.testing.assert_close(policy.parameters(), torch.full((T, B, 2), 0.5), atol=0.02, rtol=0)


def test_a_fresh_continuous_policy_has_the_recipes_spread_around_nearly_zero():
    model = build_model(toy.recipe(initial_std=0.7), toy.spaces(box=True))
    policy, _, _ = model(random_obs(), RESETS, ())
    mean, std = policy.parameters().unbind(-1)
    torch.testing.assert_close(std, torch.full((T, B), 0.7))
    assert 0.0 < mean.abs().max() < 0.1


def test_discrete_log_probability_and_entropy_are_the_softmaxs():
    logits = np.array([[[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]]])
    policy = DiscretePolicy(torch.tensor(logits))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(policy.parameters(), p, rtol=1e-12)
    np.testing.assert_allclose(policy.log_prob(torch.tensor([[2, 0]])), [[np.log(p[0, 0, 2]), np.log(1 / 3)]])
    np.testing.assert_allclose(policy.entropy(), -(p * np.log(p)).sum(-1))


def test_continuous_log_probability_and_entropy_are_sums_over_the_dimensions():
    mean, std, action = np.array([[[0.5, -1.0]]]), np.array([[[0.2, 3.0]]]), np.array([[[0.7, 2.0]]])
    policy = ContinuousPolicy(torch.tensor(mean), torch.tensor(std))
    density = np.exp(-(((action - mean) / std) ** 2) / 2) / (std * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(policy.log_prob(torch.tensor(action)), np.log(density).sum(-1))
    np.testing.assert_allclose(policy.entropy(), (0.5 * np.log(2 * math.pi * math.e * std**2)).sum(-1))
    np.testing.assert_array_equal(policy.parameters(), [[[0.5, -1.0, 0.2, 3.0]]])


def test_greedy_takes_the_likeliest_action_or_the_mean():
    assert DiscretePolicy(torch.tensor([[[1.0, 3.0, 2.0], [9.0, 0.0, 0.0]]])).act(greedy=True).tolist() == [[1, 0]]
    mean = torch.tensor([[[0.25, -0.5]]])
    assert torch.equal(ContinuousPolicy(mean, torch.ones(1, 1, 2)).act(greedy=True), mean)


def test_a_temperature_raises_each_probability_to_its_inverse_and_normalises():
    p = torch.tensor([[[0.1, 0.2, 0.7]], [[0.3, 0.3, 0.4]]])
    expected = p**2 / (p**2).sum(-1, keepdim=True)
    torch.testing.assert_close(DiscretePolicy(p.log()).at_temperature(0.5).parameters(), expected)
    several = MultiDiscretePolicy(torch.cat([p, p.flip(-1)], -1).log(), (3, 3)).at_temperature(0.5)
    torch.testing.assert_close(several.parameters(), torch.cat([expected, expected.flip(-1)], -1))


def test_a_temperature_raises_a_density_to_its_inverse():
    policy = ContinuousPolicy(torch.tensor([[[0.5, -1.0]]]), torch.tensor([[[0.2, 3.0]]]))
    first, second = torch.tensor([[[0.6, 0.0]]]), torch.tensor([[[0.3, -2.0]]])
    ratio = policy.log_prob(first) - policy.log_prob(second)
    cooler = policy.at_temperature(0.25)
    torch.testing.assert_close(cooler.log_prob(first) - cooler.log_prob(second), 4 * ratio)


@pytest.mark.parametrize(
    "policy",
    [DiscretePolicy(torch.zeros(5, 20, 4)), ContinuousPolicy(torch.zeros(5, 20, 2), torch.ones(5, 20, 2))],
    ids=["discrete", "continuous"],
)
def test_drawn_actions_are_the_generators(policy):
    def draw(seed):
        return policy.act(generators=20 * [torch.Generator().manual_seed(seed)])

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


@pytest.mark.parametrize("own", [True, False], ids=["own generators", "torch's generator"])
def test_actions_are_drawn_as_often_as_their_probability_says(own):
    torch.manual_seed(0)
    policy = DiscretePolicy(torch.tensor([0.1, 0.2, 0.7]).log().expand(100, 200, 3))
    drawn = policy.act(generators=200 * [torch.Generator().manual_seed(0)] if own else None).flatten()
    np.testing.assert_allclose(np.bincount(drawn) / 20_000, [0.1, 0.2, 0.7], atol=0.015)


def test_continuous_actions_are_drawn_with_the_policys_mean_and_spread():
    policy = ContinuousPolicy(torch.full((100, 200, 1), 0.5), torch.full((100, 200, 1), 2.0))
    drawn = policy.act(generators=200 * [torch.Generator().manual_seed(0)])
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.06)
    assert drawn.std().item() == pytest.approx(2.0, abs=0.06)


PONG, BREAKOUT = "ALE/Pong-v5", "ALE/Breakout-v5"
FRAMES = torch.randint(256, (T * B, 4, 84, 84), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def frame_encoder(encoder="a3c", **changes):
    """An encoder whose biases are not zero, and one seed for all."""
    recipe = Recipe(env=PONG, encoder=encoder, head_layers=(), **changes)
    made = build_model(recipe, spaces_of(recipe)).encoder
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("bias"):
                parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(parameter)))
    return made


def by_plain_layers(encoder, frames, shift, scale):
    """What torch's own layers make of the pixels as floats."""
    first, *others = encoder
    features = functional.conv2d((frames.float() + shift) * scale, first.weight, first.bias, first.stride)
    for layer in others:
        features = layer(features)
    return features


@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.parametrize("encoder", ["a3c", "a3c_wide", "nature", "residual"])
@torch.no_grad()
def test_frames_become_a_policy_and_a_value_for_each_step(encoder, core):
    recipe = Recipe(env=PONG, encoder=encoder, core=core, core_size=8, head_layers=())
    model = build_model(recipe, spaces_of(recipe))
    policy, value, memory = model(FRAMES.unflatten(0, (T, B)), RESETS, model.initial_memory(B))
    assert policy.parameters().shape == (T, B, 6)
    assert value.shape == (T, B)
    assert [part.shape for part in memory] == [(B, 8)] * (2 if core == "lstm" else 0)
    assert model.encoder(FRAMES).shape == (T * B, {"a3c_wide": 512, "nature": 512}.get(encoder, 256))


# 84 pixels: (84 - 8) / 4 + 1 = 20, (20 - 4) / 2 + 1 = 9, 9 - 3 + 1 = 7
A3C = (16 * 4 * 8 * 8 + 16) + (32 * 16 * 4 * 4 + 32) + (256 * 32 * 9 * 9 + 256)
WIDE = (32 * 4 * 8 * 8 + 32) + (64 * 32 * 4 * 4 + 64) + (512 * 64 * 9 * 9 + 512)
NATURE = (32 * 4 * 8 * 8 + 32) + (64 * 32 * 4 * 4 + 64) + (64 * 64 * 3 * 3 + 64) + (512 * 64 * 7 * 7 + 512)


# 84 pixels: (84 - 4) / 2 + 1 = 41, 20 after a max-pool, 10 after another
RESIDUAL = (16 * 4 * 4 * 4 + 16) + (32 * 16 * 3 * 3 + 32) + 4 * (32 * 32 * 3 * 3 + 32) + (256 * 32 * 10 * 10 + 256)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"env": PONG, "encoder": "a3c"}, A3C + (256 * 6 + 6) + (256 + 1)),
        ({"env": PONG, "encoder": "a3c_wide"}, WIDE + (512 * 6 + 6) + (512 + 1)),
        ({"env": BREAKOUT, "encoder": "nature"}, NATURE + (512 * 4 + 4) + (512 + 1)),
        ({"env": BREAKOUT, "encoder": "residual"}, RESIDUAL + (256 * 4 + 4) + (256 + 1)),
        ({"env": PONG, "encoder": "a3c", "full_action_space": True}, A3C + (256 * 18 + 18) + (256 + 1)),
        ({"env": PONG, "encoder": "a3c", "layer_norm": True}, A3C + 2 * 256 + (256 * 6 + 6) + (256 + 1)),
        (
            {"env": PONG, "encoder": "a3c", "core": "lstm", "core_size": 32},
            A3C + 4 * (32 * 256 + 32 * 32 + 2 * 32) + (32 * 6 + 6) + (32 + 1),
        ),
    ],
    ids=["a3c", "a3c_wide", "nature", "residual", "all actions", "layer norm", "lstm"],
)
def test_networks_for_frames_have_the_papers_size(changes, expected):
    assert count_parameters(Agent.untrained(Recipe(head_layers=(), **changes))) == expected


@pytest.mark.parametrize("encoder", ["a3c", "nature", "residual"])
@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1 / 255), (-87.0, 3 / 255)])
@torch.no_grad()
def test_pixels_are_shifted_then_scaled(encoder, shift, scale):
    made = frame_encoder(encoder, pixel_shift=shift, pixel_scale=scale)
    expected = by_plain_layers(made, FRAMES, shift, scale)
    torch.testing.assert_close(made(FRAMES), expected, rtol=1e-4, atol=1e-4)
    assert (expected > 0).float().mean() > 0.1
    other = by_plain_layers(made, FRAMES, shift, scale * 1.1)
    assert not torch.allclose(other, expected, rtol=1e-2, atol=1e-2)


@torch.no_grad()
def test_a_residual_encoder_gives_a_frame_the_same_features_alone_and_among_others():
    made = frame_encoder("residual", layer_norm=True)
    together = made(FRAMES)
    torch.testing.assert_close(torch.cat([made(frame[None]) for frame in FRAMES]), together, rtol=1e-4, atol=1e-4)
    rounded = frame_encoder("residual", layer_norm=True).bfloat16()(FRAMES)
    assert rounded.dtype == torch.float32
    assert (rounded - together).norm() < 0.05 * together.norm()


def test_a_gradient_reaches_all_of_a_residual_encoder():
    made = frame_encoder("residual")
    made(FRAMES).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in made.parameters())


@pytest.mark.parametrize(("side", "fits"), [(13, False), (14, True), (15, True), (84, True), (85, True)])
def test_a_residual_encoder_reads_what_its_layers_can_pool(side, fits):
    space = Box(0, 255, (4, side, side + 3), np.uint8)
    assert model_file.ENCODERS["residual"].reads(space) is fits
    if fits:
        made = model_file.ENCODERS["residual"](space, Recipe())
        assert made(torch.zeros(2, *space.shape, dtype=torch.uint8)).shape == (2, 256)


@torch.no_grad()
def test_a_picture_of_the_shifted_grey_is_as_good_as_black():
    grey = torch.full((1, 4, 84, 84), 87, dtype=torch.uint8)
    made = frame_encoder(pixel_shift=-87.0, pixel_scale=3 / 255)
    torch.testing.assert_close(made(grey), frame_encoder()(torch.zeros_like(grey)))


def test_frames_are_not_changed_by_looking_at_them():
    before = FRAMES.clone()
    frame_encoder(pixel_shift=-87.0)(FRAMES)
    assert torch.equal(FRAMES, before)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_acting_and_learning_see_the_same(layer_norm):
    made = frame_encoder(pixel_shift=-50.0, layer_norm=layer_norm)
    with torch.no_grad():
        acting = made(FRAMES)
    learning = made(FRAMES)
    assert learning.requires_grad
    torch.testing.assert_close(learning.detach(), acting, rtol=1e-4, atol=1e-4)


def test_the_gradient_is_that_of_plain_layers():
    made = frame_encoder(pixel_shift=-50.0, pixel_scale=1 / 100)
    parameters = list(made.parameters())
    ours = torch.autograd.grad(made(FRAMES).square().mean(), parameters)
    plain = torch.autograd.grad(by_plain_layers(made, FRAMES, -50.0, 1 / 100).square().mean(), parameters)
    for gradient, expected in zip(ours, plain, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-3 * expected.abs().max().item())


@torch.no_grad()
def test_bfloat16_gives_nearly_the_same_features_in_float32():
    made = frame_encoder(pixel_shift=-87.0, pixel_scale=3 / 255)
    exact = made(FRAMES)
    rounded = made.to(torch.bfloat16)(FRAMES)
    assert rounded.dtype == torch.float32
    assert 0.0 < (rounded - exact).norm() < 0.02 * exact.norm()


@torch.no_grad()
def test_layer_norm_keeps_units_alive_whatever_the_biases():
    alive = {}
    for layer_norm in (False, True):
        made = frame_encoder(layer_norm=layer_norm)
        assert [type(layer) for layer in made].count(nn.LayerNorm) == layer_norm
        (last,) = (layer for layer in made if isinstance(layer, nn.Linear))
        last.bias -= 1e3
        alive[layer_norm] = (made(FRAMES) > 0).float().mean().item()
    assert alive[False] == 0.0
    assert alive[True] == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize(
    ("env", "encoder", "fitting"),
    [
        ("CartPole-v1", "a3c", "vector"),
        ("Pendulum-v1", "nature", "vector"),
        (PONG, "vector", "a3c or a3c_wide or nature or small"),
    ],
)
def test_an_encoder_that_cannot_read_the_environment_is_refused_with_one_that_can(env, encoder, fitting):
    with pytest.raises(ValueError, match=f"the encoder {encoder} can't read {env}: choose {fitting}"):
        Agent.untrained(Recipe(env=env, encoder=encoder))


def test_pixels_that_are_floats_are_left_as_they_were():
    frames = FRAMES.float()
    before = frames.clone()
    frame_encoder(pixel_shift=-87.0)(frames)
    torch.testing.assert_close(frames, before, rtol=0, atol=0)


def test_several_choices_are_independent():
    logits = torch.randn(3, 2, 5)
    policy = MultiDiscretePolicy(logits, (2, 3))
    parts = DiscretePolicy(logits[..., :2]), DiscretePolicy(logits[..., 2:])
    actions = policy.act()
    expected = parts[0].log_prob(actions[..., 0]) + parts[1].log_prob(actions[..., 1])
    torch.testing.assert_close(policy.log_prob(actions), expected)
    torch.testing.assert_close(policy.entropy(), parts[0].entropy() + parts[1].entropy())
    assert policy.act(greedy=True).tolist() == torch.stack([part.logits.argmax(-1) for part in parts], -1).tolist()
    drawn = [policy.act(generators=[torch.Generator().manual_seed(seed) for seed in (1, 2)]) for _ in range(2)]
    assert drawn[0].shape == (3, 2, 2)
    assert torch.equal(*drawn)
    torch.testing.assert_close(policy.parameters().sum(-1), torch.full((3, 2), 2.0))


def test_actions_of_any_shape_have_one_log_probability():
    spaces = Spaces(Box(-1, 1, (4,)), Box(-1, 1, (2, 3)))
    model = build_model(Recipe(head_layers=()), spaces)
    policy, *_ = model(torch.zeros(5, 2, 4), torch.zeros(5, 2), ())
    actions = policy.act()
    assert actions.shape == (5, 2, 2, 3)
    assert policy.log_prob(actions).shape == policy.entropy().shape == (5, 2)
    assert policy.parameters().shape == (5, 2, 12)


class TwoUnits(torch.nn.Sequential):
    """An encoder as a user would write it."""

    features = 2

    def __init__(self, space, recipe):
        super().__init__(torch.nn.Linear(space.shape[0], 2), torch.nn.ReLU())


def test_an_encoder_of_ones_own_is_trained_saved_and_refused_where_it_is_not_registered(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "REGISTERED_ENCODERS", registered := {})
    monkeypatch.setattr(engine, "REGISTERED_ENCODERS", registered)
    register_encoder("two_units", TwoUnits)
    recipe = Recipe(encoder="two_units", steps=64, workers=1, n_steps=(4,))
    list(train(recipe, tmp_path))
    assert load_agent(tmp_path).model.encoder[0].weight.shape == (2, 4)
    registered.clear()
    with pytest.raises(ValueError, match=r"unknown encoder 'two_units'.*--import MODULE"):
        load_agent(tmp_path)


@pytest.mark.parametrize(("name", "make", "says"), [("a3c", TwoUnits, "built-in"), ("mine", lambda *_: 0, "top level")])
def test_an_encoder_that_workers_could_not_have_is_refused(name, make, says):
    with pytest.raises(ValueError, match=says):
        register_encoder(name, make)
