"""What ails a run is told once, after it has lasted, and by name."""

import pytest

from training.diagnostics import DIAGNOSTICS, PATIENCE, Diagnostics
from training.log import Progress

HEALTHY = {"explained_variance": 0.5, "gradient_norm": 1.0, "active": (1.0, 0.8, 0.5)}
ILLS = {
    "dead units": ({"active": (1.0, 0.8, 0.09)}, "nine in ten units of a layer are dead"),
    "dead filters": ({"active": (0.0, 0.8, 0.5)}, "nine in ten units of a layer are dead"),
    "constant value": ({"explained_variance": 0.005}, "the value explains nothing"),
    "wrong value": ({"explained_variance": -3.0}, "the value explains nothing"),
    "no gradient": ({"gradient_norm": 0.0}, "the gradient is zero"),
}
ILL = pytest.mark.parametrize(("ill", "says"), ILLS.values(), ids=ILLS)


def moment(seconds, *, updates=10, **changes):
    """A moment of a run that makes a hundred steps a second and is well but for `changes`."""
    return Progress(
        steps=int(100 * seconds),
        seconds=seconds,
        steps_per_second=100.0,
        seconds_left=None,
        episodes=0,
        mean_return=None,
        updates=updates,
        learning_rate=1e-3,
        **HEALTHY | changes,
    )


def told(*moments):
    """What is said at each moment of a run."""
    signs = Diagnostics()
    return [signs.check(moment) for moment in moments]


def test_a_healthy_run_is_not_spoken_of():
    assert told(*(moment(10.0 * i) for i in range(100))) == [[]] * 100


def test_a_network_without_relus_and_without_losses_is_not_spoken_of():
    unknown = {"active": None, "explained_variance": None, "gradient_norm": None}
    assert told(moment(0.0, **unknown), moment(10 * PATIENCE, **unknown)) == [[], []]


@ILL
def test_what_has_not_lasted_is_not_told(ill, says):
    assert told(moment(5.0, **ill), moment(5.0 + 0.9 * PATIENCE, **ill)) == [[], []]


@ILL
def test_what_has_lasted_is_told_once_with_the_steps_and_its_name(ill, says):
    first, second, third, fourth = told(*(moment(5.0 + i * PATIENCE, **ill) for i in range(4)))
    assert (first, third, fourth) == ([], [], [])
    (sentence,) = second
    assert sentence.startswith(f"at {int(100 * (5.0 + PATIENCE)):,} steps {says}")


@ILL
def test_a_moment_of_health_starts_the_clock_anew(ill, says):
    half = PATIENCE / 2
    moments = [moment(0.0, **ill), moment(half), *(moment(half + i * half, **ill) for i in (1, 2, 3))]
    assert [len(words) for words in told(*moments)] == [0, 0, 0, 0, 1]


@ILL
def test_what_was_told_is_not_told_again_after_it_got_better(ill, says):
    moments = [moment(0.0, **ill), moment(PATIENCE, **ill), moment(2 * PATIENCE)]
    again = [moment(3 * PATIENCE, **ill), moment(9 * PATIENCE, **ill)]
    assert [len(words) for words in told(*moments, *again)] == [0, 1, 0, 0, 0]


def test_moments_without_updates_say_nothing_of_the_run():
    ill = {"gradient_norm": 0.0}
    idle = {"explained_variance": None, "gradient_norm": None, "active": None}
    waiting = [moment(i * PATIENCE, updates=0, **ill) for i in range(3)]
    assert told(*waiting, moment(3 * PATIENCE, **ill)) == [[]] * 4  # the clock has just started
    moments = [moment(0.0, **ill), moment(0.5 * PATIENCE, updates=0, **idle), moment(PATIENCE, **ill)]
    assert [len(words) for words in told(*moments)] == [0, 0, 1]  # nor is it recovery


def test_each_ill_is_told_of_its_own():
    dead, blind = {"active": (0.05,)}, {"explained_variance": 0.0}
    late = [moment(PATIENCE, **dead, **blind), moment(1.5 * PATIENCE, **dead, **blind), moment(2 * PATIENCE, **blind)]
    first, *rest = told(moment(0.0, **dead), *late)
    assert first == []
    assert [["dead" in words for words in said] for said in rest] == [[True], [], [False]]


def test_ills_that_come_together_are_told_together():
    ill = {"active": (0.0, 0.0, 0.0), "explained_variance": 0.0, "gradient_norm": 0.0}
    _, said = told(moment(0.0, **ill), moment(PATIENCE, **ill))
    assert [words.partition("steps ")[2] for words in said] == [sign.says for sign in DIAGNOSTICS]


def test_another_run_is_watched_afresh():
    ill = {"gradient_norm": 0.0}
    run = [moment(0.0, **ill), moment(PATIENCE, **ill)]
    assert told(*run) == told(*run)
