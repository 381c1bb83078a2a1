"""A run is evaluated beside its training, and its best checkpoint is kept."""

import json
from dataclasses import replace

import pytest

import zoo
from a3c_core.checkpoint import RECIPE, load_agent, saved_in
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Recipe
from tests.processes import wait_until
from training.evaluations import BEST, CANDIDATE, EVALUATION_SEED, EVALUATIONS, GAMES, read_evaluations
from training.keep import CHOOSING_SEED, keep
from training.log import LOG, read_log
from training.run import train

SMALL = Recipe(steps=2000, workers=1, envs_per_worker=4, n_steps=(5,), head_layers=(8,))


def best_of(directory):
    """The evaluation of the checkpoint that is kept, after a look at its score."""
    evaluations = read_evaluations(directory)
    best = max(evaluations, key=lambda each: each.mean)
    agent = load_agent(directory / BEST)
    assert agent.steps == best.steps
    assert evaluate(agent, GAMES, first_seed=EVALUATION_SEED).mean == pytest.approx(best.mean)
    return best


def test_the_best_checkpoint_of_a_run_is_kept_whatever_comes_after_it(tmp_path):
    list(train(SMALL, tmp_path, evaluate_every=500))
    evaluations = read_evaluations(tmp_path)
    assert evaluations[-1].steps == 2000  # the end is evaluated too
    assert {each.games for each in evaluations} == {GAMES}
    best_of(tmp_path)
    assert zoo.load(tmp_path / BEST).recipe == SMALL
    assert not (tmp_path / CANDIDATE).exists()


def test_a_run_is_evaluated_by_the_actions_that_it_will_be_scored_by(tmp_path):
    list(train(SMALL, tmp_path, evaluate_every=2000, evaluate_greedy=False))
    (evaluation,) = read_evaluations(tmp_path)
    drawn = evaluate(load_agent(tmp_path), GAMES, greedy=False, first_seed=EVALUATION_SEED)
    assert (evaluation.greedy, evaluation.mean) == (False, pytest.approx(drawn.mean))
    line = json.loads((tmp_path / EVALUATIONS).read_text())
    del line["greedy"]  # as runs wrote it that always took the likeliest actions
    (tmp_path / EVALUATIONS).write_text(json.dumps(line) + "\n")
    assert [each.greedy for each in read_evaluations(tmp_path)] == [True]


def test_a_resumed_run_replaces_its_best_checkpoint_only_by_a_better_one(tmp_path):
    list(train(SMALL, tmp_path, evaluate_every=1000))
    line = json.loads((tmp_path / EVALUATIONS).read_text().splitlines()[0])
    with (tmp_path / EVALUATIONS).open("a") as file:  # nothing is better than this
        file.write(json.dumps(line | {"mean": 1000.0}) + "\n" + '{"steps": 5')
    before = (tmp_path / BEST / RECIPE).read_bytes()
    (tmp_path / EVALUATIONS).write_text((tmp_path / EVALUATIONS).read_text() + "\n")
    list(train(replace(SMALL, steps=3000), tmp_path, resume=True, evaluate_every=500))
    assert read_evaluations(tmp_path)[-1].steps == 3000
    assert (tmp_path / BEST / RECIPE).read_bytes() == before


def test_a_run_that_is_closed_leaves_no_evaluation_under_way(tmp_path):
    moments = train(replace(SMALL, steps=10**8), tmp_path, evaluate_every=20)
    assert wait_until(lambda: next(moments) and (tmp_path / CANDIDATE).exists(), 60.0)
    moments.close()
    assert not (tmp_path / CANDIDATE).exists()
    assert saved_in(tmp_path).steps > 0


def test_the_best_checkpoint_is_kept_with_the_log_of_its_run_up_to_its_steps(tmp_path, empty_zoo):
    list(train(SMALL, tmp_path / "run", evaluate_every=500))
    steps = saved_in(tmp_path / "run" / BEST).steps
    told = [moment for moment in read_log(tmp_path / "run") if moment.steps <= steps]
    entry = keep(tmp_path / "run" / BEST, "best", summary=None, command="by hand", episodes=2)
    assert entry.score.steps == steps
    assert read_log(entry.directory) == told
    assert (entry.directory / LOG).is_file()


def test_the_games_that_choose_a_checkpoint_choose_nothing_else():
    assert EVALUATION_SEED >= CHOOSING_SEED + 10**6
    assert EVALUATION_SEED + GAMES <= 10**9
