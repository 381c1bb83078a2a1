"""The app's handlers, called directly and through a real server."""

import dataclasses
import json
import re
import threading
import time
import zipfile
from pathlib import Path

import gradio as gr
import httpx
import imageio.v3 as iio
import numpy as np
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

import zoo
from a3c_core.checkpoint import load_agent
from tests.processes import alive, wait_until
from tests.serving import App, text_of
from tests.trainings import settings
from training.engine import WorkerDied
from training.recipes import RECIPES
from ui.episodes import Recording, Shelf
from ui.figures import Goal, curve, number, ticks
from ui.retrain import tab as retrain
from ui.retrain import train
from ui.retrain.comparisons import Comparisons
from ui.retrain.jobs import AT_ONCE, IN_LINE, KEPT_SECONDS, Jobs, QueueFull
from ui.settings import NUMBERS, SETTINGS, TRAINABLE, choices, recipe_of
from ui.streaming.routes import LAST_SEED
from ui.watch import tab as watch

STOP_SECONDS = 3.0
"""A stop is promised within a second; the rest is for a busy machine."""
START_SECONDS = 30.0
LONG = 5_000_000
"""More steps than any test waits for."""


# Handlers, without a server


@pytest.mark.parametrize("name", TRAINABLE)
def test_the_shipped_settings_give_the_shipped_recipe(name):
    values = tuple(setting.of(RECIPES[name]) for setting in SETTINGS)
    assert recipe_of(name, values) == RECIPES[name]


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda setting: setting.field)
@pytest.mark.parametrize("value", [None, "7", True, [1], float("nan"), float("inf"), -1, 10**400], ids=repr)
def test_a_bad_setting_is_answered_with_a_sentence_that_names_it(setting, value):
    with pytest.raises(gr.Error, match=f"{setting.label} must be a .*number from .* to "):
        next(retrain.train(Jobs(), None, [], None, "cartpole", *settings(**{setting.field: value})))


@pytest.mark.parametrize("value", [0.5, 999, 5_000_001])
def test_steps_are_whole_and_bounded(value):
    with pytest.raises(gr.Error, match="Steps must be a whole number from 1,000 to 5,000,000"):
        recipe_of("cartpole", tuple(settings(steps=value)))


@pytest.mark.parametrize("name", ["pong", None, ["cartpole"], "../cartpole"])
def test_an_unknown_game_is_answered_with_a_sentence(name):
    with pytest.raises(gr.Error, match="Choose a game: cartpole or pendulum"):
        recipe_of(name, tuple(settings()))


def test_visitors_train_what_learns_within_minutes():
    assert choices() == [("CartPole", "cartpole"), ("Pendulum", "pendulum")]
    assert set(TRAINABLE) < set(RECIPES)


@pytest.mark.parametrize(("game", "shown"), [("pendulum", "pendulum"), ("pong", "cartpole"), (None, "cartpole")])
def test_choosing_a_game_presets_its_settings_and_no_others(game, shown):
    laid_out = retrain.preset(game)
    assert laid_out[0] == shown
    assert laid_out[-len(SETTINGS) :] == [setting.of(RECIPES[shown]) for setting in SETTINGS]
    assert f'data-game="{RECIPES[shown].env}"' in laid_out[3]


@pytest.mark.parametrize(
    ("agent", "words"),
    [(agent, "Choose an agent") for agent in ("nobody", None, {})] + [("../cartpole", "Name a repository")],
)
def test_an_unknown_agent_is_answered_with_a_sentence(arcade, agent, words):
    with pytest.raises(gr.Error, match=words):
        watch.watch(arcade.hub_agents, arcade.files, agent, 0)


@pytest.mark.parametrize("seed", [None, "0", 0.5, -1, 10**9, float("nan")])
def test_a_bad_seed_is_answered_with_a_sentence(arcade, seed):
    with pytest.raises(gr.Error, match="The seed must be a whole number from 0 to 999,999,999"):
        watch.watch(arcade.hub_agents, arcade.files, "cartpole", seed)


def test_watching_gives_a_return_and_says_where_its_video_is(arcade):
    seen = watch.watch(arcade.hub_agents, arcade.files, "cartpole", 1)
    total = zoo.entries()["cartpole"].score.returns[1]
    assert seen == {"return": total, "steps": total, "video": "/arcade/video?agent=cartpole&seed=1"}


