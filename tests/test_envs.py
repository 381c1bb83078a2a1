"""Environments step as Gymnasium's own do, start anew within the step, and come from a fixed list."""

import sys
from contextlib import closing
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from a3c_core.envs import (
    ENVS,
    FIRST_TRAINING_SEED,
    REMADE,
    CannotMake,
    UnknownEnv,
    final_observations,
    make_env,
    make_envs,
    make_scoring_envs,
    spaces_of,
    training_seed,
)
from a3c_core.recipe import Recipe

CARTPOLE, PENDULUM = Recipe(env="CartPole-v1"), Recipe(env="Pendulum-v1")


def single_cartpole(state):
    """Gymnasium's own CartPole-v1, put into `state`."""
    env = gym.make("CartPole-v1")
    env.reset()
    env.unwrapped.state = tuple(state)
    return env


def balance(obs):
    """Actions that keep the pole up for 500 steps."""
    return (obs @ np.array([0.1, 0.3, 3.0, 1.0]) > 0).astype(int)


@pytest.mark.parametrize(("policy", "length"), [("random", 300), ("balance", 1200)])
def test_cartpole_moves_as_gymnasiums_single_one_and_ends_where_it_ends(policy, length):
    envs, random, ends = make_envs(CARTPOLE, 3), np.random.default_rng(0), []
    obs, _ = envs.reset(seed=5)
    singles = [single_cartpole(state) for state in envs.state.T]
    for _ in range(length):
        actions = random.integers(2, size=3) if policy == "random" else balance(obs)
        obs, reward, terminated, truncated, info = envs.step(actions)
        final = final_observations(obs, info)
        for b, single in enumerate(singles):
            expected, expected_reward, expected_terminated, expected_truncated, _ = single.step(int(actions[b]))
            np.testing.assert_allclose(final[b], expected, rtol=1e-5, atol=1e-6)
            assert (reward[b], terminated[b], truncated[b]) == (
                expected_reward,
                expected_terminated,
                expected_truncated,
            )
            if terminated[b] or truncated[b]:
                ends.append("terminated" if terminated[b] else "truncated")
                assert np.abs(obs[b]).max() <= 0.05
                singles[b] = single_cartpole(envs.state[:, b])
    assert {"random": ends.count("terminated") > 20, "balance": ends == ["truncated"] * 6}[policy]


def test_cartpole_goes_on_from_exactly_what_it_showed():
    with closing(make_env(CARTPOLE)) as env:
        env.reset(seed=0)
        for action in (0, 1, 1, 0):
            obs, *_ = env.step(action)
            assert list(env.unwrapped.state) == list(obs)


def test_cartpole_leaves_the_running_ones_alone_when_another_ends():
    envs = make_envs(CARTPOLE, 2)
    obs, _ = envs.reset(seed=0)
    over = np.zeros(2, dtype=bool)
    while not over.any():
        obs, _, over, _, info = envs.step(np.array([1, balance(obs)[1]]))
    assert over.tolist() == [True, False]
    np.testing.assert_array_equal(final_observations(obs, info)[1], obs[1])
    assert abs(info["final_obs"][0, 2]) > 0.2095 > 0.05 >= np.abs(obs[0]).max()


@pytest.mark.parametrize("env", [*ENVS, "ALE/Freeway-v5"])
def test_each_environment_starts_anew_within_the_step(env):
    envs = make_envs(Recipe(env=env), 2)
    assert envs.metadata["autoreset_mode"] is gym.vector.AutoresetMode.SAME_STEP


@pytest.mark.parametrize("dense", [True, False])
def test_final_observations_fill_the_places_of_ended_episodes(dense):
    obs = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], dtype=np.float32)
    ended = np.array([True, False, True])
    if dense:
        last = np.array([[10, 11], [0, 0], [30, 31]], dtype=np.float32)
    else:
        last = np.array([None, None, None], dtype=object)
        last[0], last[2] = np.array([10, 11], dtype=np.float32), np.array([30, 31], dtype=np.float32)
    final = final_observations(obs, {"final_obs": last, "_final_obs": ended})
    np.testing.assert_array_equal(final, [[10, 11], [2, 2], [30, 31]])
    assert final.dtype == np.float32
    np.testing.assert_array_equal(obs[0], [1, 1])


