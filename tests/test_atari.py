"""The seed determines an Atari game, alone or in a batch, and its pictures are of the same game."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
from ale_py import roms

from a3c_core import atari
from a3c_core.agent import Agent
from a3c_core.atari import FRAMES_PER_STEP, AtariGame, AtariGames
from a3c_core.checkpoint import load_agent, save_agent
from a3c_core.envs import make_env, make_envs, make_scoring_envs
from training.defaults import recipe_for

BREAKOUT, INVADERS = "ALE/Breakout-v5", "ALE/SpaceInvaders-v5"
ACTIONS = {"ALE/Pong-v5": 6, BREAKOUT: 4, INVADERS: 6}
ALL_GAMES = [env for env in gym.registry if env.startswith("ALE/")]
STICKY = pytest.mark.parametrize("sticky", [0.0, 0.25], ids=["classic", "sticky"])


def games(env, count, *, sticky=0.0, full_action_space=False, **options):
    return AtariGames(env, count, sticky=sticky, full_action_space=full_action_space, threads=1, **options)


def game(env, *, sticky=0.0, render_mode=None):
    return AtariGame(env, sticky=sticky, full_action_space=False, render_mode=render_mode)


def random_actions(env, steps, count=1):
    """Actions [steps, B], a column of its own for each of `count` games."""
    return np.random.default_rng(0).integers(ACTIONS[env], size=(steps, count))


def told(env, seeds, actions, *, sticky=0.0):
    """Observations, rewards, ends and frame numbers of a batch with these seeds and actions [T, B]."""
    envs = games(env, len(seeds), sticky=sticky)
    steps = [(envs.reset(seed=seeds)[0],)]
    for action in actions:
        obs, reward, terminated, truncated, info = envs.step(action)
        steps.append((obs, reward, terminated, truncated, info["episode_frame_number"], info["lives"]))
    envs.close()
    return [np.stack(part) for part in ([step[0] for step in steps], *zip(*(s[1:] for s in steps[1:]), strict=True))]


@pytest.mark.parametrize("env", ACTIONS)
def test_an_observation_is_four_frames_of_84_by_84_bytes_newest_last(env):
    envs = games(env, 2)
    before, _ = envs.reset(seed=0)
    assert (before.shape, before.dtype) == ((2, 4, 84, 84), np.uint8)
    assert envs.single_observation_space.shape == (4, 84, 84)
    after, *_ = envs.step(np.zeros(2, dtype=int))
    assert (after.shape, after.dtype) == ((2, 4, 84, 84), np.uint8)
    np.testing.assert_array_equal(after[:, :3], before[:, 1:])


@pytest.mark.parametrize(("env", "actions"), [*ACTIONS.items()])
def test_a_game_offers_the_actions_that_it_uses_or_the_whole_joystick(env, actions):
    assert game(env).action_space.n == actions
    assert games(env, 1, full_action_space=True).single_action_space.n == 18


def test_there_are_over_a_hundred_games_each_with_its_own_rom():
    found = [atari.rom_of(env) for env in ALL_GAMES]
    assert len(set(found)) == len(ALL_GAMES) > 100
    assert set(found) <= set(roms.get_all_rom_ids())


@pytest.mark.parametrize("env", ["ALE/NoGame-v5", "breakout", "", "CartPole-v1"])
def test_what_is_no_game_has_no_rom(env):
    assert atari.rom_of(env) is None


@pytest.mark.slow
@pytest.mark.parametrize("env", ALL_GAMES)
def test_every_game_starts_steps_and_has_a_checkpoint(env, tmp_path):
    agent = Agent.untrained(recipe_for(env))
    save_agent(tmp_path, agent)
    playing = load_agent(tmp_path)
    game = playing.make_env()
    obs, _ = game.reset(seed=0)
    for _ in range(3):
        action, _ = playing.act(obs)
        assert game.action_space.contains(action)
        obs, *_ = game.step(action)
    assert game.observation_space.contains(obs)
    game.close()


@STICKY
def test_a_game_is_a_matter_of_its_seed_not_of_its_place_in_a_batch(sticky):
    actions = random_actions(INVADERS, 30)
    together = told(INVADERS, [7, 8], np.repeat(actions, 2, axis=1), sticky=sticky)
    alone = told(INVADERS, [8], actions, sticky=sticky)
    for part, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(part[:, 1:], other)
    observations, *_ = together
    assert not np.array_equal(observations[:, 0], observations[:, 1])


def test_one_seed_for_a_batch_is_the_first_of_consecutive_ones():
    envs = games(BREAKOUT, 2)
    np.testing.assert_array_equal(envs.reset(seed=5)[0], envs.reset(seed=[5, 6])[0])


def test_sticky_actions_make_another_game_that_repeats_itself():
    actions = np.tile([[2], [3]], (15, 1))
    classic, sticky = (told(BREAKOUT, [3], actions, sticky=probability)[0] for probability in (0.0, 0.25))
    again = told(BREAKOUT, [3], actions, sticky=0.25)[0]
    np.testing.assert_array_equal(sticky, again)
    assert not np.array_equal(sticky, classic)


def test_an_earlier_observation_stays_as_it_was():
    envs = games(BREAKOUT, 2)
    kept = [envs.reset(seed=0)[0]]
    copies = [kept[0].copy()]
    for action in random_actions(BREAKOUT, 20, 2):
        kept.append(envs.step(action)[0])
        copies.append(kept[-1].copy())
    np.testing.assert_array_equal(kept, copies)
    assert len({obs.tobytes() for obs in copies}) > 10


def test_rewards_are_the_games_own():
    actions = random_actions(INVADERS, 150, 2)
    rewards = told(INVADERS, [0, 1], actions)[1]
    assert {5, 10} <= set(rewards.flatten().tolist()) <= {0, 5, 10, 15, 20, 25, 30}


ONE_OF_EACH = pytest.mark.parametrize(("env", "sticky"), [(BREAKOUT, 0.25), (INVADERS, 0.0)])


@ONE_OF_EACH
def test_one_game_steps_as_a_batch_does_to_its_very_end(env, sticky):
    envs, single = games(env, 1, sticky=sticky), game(env, sticky=sticky)
    expected, expected_info = envs.reset(seed=11)
    obs, info = single.reset(seed=11)
    over, rewards = False, 0.0
    for (action,) in random_actions(env, 1000):
        np.testing.assert_array_equal(obs, expected[0])
        assert info["lives"] == expected_info["lives"][0]
        before = obs
        expected, *outcome, expected_info = envs.step(np.array([action]))
        obs, reward, terminated, truncated, info = single.step(action)
        assert [reward, terminated, truncated] == [part[0] for part in outcome]
        assert type(reward) is float
        rewards += reward
        over = terminated or truncated
        if over:
            break
    assert over
    assert terminated
    assert rewards > 0.0
    np.testing.assert_array_equal(obs, expected_info["final_obs"][0])
    np.testing.assert_array_equal(obs[:3], before[1:])
    assert not np.array_equal(obs, expected[0])


def test_a_game_without_a_seed_differs_from_the_one_before_and_follows_from_the_first_seed():
    def starts():
        single = game(BREAKOUT)
        return [single.reset(seed=1)[0], *(single.reset()[0] for _ in range(2))]

    first = starts()
    np.testing.assert_array_equal(first, starts())
    assert len({obs.tobytes() for obs in first}) > 1


def test_a_game_is_cut_short_after_its_frames(cut_short):
    cut_short(10)
    single = game(BREAKOUT, render_mode="rgb_array_list")
    single.reset(seed=2)
    ends, pictures = [], len(single.render())
    for _ in range(10):
        *_, terminated, truncated, _ = single.step(0)
        ends.append((terminated, truncated))
        pictures += len(single.render())
    assert ends == [(False, False)] * 9 + [(False, True)]
    assert pictures == 21


def test_a_game_that_is_shown_keeps_no_picture_but_the_last():
    single = game(BREAKOUT, render_mode="rgb_array")
    single.reset(seed=2)
    for _ in range(5):
        single.step(1)
        assert single.render().shape == (210, 160, 3)
        assert len(single._pictures) == 1


FIRST_BRICK = 59
"""The step of seed 0 in which these actions win the first point; seed 1 goes on without one."""


def test_a_game_ends_with_the_highest_score_and_the_others_of_its_batch_go_on(monkeypatch):
    actions = np.repeat(random_actions(BREAKOUT, FIRST_BRICK + 5), 2, axis=1)
    obs, *_, lives = told(BREAKOUT, [0, 1], actions)
    monkeypatch.setattr(atari, "MAX_SCORE", {"breakout": 1})
    envs = games(BREAKOUT, 2)
    envs.reset(seed=[0, 1])
    steps = [envs.step(action) for action in actions]
    assert np.argwhere([terminated for _, _, terminated, _, _ in steps]).tolist() == [[FIRST_BRICK, 0]]
    begun, reward, _, _, info = steps[FIRST_BRICK]
    assert reward.tolist() == [1, 0]
    assert info["_final_obs"].tolist() == [True, False]
    np.testing.assert_array_equal(info["final_obs"][0], obs[FIRST_BRICK + 1, 0])
    assert not np.array_equal(begun[0], info["final_obs"][0])
    assert info["lives"].tolist() == [5, lives[FIRST_BRICK, 1]]
    np.testing.assert_array_equal([after[1] for after, *_ in steps], obs[1:, 1])


def test_the_pictures_of_a_game_that_ends_with_its_highest_score_are_of_that_game(monkeypatch):
    def pictures():
        single = game(BREAKOUT, render_mode="rgb_array_list")
        single.reset(seed=0)
        steps = [(single.step(action[0])[2], single.render()) for action in random_actions(BREAKOUT, FIRST_BRICK + 1)]
        return [terminated for terminated, _ in steps], [picture for _, shown in steps for picture in shown]

    monkeypatch.setattr(atari, "emulators", atari.FreshEmulators())  # no other test gets these
    ends, going_on = pictures()
    assert not any(ends)
    monkeypatch.setattr(atari, "MAX_SCORE", {"breakout": 1})
    ends, shown = pictures()
    assert ends == [False] * FIRST_BRICK + [True]
    assert len(going_on) - len(shown) in (0, 1)
    np.testing.assert_array_equal(shown, going_on[: len(shown)])


def test_a_bar_shows_the_steps_since_the_last_point_and_leaves_the_rest_of_the_picture_alone():
    plain, shown = games(BREAKOUT, 2), games(BREAKOUT, 2, stall=42)
    plain.reset(seed=[0, 1])
    observations, passed = [shown.reset(seed=[0, 1])[0]], [[0, 0]]
    ended = 0
    for action in np.repeat(random_actions(BREAKOUT, 400), 2, axis=1):
        expected, reward, over, _, told = plain.step(action)
        obs, *_, info = shown.step(action)
        np.testing.assert_array_equal(obs[:, :, 2:], expected[:, :, 2:])
        waited = np.where(reward != 0, 0, np.array(passed[-1]) + 1)
        for place in np.flatnonzero(over):
            final = info["final_obs"][place]
            np.testing.assert_array_equal(final[:, 2:], told["final_obs"][place][:, 2:])
            assert bar_of(final) == min(2 * waited[place], 84)
            ended += 1
        observations.append(obs)
        passed.append(np.where(over, 0, waited).tolist())
    assert [[bar_of(each) for each in obs] for obs in observations] == np.minimum(2 * np.array(passed), 84).tolist()
    assert ended == 2
    assert np.max(passed) > 42


def bar_of(obs):
    """The length of the bar in an observation, which each of its four frames has in both rows."""
    length = int(obs[0, 0].astype(bool).sum())
    np.testing.assert_array_equal(obs[:, :2], np.broadcast_to(np.where(np.arange(84) < length, 255, 0), (4, 2, 84)))
    return length


def test_the_games_of_an_agent_that_learnt_with_the_bar_show_it_wherever_it_plays():
    recipe = dataclasses.replace(recipe_for(BREAKOUT), stall_earns_nothing=42)
    single = make_env(recipe, render_mode="rgb_array")
    single.reset(seed=0)
    batches = make_envs(recipe, 1), make_scoring_envs(recipe, 1), make_scoring_envs(recipe, 1, "sticky")
    for envs in batches:
        envs.reset(seed=0)
    for step in range(1, 6):
        seen = [single.step(0)[0], *(envs.step(np.zeros(1, dtype=int))[0][0] for envs in batches)]
        assert [bar_of(obs) for obs in seen] == [2 * step] * 4
    plain = game(BREAKOUT, render_mode="rgb_array")
    plain.reset(seed=0)
    for _ in range(5):
        plain.step(0)
    np.testing.assert_array_equal(single.render(), plain.render())


def test_half_an_hour_is_the_longest_game():
    assert atari.MAX_FRAMES == 30 * 60 * atari.FRAMES_PER_SECOND


def area(source, target):
    """The matrix that scales `source` pixels down to `target`, each the mean of the area that it covers."""
    edges = np.arange(target + 1) * source / target
    pixels = np.arange(source)
    covered = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return covered.clip(min=0.0) * target / source


def shrunk(grey):
    return area(210, 84) @ grey @ area(160, 84).T


@ONE_OF_EACH
def test_the_last_picture_of_each_step_is_what_the_agent_sees_in_colour_and_full_size(env, sticky):
    """A grey emulator of the full size tells which grey each colour is; the observation is that grey, scaled down."""
    single = game(env, sticky=sticky, render_mode="rgb_array_list")
    large = games(env, 1, sticky=sticky, img_height=210, img_width=160)
    obs, _ = single.reset(seed=6)
    grey, _ = large.reset(seed=6)
    single.render()
    grey_of = {}
    for action in random_actions(env, 25):
        obs, *_ = single.step(action[0])
        grey, *_ = large.step(action)
        picture = single.render()[-1].astype(int) @ [65536, 256, 1]
        np.testing.assert_allclose(shrunk(grey[0, -1].astype(float)), obs[-1], atol=1.0)
        for colour in np.unique(picture):
            greys = set(np.unique(grey[0, -1][picture == colour]).tolist())
            assert grey_of.setdefault(colour, greys) == greys
            assert len(greys) == 1


def played_to_the_end(render_mode):
    """The pictures of the beginning of a random game of Breakout, and those of each step."""
    single = game(BREAKOUT, render_mode=render_mode)
    single.reset(seed=11)
    pictures, over = [single.render()], False
    for action in np.random.default_rng(0).integers(4, size=1000):
        *_, terminated, truncated, _ = single.step(action)
        pictures.append(single.render())
        over = terminated or truncated
        if over:
            break
    assert over
    return pictures


@pytest.fixture(scope="module")
def lists():
    """Lists of pictures, each of one step, of a whole game."""
    return played_to_the_end("rgb_array_list")


def test_a_list_has_two_pictures_for_each_step_and_the_last_is_not_of_the_next_game(lists):
    first, *steps = lists
    assert len(first) == 1
    assert {len(step) for step in steps[:-1]} == {2}
    assert len(steps[-1]) in (1, 2)
    pictures = [*first, *(picture for step in steps for picture in step)]
    assert {(picture.shape, picture.dtype.name) for picture in pictures} == {((210, 160, 3), "uint8")}
    wall = np.s_[57:93, 8:152]
    np.testing.assert_array_equal(pictures[-1][wall], pictures[-2][wall])
    assert not np.array_equal(pictures[-1][wall], pictures[0][wall])


def test_one_picture_for_each_step_is_the_last_of_the_list(lists):
    singles = played_to_the_end("rgb_array")
    assert len(lists) == len(singles)
    np.testing.assert_array_equal([step[-1] for step in lists], singles)


@pytest.mark.parametrize(("mode", "pictures_per_second"), [("rgb_array_list", 30), ("rgb_array", 15)])
def test_pictures_are_shown_at_the_speed_of_the_game(mode, pictures_per_second):
    single = game(BREAKOUT, render_mode=mode)
    assert single.metadata["render_fps"] == pictures_per_second
    assert single.metadata["pixel"] == (4, 7)
    assert AtariGame.metadata["render_fps"] * FRAMES_PER_STEP == 60
    single.reset(seed=0)
    single.render()
    single.step(0)
    shown = single.render()
    assert (len(shown) if mode == "rgb_array_list" else 1) == pictures_per_second * FRAMES_PER_STEP // 60


def test_a_new_game_begins_with_a_picture_of_its_own():
    single = game(BREAKOUT, render_mode="rgb_array_list")
    single.reset(seed=0)
    single.step(0)
    single.reset(seed=1)
    assert len(single.render()) == 1
    assert single.render() == []


def test_a_game_that_nobody_watches_has_no_pictures():
    single = game(BREAKOUT)
    single.reset(seed=0)
    single.step(0)
    assert single.render() is None
