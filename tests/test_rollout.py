"""A rollout holds what happened, when it happened, and no value flows over an episode's end."""

import numpy as np
import pytest
import torch

from a3c_core.model import build_model
from a3c_core.rollout import Stepper, learner_rewards
from tests import toy

GAMMA = 0.9
LENGTHS = (3, 2)
REWARDS = [[1, 1], [2, 2], [3, 1], [1, 2], [2, 1]]
"""What the counting environments with episodes of 3 and 2 steps pay in 5 steps."""


def stepper_and_model(ends=("terminated", "terminated"), *, core="none", **changes):
    recipe = toy.recipe(gamma=GAMMA, core=core, **changes)
    model = build_model(recipe, toy.spaces(box=False))
    return Stepper(toy.Count(LENGTHS, ends), recipe, model, seed=0), model


@torch.no_grad()
def value_of(model, obs, memory=()):
    """V of one observation of one environment."""
    return model(torch.tensor(obs, dtype=torch.float32).view(1, 1, 2), torch.zeros(1, 1), memory)[1].item()


def test_observations_actions_rewards_and_resets_are_of_the_same_step():
    stepper, model = stepper_and_model()
    rollout = stepper.rollout(model, 5)
    assert rollout.obs.tolist() == [
        [[0, 0], [0, 0]],
        [[0, 1], [0, 1]],
        [[0, 2], [1, 0]],
        [[1, 0], [1, 1]],
        [[1, 1], [2, 0]],
    ]
    assert rollout.reset.tolist() == [[1, 1], [0, 0], [0, 1], [1, 0], [0, 1]]
    assert rollout.rewards.tolist() == REWARDS
    torch.testing.assert_close(rollout.discounts, GAMMA * torch.tensor([[1, 1], [1, 0], [0, 1], [1, 0], [1, 1.0]]))
    np.testing.assert_array_equal(rollout.actions, stepper.envs.taken)


def test_the_next_rollout_goes_on_where_the_last_one_stopped():
    whole, model = stepper_and_model(core="lstm")
    parts, _ = stepper_and_model(core="lstm")
    torch.manual_seed(0)
    expected = whole.rollout(model, 5)
    torch.manual_seed(0)
    first, second = parts.rollout(model, 2), parts.rollout(model, 3)
    for name in ("obs", "reset", "actions", "rewards", "discounts"):
        torch.testing.assert_close(torch.cat([getattr(first, name), getattr(second, name)]), getattr(expected, name))
    torch.testing.assert_close(second.bootstrap, expected.bootstrap)


def test_the_bootstrap_is_the_value_of_the_observation_where_the_rollout_stopped():
    stepper, model = stepper_and_model()
    rollout = stepper.rollout(model, 5)
    expected = [value_of(model, [1, 2]), value_of(model, [2, 1])]
    assert rollout.bootstrap.tolist() == pytest.approx(expected)


@torch.no_grad()
def test_the_bootstrap_of_a_recurrent_agent_uses_its_memory_and_empties_it_after_an_end():
    stepper, model = stepper_and_model(core="lstm")
    rollout = stepper.rollout(model, 4)
    obs = torch.cat([rollout.obs, torch.tensor([[[1.0, 1.0], [2.0, 0.0]]])])
    reset = torch.cat([rollout.reset, torch.tensor([[0.0, 1.0]])])
    _, values, _ = model(obs, reset, rollout.memory)
    torch.testing.assert_close(rollout.bootstrap, values[-1])
    assert rollout.bootstrap[1].item() == pytest.approx(value_of(model, [2, 0], model.initial_memory(1)))


@torch.no_grad()
def test_a_rollout_starts_with_the_memory_from_before_its_first_observation():
    stepper, model = stepper_and_model(core="lstm")
    first = stepper.rollout(model, 2)
    _, _, memory = model(first.obs, first.reset, first.memory)
    second = stepper.rollout(model, 2)
    assert all(part.eq(0).all() for part in first.memory)
    torch.testing.assert_close(second.memory, memory)
    assert all(part.ne(0).any() for part in second.memory)


def test_a_truncated_step_carries_the_discounted_value_of_its_final_observation():
    stepper, model = stepper_and_model(("terminated", "truncated"))
    rollout = stepper.rollout(model, 5)
    expected = np.array(REWARDS, dtype=float)
    expected[1, 1] += GAMMA * value_of(model, [0, 2])
    expected[3, 1] += GAMMA * value_of(model, [1, 2])
    np.testing.assert_allclose(rollout.rewards, expected, rtol=1e-5)
    assert rollout.discounts[:, 1].tolist() == pytest.approx([GAMMA, 0, GAMMA, 0, GAMMA])


def test_an_episode_that_terminates_at_its_time_limit_carries_no_value():
    stepper, model = stepper_and_model(("terminated", "both"))
    assert stepper.rollout(model, 5).rewards.tolist() == REWARDS


@torch.no_grad()
def test_the_final_observation_of_a_recurrent_agent_is_judged_with_its_episodes_memory():
    stepper, model = stepper_and_model(("terminated", "truncated"), core="lstm")
    rollout = stepper.rollout(model, 2)
    _, _, memory = model(rollout.obs, rollout.reset, rollout.memory)
    final = value_of(model, [0, 2], tuple(part[1:] for part in memory))
    assert rollout.rewards[1, 1].item() == pytest.approx(2 + GAMMA * final, rel=1e-5)


def test_returns_of_finished_episodes_are_whole_and_true():
    stepper, model = stepper_and_model(reward_shift=10.0, reward_scale=0.5, reward_clip=1.0)
    finished = []
    for _ in range(4):
        stepper.rollout(model, 2)
        finished.append(stepper.finished)
    assert finished == [[3.0], [6.0, 3.0], [6.0, 3.0], [3.0]]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [-10.0, 0.0, 3.0]),
        ({"reward_shift": 8.0}, [-2.0, 8.0, 11.0]),
        ({"reward_scale": 0.5}, [-5.0, 0.0, 1.5]),
        ({"reward_shift": 8.0, "reward_scale": 0.5}, [-1.0, 4.0, 5.5]),
        ({"reward_clip": 1.0}, [-1.0, 0.0, 1.0]),
        ({"reward_shift": 8.0, "reward_scale": 0.5, "reward_clip": 4.5}, [-1.0, 4.0, 4.5]),
    ],
)
def test_the_learner_sees_rewards_shifted_then_scaled_then_clipped(changes, expected):
    rewards = learner_rewards(np.array([-10.0, 0.0, 3.0]), toy.recipe(**changes))
    assert rewards.dtype == np.float32
    assert rewards.tolist() == expected


def test_the_value_of_a_truncated_step_is_added_after_the_clip():
    stepper, model = stepper_and_model(("terminated", "truncated"), reward_clip=0.5)
    rewards = stepper.rollout(model, 2).rewards
    assert rewards[1, 1].item() == pytest.approx(0.5 + GAMMA * value_of(model, [0, 2]))