def test_a_choice_shows_its_game_and_what_to_expect_of_it():
    shown = watch.show_game("pong", 25, 7, "sampled", True)
    asked = {"agent": "pong", "snapshot": 25, "seed": 7, "actions": "sampled", "protocol": "sticky"}
    assert shown.player.items() >= asked.items()
    assert number(zoo.entries()["pong"].score.mean) in shown.verdict
    assert shown.seed == 7
    assert shown.sticky["visible"]


def test_what_another_agent_does_not_have_gives_way():
    shown = watch.show_game("cartpole", 12, 7, "", True)  # it has no such snapshot
    assert shown.player.items() >= {"snapshot": 100, "protocol": "classic"}.items()
    assert not shown.sticky["visible"]


def test_another_game_is_that_of_the_next_seed():
    assert watch.another_game("cartpole", 100, 7, "", False).player["seed"] == 8
    assert watch.another_game("cartpole", 100, LAST_SEED, "", False).player["seed"] == 0


@pytest.mark.parametrize("actions", ["wild", 7, ["greedy"]])
def test_unknown_actions_are_answered_with_a_sentence(actions):
    with pytest.raises(gr.Error, match="Actions are greedy or sampled"):
        watch.show_game("cartpole", 100, 0, actions, False)


def recording(path: Path) -> Recording:
    path.touch()
    return Recording(path, "CartPole-v1", 0, np.ones(1), np.ones(1))


