"""Interquartile means and their intervals, against values worked out by hand."""

import numpy as np
import pytest

from benchmarks.intervals import intervals, iqm, ratios


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    values = np.array([[1.0, 2, 3, 4, 5, 6, 7, 1e9], [8.0] * 8]).T
    assert iqm(values).tolist() == [4.5, 8.0]  # (3 + 4 + 5 + 6) / 4


def test_an_interval_of_two_trainings_reaches_from_one_to_the_other():
    """Drawn twice from 0 and 10 the mean is 0, 5 or 10 with probabilities 1/4, 1/2, 1/4: 95 % hold all three."""
    found = intervals(np.array([[0.0, 3.0], [10.0, 3.0]]))
    assert [part.tolist() for part in found] == [[0.0, 3.0], [5.0, 3.0], [10.0, 3.0]]


def test_an_interval_holds_the_share_of_the_bootstrap_that_it_says():
    """Of eight trainings, one has 1. The interquartile mean of eight draws is k / 4 where between the third and the
    sixth k are 1: more than 0 needs three draws of it or more, 6.7 %; 1/2 or more needs four, 1.1 %. So 97.5 % lie at
    or below 1/4."""
    found = intervals(np.array([[0.0]] * 7 + [[1.0]]))
    assert [part.item() for part in found] == [0.0, 0.0, 0.25]


def test_a_ratio_is_of_the_second_to_the_first():
    found = ratios(np.full((4, 1), 2.0), np.full((6, 1), 3.0))
    assert [part.item() for part in found] == pytest.approx([1.5, 1.5, 1.5])
    low, middle, high = ratios(np.array([[1.0], [1.0]]), np.array([[1.0], [3.0]]))  # 1, 2 or 3 times as many
    assert (low.item(), middle.item(), high.item()) == (1.0, 2.0, 3.0)


def test_intervals_are_the_same_each_time():
    values = np.arange(30.0).reshape(10, 3) ** 2
    assert all(np.array_equal(a, b) for a, b in zip(intervals(values), intervals(values), strict=True))
