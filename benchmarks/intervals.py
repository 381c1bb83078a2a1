"""Interquartile means with confidence intervals (Agarwal et al. 2021), by SciPy: few trainings, honestly told.

The interquartile mean leaves out the least and the greatest quarter, so that one training that fails does not decide.
Intervals are of 95 %, from stratified bootstraps: of each way of training, whole trainings are drawn anew with
replacement. The authors' own library, rliable, needs one that does not run beside pandas 3. `pip install
"a3c-arcade[study]"` installs SciPy.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

REPETITIONS = 2000
SIZE = 0.95


class Intervals(NamedTuple):
    """The interquartile mean of each column, and the ends of its interval; all are float64 [columns]."""

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray


def iqm(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """The interquartile mean along `axis`, by default that of the trainings in [trainings, columns]."""
    from scipy.stats import trim_mean

    return trim_mean(values, proportiontocut=0.25, axis=axis)


def intervals(values: np.ndarray) -> Intervals:
    """Of each column of [trainings, columns]: a measure, or a point of a curve. Raises ValueError for one training."""
    return _estimated(iqm, values)


def ratios(ones: np.ndarray, others: np.ndarray) -> Intervals:
    """How many times the columns of `ones` those of `others` are: [trainings, columns] each, trainings of their own.

    Raises ValueError for a single training.
    """
    return _estimated(lambda one, other, axis: iqm(other, axis) / iqm(one, axis), ones, others)


def differences(ones: np.ndarray, others: np.ndarray) -> Intervals:
    """How much more the columns of `others` are than those of `ones`: [trainings, columns] each, as for `ratios`.

    Raises ValueError for a single training.
    """
    return _estimated(lambda one, other, axis: iqm(other, axis) - iqm(one, axis), ones, others)


def _estimated(statistic: Callable[..., np.ndarray], *values: np.ndarray) -> Intervals:
    from scipy.stats import bootstrap

    groups = tuple(np.asarray(each, dtype=np.float64) for each in values)
    if min(len(group) for group in groups) < 2:
        raise ValueError("an interval needs two trainings or more of each kind: compare with --seeds 2 or more")
    generator = np.random.default_rng(0)
    ends = bootstrap(
        groups, statistic, n_resamples=REPETITIONS, confidence_level=SIZE, method="percentile", axis=0, rng=generator
    ).confidence_interval
    return Intervals(ends.low, statistic(*groups, axis=0), ends.high)
