"""The model of many workers and one server against cases that are computed by hand."""

from dataclasses import replace

import pytest

from benchmarks import scaling
from benchmarks.scaling import Costs, Network, limits, remedies, simulate
from benchmarks.scaling_page import page

COSTS = Costs(rollout=0.1, steps=160, service=0.01, size=1e6)
LINK = Network(latency=0.02, bandwidth=1e8)  # a message takes 10 ms on each of two links
ENDLESS = Network(latency=0.0, bandwidth=1e18)


def test_one_worker_beside_the_server_waits_for_nobody():
    found = simulate(COSTS, LINK, workers=1)
    assert found == pytest.approx((160 / 0.11, 0.0, 0.01 / 0.11, 0.0))


def test_a_message_crosses_two_links_each_way_and_waits_for_the_latency():
    lone = simulate(COSTS, LINK, workers=2, machines=2)  # one here, one there, which meet at the server now and then
    there = 0.1 + 2 * (0.01 + 0.02 + 0.01) + 0.01
    assert lone.steps_per_second == pytest.approx(160 / 0.11 + 160 / there, rel=0.05)
    assert lone.link == pytest.approx(0.01 / there, rel=0.1)


def test_below_the_limit_workers_add_speed_in_proportion_and_each_is_behind_all_others_by_one():
    four = simulate(COSTS, ENDLESS, workers=4, machines=4)
    assert four.steps_per_second == pytest.approx(4 * 160 / 0.11)
    assert four.staleness == pytest.approx(3.0)
    assert four.server == pytest.approx(4 * 0.01 / 0.11)


def test_a_busy_server_lets_its_limit_through_and_no_more():
    many = simulate(COSTS, ENDLESS, workers=44, machines=11)  # four times as many as it can serve
    assert many.steps_per_second == pytest.approx(limits(COSTS, ENDLESS)["server"]) == pytest.approx(16_000)
    assert many.server == pytest.approx(1.0)
    assert many.staleness == pytest.approx(43.0)


def test_a_busy_link_lets_its_limit_through_and_half_the_bytes_twice_that():
    costs = replace(COSTS, service=1e-6)
    for size, expected in ((1e6, 16_000), (5e5, 32_000)):
        smaller = replace(costs, size=size)
        assert limits(smaller, LINK)["link"] == pytest.approx(expected)
        found = simulate(smaller, LINK, workers=2000, machines=2000)  # the one beside the server does not cross
        assert found.steps_per_second == pytest.approx(expected + 160 / 0.1, rel=0.01)
        assert found.link == pytest.approx(1.0, abs=0.01)


def test_workers_share_the_cores_of_a_machine():
    found = simulate(replace(COSTS, service=1e-9), ENDLESS, workers=8, cores=2)
    assert found.steps_per_second == pytest.approx(2 * 160 / 0.1)


def test_what_helps_is_what_raises_the_limit():
    half = replace(COSTS, size=COSTS.size / 2)
    raised = {
        name: {what: most / limits(COSTS, LINK)[what] for what, most in limits(costs, LINK).items()}
        for name, (costs, _) in remedies(COSTS, half, workers_of_machine=8, shards=4).items()
    }
    assert raised == {
        "as it is": {"server": 1, "link": 1},
        "16-bit numbers": {"server": 1, "link": 2},
        "rollouts four times as long": {"server": 4, "link": 4},
        "4 shards of the server": {"server": 4, "link": 4},
        "one speaker per machine": {"server": 8, "link": 8},
        "one speaker, 16-bit numbers": {"server": 8, "link": 16},
    }


