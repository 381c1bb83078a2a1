"""The agent, the seed and the choice of actions determine a game; a score counts each game once."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import parse
from a3c_core.envs import FIRST_TRAINING_SEED
from a3c_core.evaluation import Score, environment_value, evaluate
from a3c_core.recipe import Recipe
from benchmarks.stalls import stalls
from playback.episode import play, render

CARTPOLE = Agent.untrained(Recipe(head_layers=(8,)))
LSTM = Agent.untrained(Recipe(core="lstm", core_size=8, head_layers=(), seed=1))
PENDULUM = Agent.untrained(Recipe(env="Pendulum-v1", head_layers=(8,)))
AGENTS = pytest.mark.parametrize("agent", [CARTPOLE, LSTM, PENDULUM], ids=["cartpole", "lstm", "pendulum"])


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@AGENTS
@pytest.mark.parametrize("greedy", [True, False])
def test_the_same_seed_gives_the_same_game_and_another_one_another(agent, greedy):
    game = play(agent, 7, greedy=greedy)
    torch.rand(1)
    assert same(play(agent, 7, greedy=greedy), game)
    assert not np.array_equal(play(agent, 8, greedy=greedy).values, game.values)


def test_a_game_of_cartpole_is_told_step_by_step():
    counted = []
    game = play(CARTPOLE, 3, progress=counted.append)
    steps = len(game.rewards)
    assert counted == list(range(1, steps + 1))
    assert (game.seed, game.protocol, game.total) == (3, "classic", float(steps))
    assert game.actions.shape == game.values.shape == (steps,)
    assert game.policies.shape == (steps, 2)
    np.testing.assert_allclose(game.policies.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(game.actions, game.policies.argmax(axis=1))


def test_a_film_of_cartpole_has_a_picture_before_each_step_and_after_the_last():
    game = play(CARTPOLE, 3)
    shown = render(CARTPOLE, game)
    pictures = list(shown.pictures)
    assert (shown.frames_per_second, shown.pixel) == (50, (1, 1))
    assert len(pictures) == len(game.actions) + 1
    assert {(picture.shape, picture.dtype.name) for picture in pictures} == {((400, 600, 3), "uint8")}
    assert len({picture.tobytes() for picture in pictures}) > len(pictures) // 2


def test_a_game_of_pendulum_is_told_step_by_step():
    game = play(PENDULUM, 3)
    assert game.actions.shape == (200, 1)
    assert game.policies.shape == (200, 2)
    np.testing.assert_array_equal(game.actions[:, 0], game.policies[:, 0])
    np.testing.assert_allclose(game.policies[:, 1], 1.0)
    assert game.total == pytest.approx(sum(game.rewards.tolist()))
    assert game.total < 0.0


def test_sampled_actions_are_not_the_greedy_ones():
    greedy, sampled = (play(PENDULUM, 3, greedy=greedy) for greedy in (True, False))
    assert not np.array_equal(greedy.actions, sampled.actions)


def test_a_game_can_be_cut_off():
    game = play(PENDULUM, 0, max_steps=5)
    assert len(game.actions) == 5
    assert len(list(render(PENDULUM, game).pictures)) == 6


@AGENTS
def test_a_score_is_the_returns_of_the_games_with_its_seeds(agent):
    games = [play(agent, seed) for seed in range(10, 16)]
    score = evaluate(agent, 6, first_seed=10)
    assert score.returns == pytest.approx([game.total for game in games], rel=1e-3)
    assert (score.env, score.protocol, score.greedy) == (agent.recipe.env, "classic", True)
    assert (score.first_seed, score.steps) == (10, 0)


def test_short_games_count_once_while_long_ones_go_on():
    lengths = [play(CARTPOLE, seed).total for seed in range(20)]
    assert len(set(lengths)) > 1
    assert list(evaluate(CARTPOLE, 20).returns) == lengths


@AGENTS
def test_a_sampled_score_is_the_returns_of_the_games_with_its_seeds(agent):
    games = [play(agent, seed, greedy=False) for seed in range(40)]
    score = evaluate(agent, 40, greedy=False)
    assert score.returns == pytest.approx([game.total for game in games], rel=1e-3)
    assert score.returns != evaluate(agent, 40).returns


def test_scoring_tells_how_many_games_have_finished():
    finished = []
    evaluate(CARTPOLE, 5, progress=finished.append)
    assert finished == sorted(finished)
    assert finished[-1] == 5


@pytest.mark.parametrize("seed", [-1, FIRST_TRAINING_SEED, 2**40])
def test_training_seeds_are_refused(seed):
    with pytest.raises(ValueError, match="seeds must be between 0 and 999999999"):
        play(CARTPOLE, seed)
    with pytest.raises(ValueError, match="seeds must be between 0 and 999999999"):
        evaluate(CARTPOLE, 2, first_seed=seed)


@AGENTS
def test_an_agent_plays_at_its_temperature(agent):
    likely = agent.at_temperature(0.01)
    obs, _ = agent.make_env().reset(seed=0)
    policies = [each.policy_and_value(obs[None])[0] for each in (agent, likely)]
    torch.testing.assert_close(policies[0].at_temperature(0.01).parameters(), policies[1].parameters())
    scores = [evaluate(each, 3, greedy=False) for each in (agent, likely)]
    assert [score.temperature for score in scores] == [1.0, 0.01]
    assert scores[0].returns != scores[1].returns


def test_the_last_seed_counts_too():
    with pytest.raises(ValueError, match="seeds must be between"):
        evaluate(CARTPOLE, 2, first_seed=FIRST_TRAINING_SEED - 1)


@pytest.mark.parametrize("episodes", [0, -1])
def test_a_score_needs_a_game(episodes):
    with pytest.raises(ValueError, match="at least 1"):
        evaluate(CARTPOLE, episodes)


SCORE = Score(
    env="CartPole-v1", protocol="classic", greedy=True, steps=1000, first_seed=5, returns=(1.0, 2.0, 3.0, 6.0)
)


def test_a_score_sums_its_games_up():
    assert (SCORE.mean, SCORE.std) == (3.0, pytest.approx(3.5**0.5))
    assert SCORE.standard_error == pytest.approx(3.5**0.5 / 2)
    assert (SCORE.median, SCORE.best) == (2.5, 6.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "4 games, greedy actions, seeds 5 to 8"),
        ({"greedy": False, "first_seed": 0}, "4 games, sampled actions, seeds 0 to 3"),
        (
            {"greedy": False, "temperature": 0.5, "first_seed": 0},
            "4 games, sampled actions (temperature 0.5), seeds 0 to 3",
        ),
        ({"temperature": 0.5}, "4 games, greedy actions, seeds 5 to 8"),
        ({"env": "ALE/Pong-v5"}, "classic protocol, 4 games, greedy actions, seeds 5 to 8"),
        ({"env": "ALE/Pong-v5", "protocol": "sticky"}, "sticky protocol, 4 games, greedy actions, seeds 5 to 8"),
    ],
)
def test_a_score_says_how_its_games_were_played(changes, words):
    assert Score(**asdict(SCORE) | changes).conditions == words


def test_json_gives_back_the_same_score():
    assert parse(Score, json.loads(json.dumps(asdict(SCORE))), Path("score.json")) == SCORE


@pytest.mark.parametrize("changes", [{"returns": ()}, {"first_seed": -1}, {"more": 1}, {"protocol": "easy"}])
def test_a_score_without_games_or_with_strange_fields_is_refused(changes):
    with pytest.raises(ValidationError):
        Score(**asdict(SCORE) | changes)


@AGENTS
@pytest.mark.parametrize("greedy", [True, False])
def test_act_plays_the_game_by_hand(agent, greedy):
    game, env = play(agent, 4, greedy=greedy), agent.make_env()
    obs, _ = env.reset(seed=4)
    torch.manual_seed(4)
    memory, over, actions = None, False, []
    while not over:
        action, memory = agent.act(obs, memory, greedy=greedy)
        obs, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
        actions.append(action)
    np.testing.assert_allclose(actions, game.actions, rtol=1e-4)  # play computes vector networks in float64


def test_a_recurrent_agent_thinks_with_what_it_remembers():
    obs = np.full((2, 4), 0.1, dtype=np.float32)
    _, first, memory = LSTM.policy_and_value(obs)
    _, second, _ = LSTM.policy_and_value(obs, memory)
    _, again, _ = LSTM.policy_and_value(obs)
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(first, again)


def test_values_are_told_in_the_environments_units():
    recipe = Recipe(gamma=0.5, reward_shift=8.0, reward_scale=0.125)
    learner = sum((-4.0 + 8.0) * 0.125 * 0.5**k for k in range(60))
    assert environment_value(learner, recipe) == pytest.approx(sum(-4.0 * 0.5**k for k in range(60)))
    for no_constant_sum in ({"gamma": 1.0}, {"stall_earns_nothing": 300}):
        assert environment_value(3.0, Recipe(reward_shift=8.0, reward_scale=0.5, **no_constant_sum)) == 6.0


def test_values_of_normalised_rewards_are_told_in_the_environments_units():
    agent = Agent.untrained(Recipe(normalize_rewards=True))
    plain = play(agent, 0, max_steps=5).values
    agent.model.normalizer.returns.variance.fill_(100.0)
    np.testing.assert_allclose(play(agent, 0, max_steps=5).values, 10 * plain, rtol=1e-4)


def untrained(env, **changes):
    return Agent.untrained(Recipe(env=env, encoder="a3c", head_layers=(), **changes))


INVADERS = untrained("ALE/SpaceInvaders-v5", seed=1)


def test_a_score_of_an_atari_game_is_the_true_returns_of_the_games_with_its_seeds(cut_short):
    cut_short(250)
    games = [play(INVADERS, seed) for seed in (4, 5, 6)]
    assert evaluate(INVADERS, 3, first_seed=4).returns == tuple(game.total for game in games)
    assert len({game.total for game in games}) > 1
    assert max(game.rewards.max() for game in games) > 1.0


def test_a_recurrent_atari_agent_scores_as_it_plays_and_its_game_is_filmed_to_the_end():
    agent = untrained("ALE/SpaceInvaders-v5", core="lstm", core_size=8, seed=3)
    game = play(agent, 9, protocol="sticky")
    score = evaluate(agent, 1, first_seed=9, protocol="sticky")
    assert (score.protocol, score.returns) == ("sticky", (game.total,))
    assert sum(1 for _ in render(agent, game).pictures) - 2 * len(game.actions) in (0, 1)


def test_a_film_of_atari_shows_two_pictures_of_each_step():
    game = play(INVADERS, 4, max_steps=30)
    shown = render(INVADERS, game)
    pictures = list(shown.pictures)
    assert (shown.frames_per_second, shown.pixel) == (30, (4, 7))
    assert len(pictures) == 2 * 30 + 1
    assert {(picture.shape, picture.dtype.name) for picture in pictures} == {((210, 160, 3), "uint8")}


def test_sticky_actions_make_another_game_that_repeats_itself():
    classic, sticky, again = (
        play(INVADERS, 4, protocol=protocol, greedy=False, max_steps=80) for protocol in ("classic", "sticky", "sticky")
    )
    assert (classic.protocol, sticky.protocol) == ("classic", "sticky")
    assert not np.array_equal(classic.values, sticky.values)
    assert same(sticky, again)


def test_the_film_of_a_sticky_game_is_of_the_same_game():
    agent = untrained("ALE/Pong-v5")
    game = play(agent, 3, max_steps=1)._replace(protocol="sticky", actions=np.tile([2, 3], 20))
    sticky, again, classic = (
        np.stack(list(render(agent, game._replace(protocol=protocol)).pictures))
        for protocol in ("sticky", "sticky", "classic")
    )
    np.testing.assert_array_equal(sticky, again)
    assert not np.array_equal(sticky, classic)


@pytest.mark.parametrize("agent", [CARTPOLE, PENDULUM], ids=["cartpole", "pendulum"])
def test_only_atari_knows_sticky_actions(agent):
    for door in (lambda: play(agent, 0, protocol="sticky"), lambda: evaluate(agent, 2, protocol="sticky")):
        with pytest.raises(ValueError, match=f"{agent.recipe.env} knows the classic protocol only"):
            door()


def test_a_score_is_of_the_protocol_whatever_the_agent_was_trained_with():
    trained_sticky = INVADERS._replace(recipe=replace(INVADERS.recipe, sticky_actions=(0.25,), reward_clip=1.0))
    expected, game = (play(agent, 4, greedy=False, max_steps=60) for agent in (INVADERS, trained_sticky))
    assert same(game, expected)


def test_what_the_progress_raises_ends_an_evaluation():
    def impatient(finished: int) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        evaluate(CARTPOLE, 5, progress=impatient)


def test_each_step_of_a_scored_game_can_be_watched():
    score, found = stalls(zoo.load("cartpole"), 3, greedy=True)
    assert score.returns == (500.0,) * 3
    assert found.steps.tolist() == [500] * 3
    assert found.longest.tolist() == [0] * 3
    assert found.cut_off.all()  # CartPole ends after 500 steps
    _, swinging = stalls(zoo.load("pendulum"), 2, greedy=True)
    assert swinging.steps.tolist() == [200] * 2