def test_the_shelf_throws_away_what_was_not_asked_for_longest(tmp_path):
    shelf = Shelf(size=2, seconds=0.0)
    for seed in (0, 1, 0, 2):
        shelf.get(("a", seed), lambda seed=seed: recording(tmp_path / str(seed)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "2"]


def test_the_shelf_throws_away_nothing_that_may_be_being_sent(tmp_path):
    shelf = Shelf(size=1)
    found = [shelf.get(seed, lambda seed=seed: recording(tmp_path / str(seed))) for seed in range(3)]
    assert all(each.video.exists() for each in found)


def test_the_shelf_makes_a_recording_once_for_all_who_ask(tmp_path):
    shelf, made = Shelf(size=2), []

    def slowly() -> Recording:
        made.append(1)
        time.sleep(0.2)
        return recording(tmp_path / "game")

    threads = [threading.Thread(target=shelf.get, args=(("a", 0), slowly)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_the_shelf_keeps_no_failure(tmp_path):
    shelf = Shelf(size=2)
    with pytest.raises(ZeroDivisionError):
        shelf.get(("a", 0), lambda: 1 / 0)
    assert shelf.get(("a", 0), lambda: recording(tmp_path / "game")).total == 1


def test_the_line_is_first_come_first_served_and_ends(runs):
    waiting = [runs.enter(RECIPES["cartpole"], None) for _ in range(AT_ONCE + IN_LINE)]
    assert [runs.ahead(run) for run in waiting] == list(range(AT_ONCE + IN_LINE))
    with pytest.raises(QueueFull):
        runs.enter(RECIPES["cartpole"], None)
    with pytest.raises(gr.Error, match=r"2 trainings are running and 6 are waiting\. Please try again"):
        next(retrain.train(runs, None, [], None, "cartpole", *settings()))
    runs.leave(waiting[0])
    assert runs.ahead(waiting[2]) == 1


def test_runs_go_when_their_page_closes_or_their_time_is_over(runs, monkeypatch):
    closed = runs.enter(RECIPES["cartpole"], "page")
    runs.leave(closed)
    under_way, old, other = (runs.enter(RECIPES["cartpole"], session) for session in ("page", "old", "other"))
    for run in (closed, under_way, old, other):
        run.directory.mkdir()
    for run in (old, other):
        runs.leave(run)
    runs.leave_page("page")
    assert under_way.stop.is_set()
    assert not closed.directory.exists()
    old.ended -= KEPT_SECONDS + 1
    runs.sweep()
    runs.leave(under_way)
    assert [run.directory.exists() for run in (closed, under_way, old, other)] == [False, False, False, True]
    assert runs.get(other.id) is other
    assert runs.get("guessed") is None


def test_a_training_ends_when_its_time_is_over_and_its_agent_is_kept(runs, monkeypatch):
    monkeypatch.setattr(train, "MOST_SECONDS", 1.0)
    views = list(retrain.train(runs, None, [], None, "cartpole", *settings(steps=LONG)))
    assert "Ended after 1 s" in text_of(views[-1].status)
    assert load_agent(runs.get(views[0].run_id).checkpoint).recipe.steps == LONG


def test_a_training_that_breaks_down_is_explained_without_a_stack_trace(runs, monkeypatch):
    def broken(*_: object, **__: object):
        raise WorkerDied("worker 0 failed:\nTraceback (most recent call last): secret")
        yield

    monkeypatch.setattr(train, "train_recipe", broken)
    views = list(retrain.train(runs, None, [], None, "cartpole", *settings()))
    assert "The training failed" in views[-1].status
    assert "Traceback" not in str(views)
    assert Comparisons(runs).compare(views[0].run_id) == (retrain.UNCHANGED,) * 3


def test_one_who_waits_can_stop(runs, monkeypatch):
    monkeypatch.setattr(train, "LOOK_SECONDS", 0.01)
    for _ in range(AT_ONCE + 1):
        runs.enter(RECIPES["cartpole"], None)
    views = retrain.train(runs, None, [], None, "cartpole", *settings())
    run_id = next(views).run_id
    assert "yours starts when one ends. 1 ahead of you." in next(views).status
    retrain.stop(runs, run_id)
    assert "Stopped before it began" in [view.status for view in views][-1]


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [([0, 500], 5, [0, 100, 200, 300, 400, 500]), ([0, -1437.5], 2, [-2000, -1000, 0]), ([0], 2, [0, 0.5, 1])],
)
def test_ticks_are_round_and_hold_all_values(values, count, expected):
    assert ticks(values, count) == pytest.approx(expected)


def test_a_curve_escapes_words_and_counts_points():
    drawn = curve([1, 2], [3, 4], label="<b>", game='"x', ends=("<", ">"), goal=Goal(5, "<goal>"))
    assert 'data-points="2"' in drawn
    for word in ("<span>&lt;b&gt;</span>", "<span>&lt;</span>", "&lt;goal&gt;", 'data-game="&quot;x"'):
        assert word in drawn


@pytest.mark.parametrize(("value", "text"), [(500.0, "500"), (-133.52, "−133.5"), (-1437.6, "−1,438"), (0.0, "0")])
def test_numbers_are_short(value, text):
    assert number(value) == text


# Through a real server


def visit(app: App, downloads: Path) -> Client:
    return Client(app.url, verbose=False, download_files=downloads, analytics_enabled=False)


@pytest.fixture(scope="module")
def client(app, tmp_path_factory):
    """A visitor."""
    visitor = visit(app, tmp_path_factory.mktemp("downloads"))
    yield visitor
    visitor.close()


@pytest.fixture
def visitors(app, tmp_path):
    """Three visitors, whose trainings are stopped at the end."""
    three = [visit(app, tmp_path / str(i)) for i in range(3)]
    yield three
    for visitor in three:
        visitor.predict(api_name="/stop")
    assert wait_until(lambda: not app.workers(), START_SECONDS)
    for visitor in three:
        visitor.close()


def steps_of(job) -> int:
    found = re.search(r"Steps ([0-9,]+)", status_of(job))
    return int(found[1].replace(",", "")) if found else 0


def status_of(job) -> str:
    outputs = job.outputs()
    statuses = [view[0] for view in outputs if isinstance(view[0], str)]
    return text_of(statuses[-1]) if statuses else ""


def start(client: Client, **changes: object):
    return client.submit("cartpole", *settings(steps=LONG, **changes), api_name="/train")


def test_the_app_starts_in_time_and_asks_no_other_machine(app, client):
    assert app.seconds < START_SECONDS
    client.predict("cartpole", 0, api_name="/watch")
    assert app.asked.read_text() == ""


def test_the_page_comes_compressed_and_without_fonts(app):
    packed, plain = (httpx.get(app.url, headers={"Accept-Encoding": each}) for each in ("gzip", "identity"))
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    assert packed.content == plain.content
    assert "@font-face" not in httpx.get(f"{app.url}theme.css").text


def test_watch_gives_a_playable_mp4(app, client, tmp_path):
    seen = client.predict("cartpole", 2, api_name="/watch")
    assert seen["video"].startswith(app.url)
    answer = httpx.get(seen["video"], timeout=60)
    assert answer.headers["content-disposition"].endswith('"cartpole-seed-2.mp4"')
    (tmp_path / "game.mp4").write_bytes(answer.content)
    frames = iio.imread(tmp_path / "game.mp4", plugin="FFMPEG")
    assert frames.shape == (seen["steps"] + 1, 400, 600, 3)
    assert (frames[0] != frames[-1]).any()


@pytest.mark.parametrize(
    ("endpoint", "values", "message"),
    [
        ("/watch", ["nobody", 0], "Choose an agent"),
        ("/watch", ["cartpole", 10**30], "The seed must be"),
        ("/train", ["pong", *settings()], "Choose a game"),
        ("/train", ["cartpole", *settings(steps=10**12)], "Steps must be"),
        ("/train", ["cartpole", *settings(learning_rate=None)], "Learning rate must be"),
        ("/train", ["cartpole", *settings(workers=64)], "Workers must be"),
        ("/compare", [], "no longer kept"),
    ],
)
def test_bad_values_sent_to_the_server_are_answered_with_a_sentence(client, endpoint, values, message):
    with pytest.raises(AppError, match=message):
        client.predict(*values, api_name=endpoint)


def test_a_number_that_is_none_in_json_is_refused(app):
    values = json.dumps({"data": ["cartpole", *settings(gamma=float("nan"))]})  # Python writes a bare NaN
    post = httpx.post(f"{app.url}gradio_api/call/train", content=values, headers={"content-type": "application/json"})
    answer = httpx.get(f"{app.url}gradio_api/call/train/{post.json()['event_id']}", timeout=30).text
    assert "Discount must be a number" in answer
    assert "Traceback" not in answer


def test_two_train_a_third_waits_and_stop_keeps_the_agent(app: App, visitors, tmp_path):
    first = start(visitors[0])
    assert wait_until(lambda: app.workers() and "Training" in status_of(first), START_SECONDS)
    workers_of_first = app.workers()
    second = start(visitors[1])
    assert wait_until(lambda: len(app.workers()) == 2 and "Training" in status_of(second), START_SECONDS)
    third = start(visitors[2])
    assert wait_until(lambda: "yours starts when one ends. You are next." in status_of(third), START_SECONDS)
    assert len(app.workers()) == 2
    assert wait_until(lambda: steps_of(first) > 0, START_SECONDS)

    asked = time.monotonic()
    visitors[0].predict(api_name="/stop")
    assert wait_until(lambda: not any(map(alive, workers_of_first)), START_SECONDS)
    assert time.monotonic() - asked < STOP_SECONDS

    checkpoint = first.result(timeout=START_SECONDS)[3]["value"]
    assert "Stopped early" in status_of(first)
    assert wait_until(lambda: "Training" in status_of(third) and len(app.workers()) == 2, START_SECONDS)

    with zipfile.ZipFile(checkpoint) as archive:
        assert sorted(archive.namelist()) == ["log.jsonl", "model.safetensors", "recipe.json"]
        archive.extractall(tmp_path / "checkpoint")
    agent = load_agent(tmp_path / "checkpoint")
    assert agent.steps > 0
    assert agent.recipe == dataclasses.replace(RECIPES["cartpole"], workers=1, envs_per_worker=4, steps=LONG)

    (untrained, trained), status = visitors[0].predict(api_name="/compare")
    assert untrained["name"] == "Untrained"
    assert trained["name"] == f"After {agent.steps:,} steps"
    assert "Both games below start from seed 0." in text_of(status)


def test_a_visitor_who_leaves_ends_the_training(app):
    session = {"session_hash": "leaves", "fn_index": None}
    dependencies = httpx.get(f"{app.url}config", timeout=30).json()["dependencies"]
    session["fn_index"] = next(d["id"] for d in dependencies if d["api_name"] == "train")
    data = [None, None, "cartpole", *settings(steps=LONG)]
    httpx.post(f"{app.url}gradio_api/queue/join", json=session | {"data": data}, timeout=30).raise_for_status()
    with httpx.stream("GET", f"{app.url}gradio_api/queue/data?session_hash=leaves", timeout=30) as stream:
        assert any("Training" in line for line in stream.iter_lines())
        assert app.workers()
    assert wait_until(lambda: not app.workers(), START_SECONDS)
