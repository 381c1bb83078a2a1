"""The commands in benchmarks/README.md make its tables by default, and the README is what the results say."""

import asyncio
import importlib
import inspect
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import zoo
from benchmarks import __main__ as program
from benchmarks import lives_lost, load, pong, pong_points, score_by_hours, speed, time_to_solve
from benchmarks.opening import Asked, all_opened, by_another
from benchmarks.page_tables import page_weight, picture_after
from benchmarks.page_weight import opening
from benchmarks.results import HERE, SCALING, SECTIONS, file_of, readme, scaling
from benchmarks.training_tables import PEERS
from tests.browsing import needs_chromium
from training.log import LOG, Metrics, line_of


def test_the_command_lists_every_benchmark_and_runs_those_that_are_named(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(program, "run", lambda name: ran.append(name) or name != "pong")
    program.main()
    told = capsys.readouterr().out
    for name in program.BENCHMARKS:
        assert re.search(rf"^{name} +\S.*\n +(not )?measured", told, re.MULTILINE)
    for name in SECTIONS:
        assert all(each.default is not each.empty for each in parameters_of(name))
    assert ran == []
    program.main(("speed", "waits"))
    assert ran == ["speed", "waits"]
    with pytest.raises(SystemExit, match="pong failed"):
        program.main(("all",))
    assert ran[2:] == list(program.BENCHMARKS)
    with pytest.raises(SystemExit, match="no benchmark 'asynchrony': choose all, or of speed, "):
        program.main(("asynchrony",))


def test_pages_are_opened_by_what_a_browser_asked_for_each_under_a_name_of_its_own(app):
    posted = json.dumps({"data": [], "fn_index": 0, "session_hash": "abc123"})
    heartbeat = Asked("GET", "gradio_api/heartbeat/abc123")  # which never ends
    post, beat = by_another([Asked("POST", "gradio_api/run/predict", posted), heartbeat])
    assert json.loads(post.body)["session_hash"] == beat.path.removeprefix("gradio_api/heartbeat/") != "abc123"
    asked = [Asked("GET", ""), heartbeat, Asked("GET", "arcade/recordings/")]
    waits = in_a_thread(all_opened(app.url, asked, pages=3, seconds=0.3))
    assert len(waits) == 3
    wait = load.told(waits)
    assert wait.items() >= {"slowest": max(waits), "lost": 0}.items()
    assert f"slowest {max(waits):.2f} s; 0 pages" in picture_after(wait)
    refused = [*asked, Asked("GET", "arcade/chunk?agent=nobody")]
    assert in_a_thread(all_opened(app.url, refused, pages=1, seconds=0.0)) == [None]


def in_a_thread(coroutine):
    """What a coroutine returns; a browser that is open has this thread's event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def parameters_of(name):
    """What a benchmark's command takes: all of it can be left out."""
    return inspect.signature(importlib.import_module(f"benchmarks.{name}").main).parameters.values()


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
    ],
)
def test_a_table_of_seeds_is_of_the_default_seeds(name, task, option, main):
    seeds = {trial["seed"] for trial in trials_of(name) if task in (None, trial.get("task"))}
    assert seeds == set(range(default(main, option)))


@needs_chromium
def test_an_opening_of_the_page_is_measured_up_to_its_first_picture(app, browser):
    found = opening(browser, app.url)
    assert found.requests > 20
    assert found.bytes > 100_000
    assert 0 < found.seconds < 60
    assert found.processor_seconds > 0


def test_the_weight_of_a_page_is_the_median_of_its_openings():
    parts = ("requests", "bytes", "seconds", "processor_seconds")
    costs = {"aaa": [(9, 3000, 0.5, 1.0), (9, 5000, 0.25, 3.0), (10, 4000, 1.0, 2.0)], "bbb": [(7, 1000, 0.25, 0.5)]}
    openings = [
        {"page": "app", "commit": commit, **dict(zip(parts, cost, strict=True))}
        for commit, group in costs.items()
        for cost in group
    ]
    table = page_weight({"machine": {}, "openings": openings})[-1]
    assert table.splitlines()[2:] == [
        "| app | aaa | 9 | 4 | 2.00 | 0.50 | 1.00 |",
        "| app | bbb | 7 | 1 | 0.50 | 0.25 | 0.25 |",
    ]


def test_the_score_by_hours_is_that_of_the_last_line_before(tmp_path, capsys):
    moments = [(0.0, 0, None), (1000.0, 1_000_000, 5.0), (4000.0, 4_000_000, 9.0)]
    progress = Metrics().progress(0, goal=1, learning_rate=1e-3)
    log = [replace(progress, seconds=seconds, steps=steps, mean_return=mean) for seconds, steps, mean in moments]
    (tmp_path / LOG).write_text("".join(map(line_of, log)))
    score_by_hours.main((f"mine={tmp_path}",))
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| mine |  |  | 5.0 (1.0M) | 5.0 (1.0M) |  |  | 9.0 (4.0M) after 1.1 hours |"
    ]
    with pytest.raises(SystemExit, match="'mine' names no training: say NAME=DIRECTORY"):
        score_by_hours.main(("mine",))


def test_the_ball_and_the_paddle_are_found_where_pong_draws_them():
    agent = zoo.load("pong")
    (track,) = pong_points.play(agent, 1, "classic", 0)
    assert track.reward.sum() == 21.0
    hits, missed = pong_points.arrivals(track)
    assert len(missed) == 0
    assert len(hits) >= 15  # nearly all of the 21 shots that win a point turn the ball in sight
    far, near = np.nanmedian(pong_points.distances(track, hits), axis=0)[[0, -1]]
    assert near <= 6  # half a paddle and half a ball
    assert far > near


def test_each_life_is_lost_at_the_points_of_its_game():
    agent = zoo.load("breakout")  # which loses all its lives where actions are sticky
    score, found = lives_lost.play(agent, 1, "sticky", 0, greedy=False)
    assert found.lost.sum() == 5
    assert found.lost[-1]  # the game ends with its last life
    assert found.points[-1] == score.returns[0]
    rows = lives_lost.rows(lives_lost.Lives(np.array([0.0, 5, 35, 36]), np.array([False, True, True, False])), 36)
    assert rows == [("0 to 35", 3, 2, "2"), ("36 to 71", 1, 0, "")]


def test_a_lost_point_has_the_ball_where_it_was_last_seen():
    column = np.array([60, 64, 66, 64, 60, 62, 68, np.nan, np.nan, 40])
    reward = np.where(np.arange(10) == 8, -1.0, 0.0)
    track = pong_points.Track(column, np.arange(10.0), np.full(10, 3.0), reward)
    hits, missed = pong_points.arrivals(track)
    assert hits.tolist() == [2]
    assert missed.tolist() == [6]
    assert pong_points.speed_ratios(track, hits).tolist() == []  # fewer than three steps before it
    fired = track._replace(column=np.array([60, 62, 64, 66, 62, 58, 54]))
    assert pong_points.speed_ratios(fired, np.array([3])).tolist() == [2.0]
    assert pong_points.missed_row([fired], [np.array([3])], [np.array([], dtype=int)]) == ("0 of 1", "0 of 0", "0 of 0")
    late = track._replace(**{name: np.r_[np.full(8, np.nan), getattr(track, name)] for name in track._fields})
    assert pong_points.distances(late, np.array([14]))[0, -1] == 3.0  # the ball is in row 6, the paddle in row 3