def test_final_observations_are_the_observations_where_nothing_ended():
    obs = np.ones((2, 3), dtype=np.float32)
    assert final_observations(obs, {}) is obs


def test_pendulum_is_truncated_at_200_steps_and_shows_its_true_end():
    envs, single = make_envs(PENDULUM, 1), gym.make("Pendulum-v1")
    envs.reset(seed=3)
    single.reset(seed=3)
    for step in range(1, 201):
        obs, reward, terminated, truncated, info = envs.step(np.full((1, 1), 0.3, dtype=np.float32))
        expected, expected_reward, *_ = single.step(np.array([0.6], dtype=np.float32))
        np.testing.assert_allclose(final_observations(obs, info)[0], expected, rtol=1e-4, atol=1e-5)
        assert reward[0] == pytest.approx(expected_reward, rel=1e-4)
        assert (terminated[0], truncated[0]) == (False, step == 200)
    assert not np.allclose(obs[0], expected)


@pytest.mark.parametrize(("action", "torque"), [(0.5, 1.0), (-1.0, -2.0), (1.0, 2.0), (7.0, 2.0), (-1.5, -2.0)])
@pytest.mark.parametrize("make", ["training", "watching", "scoring"])
def test_pendulums_torque_is_twice_the_clipped_action(action, torque, make):
    single = gym.make("Pendulum-v1")
    single.reset(seed=11)
    expected, expected_reward, *_ = single.step(np.array([torque], dtype=np.float32))
    if make == "watching":
        env = make_env(PENDULUM)
        env.reset(seed=11)
        obs, reward, *_ = env.step(np.array([action], dtype=np.float32))
    else:
        envs = {"training": make_envs, "scoring": make_scoring_envs}[make](PENDULUM, 2)
        envs.reset(seed=11)
        obs, reward, *_ = envs.step(np.full((2, 1), action, dtype=np.float32))
        obs, reward = obs[0], reward[0]
    np.testing.assert_allclose(obs, expected, rtol=1e-5)
    assert reward == pytest.approx(expected_reward, rel=1e-5)


