"""A rollout holds what happened, when it happened, and no value flows over an episode's end."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from a3c_core.atari import AtariGames
from a3c_core.envs import make_envs, spaces_of
from a3c_core.model import build_model
from a3c_core.normalization import learner_rewards, scaled_rewards
from a3c_core.recipe import Recipe
from a3c_core.rollout import Stepper
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
    torch.testing.assert_close(second.values[-1], expected.values[-1])


def test_the_bootstrap_is_the_value_of_the_observation_where_the_rollout_stopped():
    stepper, model = stepper_and_model()
    rollout = stepper.rollout(model, 5)
    expected = [value_of(model, [1, 2]), value_of(model, [2, 1])]
    assert rollout.values[-1].tolist() == pytest.approx(expected)


@torch.no_grad()
def test_the_bootstrap_of_a_recurrent_agent_uses_its_memory_and_empties_it_after_an_end():
    stepper, model = stepper_and_model(core="lstm")
    rollout = stepper.rollout(model, 4)
    obs = torch.cat([rollout.obs, torch.tensor([[[1.0, 1.0], [2.0, 0.0]]])])
    reset = torch.cat([rollout.reset, torch.tensor([[0.0, 1.0]])])
    _, values, _ = model(obs, reset, rollout.memory)
    torch.testing.assert_close(rollout.values[-1], values[-1])
    assert rollout.values[-1][1].item() == pytest.approx(value_of(model, [2, 0], model.initial_memory(1)))


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
    recipe = toy.recipe(**changes)
    rewards = learner_rewards(scaled_rewards(np.array([-10.0, 0.0, 3.0]), recipe, shifted=True), recipe)
    assert rewards.dtype == np.float32
    assert rewards.tolist() == expected


def test_the_value_of_a_truncated_step_is_added_after_the_clip():
    stepper, model = stepper_and_model(("terminated", "truncated"), reward_clip=0.5)
    rewards = stepper.rollout(model, 2).rewards
    assert rewards[1, 1].item() == pytest.approx(0.5 + GAMMA * value_of(model, [0, 2]))


def lives_and_model(*, core="none", **changes):
    """Two environments with games of 5 and 3 steps, which lose a life at the second and fourth step of each."""
    recipe = toy.recipe(gamma=GAMMA, core=core, **changes)
    model = build_model(recipe, toy.spaces(box=False))
    return Stepper(toy.Lives((5, 3), ("terminated", "terminated")), recipe, model, seed=0), model


@pytest.mark.parametrize(
    ("life_loss_ends_return", "stops"),
    [
        (True, [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 1], [1, 0]]),
        (False, [[0, 0], [0, 0], [0, 1], [0, 0], [1, 0], [0, 1], [0, 0]]),
    ],
)
def test_no_value_flows_over_the_loss_of_a_life_where_the_recipe_says_so(life_loss_ends_return, stops):
    stepper, model = lives_and_model(life_loss_ends_return=life_loss_ends_return)
    parts = [stepper.rollout(model, steps) for steps in (2, 1, 4)]
    torch.testing.assert_close(torch.cat([part.discounts for part in parts]), GAMMA * (1.0 - torch.tensor(stops)))


@pytest.mark.parametrize(
    ("life_loss_ends_return", "stops"), [(True, [0, 1, 1, 1, 1, 0, 1]), (False, [0, 0, 1, 0, 1, 0, 0])]
)
def test_no_value_flows_over_a_reward_where_the_recipe_says_so(life_loss_ends_return, stops):
    recipe = toy.recipe(reward_ends_return=True, life_loss_ends_return=life_loss_ends_return, reward_shift=8.0)
    model = build_model(recipe, toy.spaces(box=False))
    rollout = Stepper(toy.Points((5,), ("terminated",)), recipe, model, seed=0).rollout(model, 7)
    assert rollout.rewards[:, 0].tolist() == [8.0, 8.0, 7.0, 8.0, 8.0, 8.0, 8.0]
    assert (rollout.discounts[:, 0] == 0).tolist() == [bool(stop) for stop in stops]


@pytest.mark.parametrize(("allowed", "stops"), [(2, [2, 5, 7, 9, 11]), (3, [6, 9]), (None, [9])])
def test_no_value_flows_over_a_stall_where_the_recipe_says_so(allowed, stops):
    recipe = toy.recipe(stall_ends_return=allowed, reward_shift=8.0)
    model = build_model(recipe, toy.spaces(box=False))
    stepper = Stepper(toy.Points((9,), ("terminated",)), recipe, model, seed=0)  # points at steps 3 and 12
    discounts = torch.cat([stepper.rollout(model, steps).discounts[:, 0] for steps in (4, 9)])
    assert (1 + torch.nonzero(discounts == 0)[:, 0]).tolist() == stops


@pytest.mark.parametrize(("paid", "unpaid"), [(2, {6, 7, 8, 9}), (4, {8, 9}), (None, set())])
def test_a_stall_earns_nothing_where_the_recipe_says_so(paid, unpaid):
    recipe = toy.recipe(stall_earns_nothing=paid, reward_shift=8.0, normalize_rewards=True, gamma=0.0)
    model = build_model(recipe, toy.spaces(box=False))
    stepper = Stepper(toy.Points((9,), ("terminated",)), recipe, model, seed=0)
    expected = [0.0 if step in unpaid else 7.0 if step in (3, 12) else 8.0 for step in range(1, 14)]
    for rewards in (expected[:4], expected[4:]):
        assert stepper.rollout(model, len(rewards)).rewards[:, 0].tolist() == rewards
        assert stepper.moments[0].mean.item() == pytest.approx(np.mean(rewards))


@pytest.mark.parametrize("life_loss_ends_return", [True, False])
def test_the_game_goes_on_after_the_loss_of_a_life(life_loss_ends_return):
    stepper, model = lives_and_model(life_loss_ends_return=life_loss_ends_return)
    rollout = stepper.rollout(model, 6)
    assert rollout.reset.tolist() == [[1, 1], [0, 0], [0, 0], [0, 1], [0, 0], [1, 0]]
    assert rollout.obs[:, 0].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4], [1, 0]]
    assert stepper.finished == [6.0, 15.0, 6.0]


@pytest.mark.parametrize("life_loss_ends_return", [True, False])
@torch.no_grad()
def test_memory_is_emptied_when_a_game_ends_and_kept_when_a_life_is_lost(life_loss_ends_return):
    stepper, model = lives_and_model(core="lstm", life_loss_ends_return=life_loss_ends_return)
    before_the_loss = stepper.rollout(model, 2)
    _, _, memory = model(before_the_loss.obs, torch.zeros(2, 2), before_the_loss.memory)
    kept = [value_of(model, [0, 2], tuple(part[[b]] for part in memory)) for b in range(2)]
    emptied = value_of(model, [0, 2], model.initial_memory(1))
    assert before_the_loss.values[-1].tolist() == pytest.approx(kept, rel=1e-5)
    assert abs(emptied - kept[0]) > 1e-3 * abs(emptied)
    after_the_end = stepper.rollout(model, 1)
    assert after_the_end.values[-1, 1].item() == pytest.approx(value_of(model, [1, 0], model.initial_memory(1)))


BREAKOUT = Recipe(env="ALE/Breakout-v5", encoder="a3c", head_layers=(), gamma=GAMMA, reward_clip=0.5)


class Recorded(AtariGames):
    """Games that keep all that they told: rewards, frames of the game so far, lives."""

    def reset(self, **options):
        obs, info = super().reset(**options)
        self.told = [(np.zeros(self.num_envs), info["episode_frame_number"].copy(), info["lives"].copy())]
        return obs, info

    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        self.told.append((reward.copy(), info["episode_frame_number"].copy(), info["lives"].copy()))
        return obs, reward, terminated, truncated, info


def breakout(steps, **changes):
    """A rollout of random play, the returns counted by the Stepper, and what the games told."""
    recipe = replace(BREAKOUT, **changes)
    model = build_model(recipe, spaces_of(recipe))
    envs = Recorded(recipe.env, 2, sticky=0.0, full_action_space=False, threads=1)
    stepper = Stepper(envs, recipe, model, seed=0)
    torch.manual_seed(0)
    rollout = stepper.rollout(model, steps)
    envs.close()
    return rollout, stepper.finished, [np.stack(told) for told in zip(*envs.told, strict=True)]


@pytest.fixture(scope="module")
def random_play():
    """450 steps of two games of Breakout at once, long enough for several to end."""
    return breakout(450)


def test_breakout_ends_when_the_last_life_is_lost_and_its_return_is_true_and_whole(random_play):
    rollout, finished, (rewards, frames, lives) = random_play
    anew = np.diff(frames, axis=0) < 0
    expected, running = [], np.zeros(2)
    for paid, over in zip(rewards[1:], anew, strict=True):
        running += paid
        expected += running[over].tolist()
        running[over] = 0.0
    assert finished == expected
    assert len(finished) > 2
    assert max(finished) > 1.0
    np.testing.assert_array_equal(rollout.reset[1:].bool(), anew[:-1])
    np.testing.assert_array_equal(rollout.discounts == 0, anew)
    assert set(lives[:-1][anew]) == {1}
    assert set(lives[1:][anew]) == {5}
    assert rollout.rewards.max() == 0.5


def test_in_breakout_each_lost_life_stops_the_return_where_the_recipe_says_so(random_play):
    plain, finished, _ = random_play
    rollout, finished_too, (_, frames, lives) = breakout(450, life_loss_ends_return=True)
    for name in ("obs", "actions", "rewards", "reset"):
        assert torch.equal(getattr(rollout, name), getattr(plain, name))
    assert finished_too == finished
    lost = (np.diff(lives, axis=0) < 0) | (np.diff(frames, axis=0) < 0)
    np.testing.assert_array_equal(rollout.discounts == 0, lost)
    assert lost.sum() >= 5 * len(finished)


@torch.no_grad()
def test_a_game_of_atari_that_is_cut_short_carries_the_value_of_its_final_observation(cut_short):
    cut_short(10)
    envs = make_envs(BREAKOUT, 2)
    model = build_model(BREAKOUT, spaces_of(BREAKOUT))
    stepper = Stepper(envs, BREAKOUT, model, seed=0)
    before, last = stepper.rollout(model, 9), stepper.rollout(model, 1)
    assert before.discounts.all()
    assert not last.discounts.any()
    single = AtariGames(BREAKOUT.env, 2, sticky=0.0, full_action_space=False, threads=1)
    single.reset(seed=0)
    for actions in torch.cat([before.actions, last.actions]).numpy():
        _, reward, _, truncated, info = single.step(actions)
    assert truncated.all()
    _, value, _ = model(torch.from_numpy(info["final_obs"])[None], torch.zeros(1, 2), ())
    torch.testing.assert_close(last.rewards[0], GAMMA * value[0] + torch.from_numpy(reward).clip(max=0.5).float())
