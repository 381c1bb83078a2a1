"""Acting and learning are the same call, memory begins anew with each episode, and fresh weights are the seed's."""

import math

import numpy as np
import pytest
import torch

from a3c_core.envs import spaces_of
from a3c_core.model import ContinuousPolicy, DiscretePolicy, build_model
from a3c_core.recipe import Recipe
from tests import toy

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
        torch.testing.assert_close(policy_t.describe()[0], policy.describe()[t])
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


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("core", ["none", "lstm"])
def test_fresh_weights_depend_on_the_recipes_seed_alone(env, core):
    def weights(seed):
        return torch.cat([p.flatten() for p in build_model(Recipe(env=env, core=core, seed=seed), spaces).parameters()])

    spaces = spaces_of(env)
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
    torch.testing.assert_close(policy.describe(), torch.full((T, B, 2), 0.5), atol=0.02, rtol=0)


def test_a_fresh_continuous_policy_has_the_recipes_spread_around_nearly_zero():
    model = build_model(toy.recipe(initial_std=0.7), toy.spaces(box=True))
    policy, _, _ = model(random_obs(), RESETS, ())
    mean, std = policy.describe().unbind(-1)
    torch.testing.assert_close(std, torch.full((T, B), 0.7))
    assert 0.0 < mean.abs().max() < 0.1


def test_discrete_log_probability_and_entropy_are_the_softmaxs():
    logits = np.array([[[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]]])
    policy = DiscretePolicy(torch.tensor(logits))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(policy.describe(), p, rtol=1e-12)
    np.testing.assert_allclose(policy.log_prob(torch.tensor([[2, 0]])), [[np.log(p[0, 0, 2]), np.log(1 / 3)]])
    np.testing.assert_allclose(policy.entropy(), -(p * np.log(p)).sum(-1))


def test_continuous_log_probability_and_entropy_are_sums_over_the_dimensions():
    mean, std, action = np.array([[[0.5, -1.0]]]), np.array([[[0.2, 3.0]]]), np.array([[[0.7, 2.0]]])
    policy = ContinuousPolicy(torch.tensor(mean), torch.tensor(std))
    density = np.exp(-(((action - mean) / std) ** 2) / 2) / (std * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(policy.log_prob(torch.tensor(action)), np.log(density).sum(-1))
    np.testing.assert_allclose(policy.entropy(), (0.5 * np.log(2 * math.pi * math.e * std**2)).sum(-1))
    np.testing.assert_array_equal(policy.describe(), [[[0.5, -1.0, 0.2, 3.0]]])


def test_greedy_takes_the_likeliest_action_or_the_mean():
    assert DiscretePolicy(torch.tensor([[[1.0, 3.0, 2.0], [9.0, 0.0, 0.0]]])).act(greedy=True).tolist() == [[1, 0]]
    mean = torch.tensor([[[0.25, -0.5]]])
    assert torch.equal(ContinuousPolicy(mean, torch.ones(1, 1, 2)).act(greedy=True), mean)


@pytest.mark.parametrize(
    "policy",
    [DiscretePolicy(torch.zeros(5, 20, 4)), ContinuousPolicy(torch.zeros(5, 20, 2), torch.ones(5, 20, 2))],
    ids=["discrete", "continuous"],
)
def test_drawn_actions_are_the_generators(policy):
    def draw(seed):
        return policy.act(generator=torch.Generator().manual_seed(seed))

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


def test_actions_are_drawn_as_often_as_their_probability_says():
    policy = DiscretePolicy(torch.tensor([0.1, 0.2, 0.7]).log().expand(100, 200, 3))
    drawn = policy.act(generator=torch.Generator().manual_seed(0)).flatten()
    np.testing.assert_allclose(np.bincount(drawn) / 20_000, [0.1, 0.2, 0.7], atol=0.015)


def test_continuous_actions_are_drawn_with_the_policys_mean_and_spread():
    policy = ContinuousPolicy(torch.full((100, 200, 1), 0.5), torch.full((100, 200, 1), 2.0))
    drawn = policy.act(generator=torch.Generator().manual_seed(0))
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.06)
    assert drawn.std().item() == pytest.approx(2.0, abs=0.06)
