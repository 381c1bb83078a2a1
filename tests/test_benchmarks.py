"""The commands in benchmarks/README.md make its tables by default, and the README is what the results say."""

import inspect
import json

import pytest

from benchmarks import asynchrony, pong, speed, time_to_solve
from benchmarks.results import HERE, SCALING, file_of, readme, scaling
from benchmarks.training_tables import PEERS, activation_cache


def default(main, name):
    return inspect.signature(main).parameters[name].default


def trials_of(name):
    return json.loads(file_of(name).read_text())["trials"]


def test_the_readme_is_written_from_the_results():
    assert (HERE / "README.md").read_text() == readme()
    assert SCALING.read_text() == scaling()


def test_the_speed_table_is_of_the_default_rounds_and_seconds():
    trials = trials_of("speed")
    rounds, seconds = default(speed.main, "rounds"), default(speed.main, "seconds")
    expected = [(name, number) for number in range(rounds) for name in speed.COMPETITORS]
    assert [(trial["competitor"], trial["round"]) for trial in trials] == expected
    assert {round(trial["seconds"]) for trial in trials} == {round(seconds)}


def test_speeds_are_compared_with_a_peer_of_the_same_network_alone():
    assert set(PEERS) | set(PEERS.values()) <= set(speed.COMPETITORS)
    for ours, peer in PEERS.items():
        assert "Nature network" in ours
        assert "Nature network" in peer
    (row,) = [line for line in readme().splitlines() if line.startswith("| a3c, paper's network, 2 workers |")]
    assert [cell.strip() for cell in row.split("|")][5] == ""


@pytest.mark.parametrize(
    ("name", "task", "option", "main"),
    [
        ("time_to_solve", "cartpole", "cartpole_seeds", time_to_solve.main),
        ("time_to_solve", "pendulum", "pendulum_seeds", time_to_solve.main),
        ("pong", None, "seeds", pong.main),
        ("asynchrony", None, "seeds", asynchrony.main),
    ],
)
def test_a_table_of_seeds_is_of_the_default_seeds(name, task, option, main):
    seeds = {trial["seed"] for trial in trials_of(name) if task in (None, trial.get("task"))}
    assert seeds == set(range(default(main, option)))


def test_what_the_activation_cache_saves_is_the_median_of_pairs():
    seconds = [(True, 1.0), (False, 2.0), (True, 1.0), (False, 1.5), (True, 2.0), (False, 2.0)]
    trials = [{"recipe": "a3c", "cached": cached, "steps": 600, "seconds": taken} for cached, taken in seconds]
    table = activation_cache({"machine": {}, "trials": trials})[-1]
    assert table.splitlines()[-1] == "| a3c | 300 | 600 | 1.50 | 1.00 to 2.00 |"