def test_pendulum_is_trained_in_the_games_that_it_is_scored_in():
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, size=(200, 2, 1)).astype(np.float32)
    trained, scored = make_envs(PENDULUM, 2), make_scoring_envs(PENDULUM, 2)
    assert trained.single_action_space == scored.single_action_space
    np.testing.assert_array_equal(trained.reset(seed=5)[0], scored.reset(seed=5)[0])
    for action in actions:
        for ours, theirs in zip(trained.step(action)[:4], scored.step(action)[:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def watch_a_step(env, mode):
    """Makes an environment to watch, and shows a picture of it."""
    with closing(make_env(Recipe(env=env), mode)) as game:
        game.reset(seed=0)
        game.step(game.action_space.sample())
        game.render()


@pytest.mark.parametrize("mode", ["rgb_array", "human"])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0"])
def test_a_game_that_needs_pygame_to_be_shown_says_so(env, mode, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(CannotMake, match=f"{env} needs a package that is not installed: pygame .*pip install"):
        watch_a_step(env, mode)


@pytest.mark.parametrize("env", [*ENVS, "ALE/Freeway-v5"])
def test_training_and_watching_agree_on_the_spaces(env):
    envs, spaces = make_envs(Recipe(env=env), 2), spaces_of(Recipe(env=env))
    assert envs.single_observation_space == spaces.observation
    assert type(envs.single_action_space) is type(spaces.action)
    assert envs.single_action_space.shape == spaces.action.shape


@pytest.mark.parametrize("env", ["Foreign-v0", "cartpole-v1", "", "this:CartPole-v1", "ALE/NoGame-v5", "pong"])
@pytest.mark.parametrize("door", [lambda r: make_envs(r, 1), lambda r: make_scoring_envs(r, 1), make_env, spaces_of])
def test_only_shipped_or_registered_environments_are_made(env, door):
    gym.register("Foreign-v0", entry_point="this:Env")
    with pytest.raises(UnknownEnv, match=f"unknown environment {env!r}.*--import MODULE"):
        door(Recipe(env=env))
    del gym.registry["Foreign-v0"]
    assert "this" not in sys.modules


def observations(env, seed):
    """What 200 random actions lead to in a game."""
    actions = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)[0]]
    for _ in range(200):
        obs, _, terminated, *_ = env.step(actions.uniform(-1, 1, env.action_space.shape).astype(np.float32))
        seen.append(obs)
        if terminated:
            break
    return np.array(seen)


@pytest.mark.parametrize("env", REMADE)
def test_the_seed_determines_a_walk_whatever_was_played_before(env):
    recipe = Recipe(env=env)
    alone = [observations(make_env(recipe), seed) for seed in range(6)]
    reused = make_env(recipe)
    for seed in (3, 1, 5, 0, 2, 4):
        np.testing.assert_array_equal(observations(reused, seed), alone[seed])


def test_walks_without_a_seed_differ_and_repeat_with_the_first_ones_seed():
    def first_two(seed):
        env = make_env(Recipe(env="BipedalWalkerHardcore-v3"))
        return [env.reset(seed=seed)[0], env.reset()[0]]

    np.testing.assert_array_equal(first_two(0), first_two(0))
    assert (first_two(0)[0] != first_two(0)[1]).any()


@pytest.mark.parametrize("seed", [0, 1, 999, 123_456_789, 10**9 - 1])
def test_training_seeds_lie_above_all_scoring_seeds_and_ranks_never_share_one(seed):
    first = sorted(training_seed(Recipe(seed=seed), rank) for rank in range(256))
    assert first[0] >= FIRST_TRAINING_SEED == 10**9
    assert first[-1] + 4096 < 2**31
    assert min(np.diff(first)) >= 4096


def test_another_recipe_seed_is_another_training_seed():
    assert len({training_seed(Recipe(seed=seed), 0) for seed in range(1000)}) == 1000


PONG = Recipe(env="ALE/Pong-v5", encoder="a3c")
JITTERS = np.tile([[2], [3]], (20, 1))
"""Actions of Pong's paddle that change at each step, so that it shows if they stick."""


def seen(envs):
    """What one game in a batch shows after each of the JITTERS."""
    envs.reset(seed=[3])
    return np.stack([envs.step(actions)[0] for actions in JITTERS])


def test_training_games_stick_as_the_recipe_says_and_scored_ones_as_the_protocol_says():
    sticky = replace(PONG, sticky_actions=(0.25,))
    plain, stuck = seen(make_envs(PONG, 1)), seen(make_envs(sticky, 1))
    assert not np.array_equal(plain, stuck)
    for recipe in (PONG, sticky):
        np.testing.assert_array_equal(seen(make_scoring_envs(recipe, 1)), plain)
        np.testing.assert_array_equal(seen(make_scoring_envs(recipe, 1, "sticky")), stuck)


@pytest.mark.parametrize(("workers", "threads"), [(1, 16), (5, 3), (32, 1)])
def test_a_workers_games_are_stepped_by_its_share_of_the_cores(workers, threads, monkeypatch):
    asked = []
    monkeypatch.setattr("a3c_core.envs._cores", lambda: 16)
    monkeypatch.setattr("a3c_core.atari.AtariGames", lambda *_, threads, **rest: asked.append(threads))
    make_envs(replace(PONG, workers=workers), 4)
    assert asked == [threads]


@pytest.mark.parametrize(("full_action_space", "actions"), [(False, 6), (True, 18)])
def test_all_doors_offer_the_actions_that_the_recipe_says(full_action_space, actions):
    recipe = replace(PONG, full_action_space=full_action_space)
    assert spaces_of(recipe).action.n == make_env(recipe).action_space.n == actions
    assert make_envs(recipe, 1).single_action_space.n == make_scoring_envs(recipe, 1).single_action_space.n == actions


@pytest.mark.parametrize("recipe", [CARTPOLE, PENDULUM], ids=lambda recipe: recipe.env)
def test_only_atari_knows_the_sticky_protocol(recipe):
    for door in (lambda: make_env(recipe, protocol="sticky"), lambda: make_scoring_envs(recipe, 2, "sticky")):
        with pytest.raises(ValueError, match=f"{recipe.env} knows the classic protocol only"):
            door()


def test_a_resumed_run_sees_other_games():
    assert len({training_seed(Recipe(), 0, steps) for steps in range(0, 100_000, 100)}) == 1000
