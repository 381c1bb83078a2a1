"""Gradients through a queue, and the mean of all workers' gradients: none is lost, and nobody waits for ever."""

import threading
import time

import pytest
import torch

from a3c_core.handover import QueuedParameters, SynchronousParameters
from tests import toy
from training.local import CONTEXT


def shared(kind, size=1, **changes):
    """Shared parameters at 0 whose optimizer steps by the gradient itself, so that theta's moves show what came."""
    recipe = toy.recipe(**{"workers": 2, "learning_rate": 1.0, "learning_rate_decay": "none"} | changes)
    made = kind(recipe, toy.Weights(torch.zeros(size)), CONTEXT)
    made.server.optimizers = [torch.optim.SGD([made.server.theta], lr=1.0)]
    return made


def hand_over(made, value, *, rank=0, steps=5):
    """A thread in which a worker hands over a gradient of `value`, and what it was told there."""
    told = []
    size = len(made.server.theta)
    push = threading.Thread(
        target=lambda: told.append(made.push(torch.full((size,), value), rank=rank, steps=steps)), daemon=True
    )
    push.start()
    return push, told


# The queue


def test_a_queue_is_worked_off_in_order_and_to_its_end():
    made = shared(QueuedParameters)
    rates = []
    made.server.step = lambda gradient, rank, learning_rate: rates.append((gradient.item(), rank))
    assert [made.push(torch.tensor([value]), rank=rank, steps=5) for rank, value in ((1, 1.0), (0, 2.0))] == [0, 1]
    assert (made.steps, rates) == (0, [])  # nothing counts that is not in the weights
    made.begin()
    assert made.push(torch.tensor([3.0]), rank=1, steps=5) == 2
    made.finish()
    assert (made.steps, rates) == (15, [(1.0, 1), (2.0, 0), (3.0, 1)])
    made.finish()  # once more does nothing


def test_a_full_queue_makes_workers_wait_until_there_is_a_place():
    made = shared(QueuedParameters)
    for _ in range(2):
        made.push(torch.ones(1), rank=0, steps=5)
    waiting, told = hand_over(made, 1.0)
    waiting.join(0.2)
    assert waiting.is_alive()
    made.begin()
    waiting.join(60.0)
    made.finish()
    assert (told, made.steps, made.server.theta.item()) == ([2], 15, -3.0)


def test_a_full_queue_that_nobody_works_off_keeps_no_worker_beyond_the_end():
    made = shared(QueuedParameters)
    for _ in range(2):
        made.push(torch.ones(1), rank=0, steps=5)
    waiting, _ = hand_over(made, 1.0)
    made.stop()
    waiting.join(5.0)
    assert not waiting.is_alive()
    assert made.steps == 0


def test_workers_of_a_queue_end_once_all_steps_are_handed_over():
    made = shared(QueuedParameters, steps=400)
    made.start_at(390)
    made.push(torch.ones(1), rank=0, steps=5)
    assert made.should_continue()
    made.push(torch.ones(1), rank=0, steps=5)
    assert not made.should_continue()
    made.begin()
    made.finish()
    assert made.steps == 400


def test_an_update_that_fails_ends_the_run_and_is_told():
    made = shared(QueuedParameters)
    made.server.step = lambda *_, **__: 1 / 0
    made.begin()
    made.push(torch.ones(1), rank=0, steps=5)
    with pytest.raises(ZeroDivisionError):
        made.finish()
    assert not made.should_continue()


def test_nobody_waits_at_the_end_for_the_lock_of_a_killed_worker():
    made = shared(QueuedParameters, handover="queue")
    made._lock.acquire()  # as a worker that is killed while it pulls
    made.begin()
    made.push(torch.ones(1), rank=0, steps=5)
    pulled = [torch.zeros(1)]
    pulling = threading.Thread(target=made.pull, args=(pulled,), daemon=True)
    pulling.start()
    pulling.join(0.3)
    assert (pulling.is_alive(), made.steps) == (True, 0)
    made.finish()
    pulling.join(5.0)
    with made.paused(seconds=5.0):
        assert (pulling.is_alive(), made.steps, made.server.theta.item()) == (False, 5, -1.0)  # nothing is lost


# The mean of all


def test_one_update_is_made_with_the_mean_of_all_gradients():
    made = shared(SynchronousParameters)
    for update in range(2):
        first, told_first = hand_over(made, 1.0, rank=1)
        first.join(0.2)
        assert first.is_alive()
        assert (made.steps, made.server.theta.item()) == (10 * update, -2.0 * update)
        second, told_second = hand_over(made, 3.0, rank=0)
        for push in (first, second):
            push.join(60.0)
        assert told_first == told_second == [update]
        assert (made.steps, made.server.theta.item()) == (10 * (update + 1), -2.0 * (update + 1))


@pytest.mark.parametrize("over", [lambda made: made.stop(), lambda made: made.start_at(400)], ids=["stop", "goal"])
def test_nobody_waits_for_a_worker_that_has_ended(over):
    made = shared(SynchronousParameters, steps=400)
    waiting, _ = hand_over(made, 1.0)
    over(made)
    started = time.monotonic()
    waiting.join(5.0)
    assert not waiting.is_alive()
    assert time.monotonic() - started < 1.0
    assert made.server.theta.item() == 0.0