def test_the_costs_of_messages_are_those_of_the_server_that_trains(monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setattr("ray.remote", lambda **_: lambda kind: Here(kind))
    monkeypatch.setattr("ray.get", lambda answers: answers)
    monkeypatch.setattr("ray.kill", lambda actor: None)
    told = {each: scaling.message("cartpole", each, messages=3) for each in scaling.COMPRESSIONS}
    assert told["float32"]["bytes"] == 2 * told["bfloat16"]["bytes"] == 4 * 9155
    assert all(told[each][key] > 0 for each in told for key in ("here", "served", "alone"))


class Here:
    """An actor in this process, for a test without a cluster."""

    def __init__(self, kind):
        self.kind = kind

    def remote(self, *words):
        made = self.kind(*words)
        return type("Actor", (), {"push": type("Method", (), {"remote": staticmethod(made.push)})})


def test_the_page_shows_what_was_measured_and_before_that_no_figure():
    assert "None yet: run `python -m benchmarks.scaling measure`" in page({})
    assert not any(line.startswith("|") for line in page({}).splitlines())
    cost = {"here": 0.001, "served": 0.002, "alone": 0.003}
    messages = [
        {"recipe": "pong", "compression": each, "bytes": size, **cost}
        for each, size in (("float32", 2_700_000), ("bfloat16", 1_350_000))
    ]
    run = {"workers": 1, "steps": 15_000, "seconds": 10.0, "staleness": 0.0}
    rollouts = [{"recipe": "pong", "steps": 160, "seconds": 0.1}]
    made_up = {"machine": {"cores": 2}, "messages": messages, "rollouts": rollouts, "runs": [run]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.scaling_page.MACHINES", (1, 4))
        shown = page({"scaling": made_up})
    assert "| pong | float32 | 2.70 | 1.00 | 2.00 | 3.00 | 100.0 | 160 |" in shown
    assert "| 1 | 1,500 | 1,553 | 1.04 | 0.00 | 0.00 |" in shown  # 160 steps in 0.1 + 0.001 + 0.002 s


def test_the_page_tells_what_a_cluster_costs():
    def trial(engine, seconds, *, solved=True, **others):
        made = {"engine": engine, "workers": 2, "delay": 0.05, "compression": "float32", "seed": 0, "solved": solved}
        counts = {"start_seconds": 8.0, "seconds": seconds, "steps": 1000, "messages": 20, "megabytes": 50.0}
        return made | counts | {"staleness": 0.5, "curve": [(50_300, -21.0), (100_200, -20.5)]} | others

    both = [trial("local", 1.0), trial("local", 2.0), trial("cluster", 2.0), trial("cluster", 4.0)]
    slow = [trial("cluster", 10.0, solved=False), trial("cluster", 5.0, delay=0.0, curve=[(200_400, 3.0)])]
    shown = page({"cluster": {"cartpole": {"machine": {}, "trials": both}, "delays": {"machine": {}, "trials": slow}}})
    assert "| local | 2 of 2 | 1.5 | 1.00 | 750 | 100% | 500 to 1,000 | 8.0 |" in shown
    assert "| cluster, float32 | 2 of 2 | 3.0 | 2.00 | 375 | 50% | 250 to 500 | 8.0 |" in shown
    assert "| 2 | 50 ms | float32 | 0 | 100 | 0.50 | 2.0 | 5.0 | not in 10 s | -20.5 |  |" in shown
    assert "| 2 | 0 ms | float32 | 0 | 200 | 0.50 | 4.0 | 10.0 | 5 s, 0.00M |  | 3.0 |" in shown
    stretch = [trial("local", 1.0, solved=False), trial("cluster", 2.0, solved=False)]
    assert "| cluster, float32 |  |  |  | 500 | 50% |" in page(
        {"cluster": {"speed": {"machine": {}, "trials": stretch}}}
    )


def test_the_page_tells_what_a_loss_costs_and_what_the_server_takes():
    def fault(part, told, on, lost):
        times = {"told_seconds": told, "said": "it says", "on_seconds": on, "lost_steps": lost}
        return {"part": part, **times, "left": 0, "whole": True}

    faults = [
        fault("server", 1.0, 9.0, 700),
        fault("server", 3.0, 11.0, 900),
        fault("driver, SIGKILL", None, 7.0, 1050),
    ]
    samples = [
        {"minutes": each, "messages": 1000 * each, "own_mb": 99.5 + max(0, each - 10), "shared_mb": 20.0}
        for each in range(13)
    ]
    memory = {"machine": {}, "workers": 8, "delay": 0.3, "samples": samples}
    shown = page({"faults": {"machine": {}, "faults": faults}, "cluster_memory": memory})
    assert "| server | 2 | 2.0, 3.0 | 10.0, 11.0 | 900 | 0 | 2 of 2 | it says |" in shown
    assert "| driver, SIGKILL | 1 |  | 7.0, 7.0 | 1,050 | 0 | 1 of 1 |" in shown
    rows = [line for line in shown.splitlines() if line.endswith(" | 20.0 |")]
    assert [row.split(" | ")[0] for row in rows] == ["| 1", "| 11", "| 12"]
    assert "From minute 10 to 12 its own memory grows by 60.0 MB per hour" in shown
