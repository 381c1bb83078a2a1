"""A record is held against the games that it tells of: the same seeds give the same games, but for rounding."""

from dataclasses import replace

import pytest

from a3c_core.evaluation import Score, evaluate
from tests import toy
from zoo.verify import Contradiction, games_alike, rescore, tolerance

RETURNS = tuple(float(value) for value in range(500, 2500, 20))


def score(returns):
    return Score(
        env="ALE/SpaceInvaders-v5", protocol="classic", greedy=False, steps=1, first_seed=0, returns=tuple(returns)
    )


@pytest.mark.parametrize(
    ("others", "least", "most"), [(0, 0.0, 16.0), (2, 20.0, 45.0), (50, 100.0, 200.0)], ids=["none", "two", "half"]
)
def test_means_may_differ_by_what_the_games_that_differ_explain(others, least, most):
    again = [value + 300.0 if number < others else value for number, value in enumerate(RETURNS)]
    assert games_alike(score(RETURNS), score(again)) == 100 - others
    assert least <= tolerance(score(RETURNS), score(again)) < most


def test_a_score_of_other_games_is_refused_even_where_its_mean_is_right():
    agent = toy.beginner()
    claim = evaluate(agent, 20)
    assert rescore(agent, [claim]) == [claim]
    shuffled = replace(claim, returns=tuple(value + (-1) ** number for number, value in enumerate(claim.returns)))
    assert shuffled.mean == claim.mean
    with pytest.raises(Contradiction, match="0 of which end as recorded"):
        rescore(agent, [shuffled])


def test_a_few_games_that_rounding_has_changed_are_no_contradiction():
    agent = toy.beginner()
    claim = evaluate(agent, 20)
    others = replace(claim, returns=(claim.returns[0] + 2.0, claim.returns[1] - 1.0, *claim.returns[2:]))
    assert rescore(agent, [others]) == [claim]


def test_a_score_tells_how_many_of_its_games_are_distinct():
    agent = toy.beginner()
    games = evaluate(agent, 20)
    assert 1 < games.distinct <= 20
    assert games.distinct >= len(set(games.returns))
    assert evaluate(agent, 1).distinct == 1
