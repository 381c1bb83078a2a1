"""The Retrain tab beyond a single training: lessons, small curves, earlier trainings, and limits for each visitor."""

import math
import re
import time
import zipfile
from html import unescape
from types import SimpleNamespace

import gradio as gr
import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from hypothesis import HealthCheck, given
from hypothesis import settings as tries
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.testclient import TestClient

from a3c_core.checkpoint import load_agent
from tests.anything import ANYTHING
from tests.browsing import needs_chromium, visit
from tests.processes import wait_until
from tests.serving import App, text_of
from tests.trainings import settings
from training.log import Progress
from training.recipes import RECIPES
from ui.retrain import tab as retrain
from ui.retrain import train
from ui.retrain.address import named_in
from ui.retrain.history import MOST_LINES, POINTS, lines, thinned, with_run
from ui.retrain.jobs import AT_ONCE, MOST_KEPT, PER_ADDRESS, Jobs, QueueFull
from ui.retrain.learning import VITAL_POINTS, VITALS, learning_curve, vital_curves
from ui.retrain.lessons import LESSONS, SHIPPED, taught
from ui.retrain.routes import routes
from ui.settings import NETWORK, SETTINGS, TRAINABLE, differences, recipe_of

LONG = 5_000_000
CARTPOLE = RECIPES["cartpole"]
PRESENCE = TestClient(Starlette(routes=routes(Jobs())))


def moment(steps: int, **numbers: float) -> Progress:
    """A moment of a training."""
    told = {vital.field: 0.5 for vital in VITALS} | {"mean_return": 20.0, "updates": 3} | numbers
    return Progress(steps=steps, seconds=1.0, seconds_left=1.0, episodes=9, learning_rate=1e-3, **told)


# What strangers may send


def fits(value: object, place: int) -> bool:
    """Whether the setting in that place takes the value."""
    try:
        SETTINGS[place].checked(value)
    except gr.Error:
        return False
    return True


@given(data=st.data(), place=st.integers(-1, len(SETTINGS) - 1))
@tries(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_sent_to_train_is_answered_with_a_sentence_and_leaves_no_run(runs, data, place):
    asked = ["cartpole", *settings()]
    taken = (lambda value: fits(value, place)) if place >= 0 else (lambda value: value in TRAINABLE)
    asked[place + 1] = data.draw(ANYTHING.filter(lambda value: not taken(value)))
    for other in data.draw(st.sets(st.integers(1, len(SETTINGS)))):
        asked[other] = data.draw(ANYTHING) if other != place + 1 else asked[other]
    with pytest.raises(gr.Error) as error:
        next(retrain.train(runs, None, [], None, *asked))
    assert re.fullmatch(r"[A-Z].*\.", error.value.message)
    assert not error.value.print_exception
    assert len(error.value.message) < 300
    assert not runs._runs


@given(values=st.lists(ANYTHING, max_size=4))
@tries(max_examples=50, deadline=None)
def test_a_wrong_number_of_settings_is_answered_with_a_sentence(values):
    with pytest.raises(gr.Error, match=r"A training needs 10 settings: Steps, .*, Hidden units\."):
        recipe_of("cartpole", tuple(values))


@given(name=ANYTHING, game=ANYTHING)
@tries(max_examples=100, deadline=None)
def test_an_unknown_lesson_is_answered_with_a_sentence_and_an_unknown_game_is_cartpole(name, game):
    with pytest.raises(gr.Error, match="Choose one of these: As shipped, "):
        retrain.teach(Jobs(), name, game, None, [])
    assert retrain.preset(game)[0] == "cartpole"
    assert retrain.forget(Jobs(), game, None, [])[0] == []


def test_what_is_on_display_stays_whatever_game_is_chosen(runs):
    run = runs.enter(recipe_of("pendulum", tuple(setting.of(RECIPES["pendulum"]) for setting in SETTINGS)), None)
    earlier = with_run((), run.id, run.recipe, [moment(100)])
    kept, *_ = retrain.forget(runs, "cartpole", run.id, earlier)
    assert kept == earlier
    assert runs.get(run.id) is run


# Settings and lessons


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
@pytest.mark.parametrize("game", TRAINABLE)
def test_a_lesson_is_a_recipe_that_visitors_may_train(lesson, game):
    name, recipe = taught(lesson, game)
    assert recipe_of(name, tuple(each.of(recipe) for each in SETTINGS)) == recipe
    assert (differences(recipe) == "as shipped") == (lesson is SHIPPED)
    laid_out = retrain.teach(Jobs(), lesson.name, game, None, [])
    assert laid_out[:2] == [name, lesson.name]
    assert lesson.says in unescape(text_of(laid_out[2]))


def test_an_address_names_the_settings_that_differ_from_the_shipped_ones():
    asked = {"tab": "retrain", "game": "pendulum", "learning_rate": "0.02", "n_steps": "7", "head_layers": "128 + 128"}
    game, recipe = named_in(asked)
    assert (game, recipe.learning_rate, recipe.n_steps, recipe.head_layers) == ("pendulum", 0.02, (7,), (128, 128))
    assert recipe.workers == RECIPES["pendulum"].workers
    game_shown, lesson, says, *_ = retrain.set_to(asked)
    assert (game_shown, lesson, says) == ("pendulum", None, "")


@pytest.mark.parametrize(
    "asked", [{"steps": "<b>"}, {"gamma": "nan"}, {"seed": "1.5"}, {"head_layers": "9"}, {"game": "x"}]
)
def test_an_address_with_a_setting_that_cannot_be_leaves_all_as_shipped(asked):
    game, _, says, *shown = retrain.set_to(asked)
    assert game == "cartpole"
    assert shown[3:] == [each.of(CARTPOLE) for each in SETTINGS]
    assert says.endswith(".</p>")


@pytest.mark.parametrize("name", NETWORK.options)
def test_the_network_can_be_chosen(name):
    recipe = recipe_of("cartpole", tuple(settings(head_layers=name)))
    assert recipe.head_layers == NETWORK.options[name]
    assert NETWORK.of(recipe) == name


def test_differences_are_told_in_words():
    values = tuple(settings(workers=1, envs_per_worker=16, steps=5_000, learning_rate=0.03, head_layers="32"))
    assert differences(recipe_of("cartpole", values)) == ("steps 5,000, learning rate 0.03, workers 1, hidden units 32")


# Curves


def test_long_trainings_are_drawn_with_few_points():
    moments = [moment(100 * i, mean_return=float(i)) for i in range(1, 2000)]
    drawn = vital_curves(CARTPOLE, moments)
    assert drawn.count(f'data-points="{VITAL_POINTS}"') == len(VITALS)
    assert 'data-points="300"' in learning_curve(CARTPOLE, moments)
    for vital in VITALS:
        assert f'aria-label="{vital.label}: 0.5 at the end"' in drawn


def test_the_last_point_is_never_thinned_out():
    assert thinned(range(1000), 7)[0] == 0
    assert thinned(range(1000), 7)[-1] == 999
    assert thinned([1, 2], 7) == [1, 2]


def test_numbers_that_run_away_are_not_drawn():
    assert vital_curves(CARTPOLE, [moment(10, value_loss=math.inf), moment(20, entropy=math.nan)]) == ""
    assert 'data-points="1"' in vital_curves(CARTPOLE, [moment(10), moment(20, gradient_norm=math.nan)])


def test_earlier_trainings_are_few_small_and_of_the_same_game():
    earlier = []
    for number in range(20):
        for name in TRAINABLE:
            long = [moment(i, mean_return=100.0 * TRAINABLE.index(name) + number) for i in range(1, 500)]
            earlier = with_run(earlier, f"{name} {number}", RECIPES[name], long)
    assert len(earlier) == 2 * (MOST_LINES + 1)
    assert {len(each.line.x) for each in earlier} == {POINTS}
    assert len(lines(earlier, CARTPOLE.env)) == MOST_LINES
    assert {each.env for each in earlier if each.line in lines(earlier, CARTPOLE.env)} == {CARTPOLE.env}
    assert with_run(earlier, "no game ended", CARTPOLE, [moment(5, mean_return=None)]) == earlier


def test_the_figure_holds_the_longest_of_its_trainings():
    recipe = recipe_of("cartpole", tuple(settings(steps=1_000)))
    earlier = with_run([], "before", CARTPOLE, [moment(400_000)])
    drawn = text_of(learning_curve(recipe, [moment(500)], lines(earlier, recipe.env)))
    assert "400,000 steps" in drawn
    assert "this training: steps 1,000" in drawn
    assert "as shipped 20" in drawn


# Limits


def test_a_page_trains_once_at_a_time(runs):
    first = runs.enter(CARTPOLE, "page")
    with pytest.raises(QueueFull, match="This page is training already"):
        runs.enter(CARTPOLE, "page")
    runs.leave(first)
    runs.enter(CARTPOLE, "page")


def test_an_address_has_few_trainings_at_a_time(runs):
    first, *_ = [runs.enter(CARTPOLE, None, "10.1.1.1") for _ in range(PER_ADDRESS)]
    with pytest.raises(QueueFull, match="2 trainings from your address are running or waiting"):
        runs.enter(CARTPOLE, "another page", "10.1.1.1")
    runs.enter(CARTPOLE, None, "10.1.1.2")
    runs.leave(first)
    runs.enter(CARTPOLE, None, "10.1.1.1")


def test_finished_trainings_are_not_kept_without_end(runs):
    ended = []
    for _ in range(MOST_KEPT + 3):
        ended.append(runs.enter(CARTPOLE, None))
        runs.leave(ended[-1])
    runs.sweep()
    assert [runs.get(run.id) for run in ended[:3]] == [None] * 3
    assert len(runs._runs) == MOST_KEPT


def test_a_training_that_is_paused_gives_its_turn_away_and_lines_up_again(runs):
    first, second, third = [runs.enter(CARTPOLE, None) for _ in range(3)]
    assert runs.ahead(third) == 2 == AT_ONCE
    runs.pause(first)
    assert runs.ahead(third) == 1
    runs.enqueue(first)
    assert [runs.ahead(run) for run in (second, third, first)] == [0, 1, 2]


def test_only_a_page_that_was_there_can_be_missed(runs, monkeypatch):
    run = runs.enter(CARTPOLE, None)
    assert not run.alone  # a program says nothing
    run.hear()
    assert not run.alone
    monkeypatch.setattr("ui.retrain.jobs.SILENCE_SECONDS", -1.0)
    assert run.alone


def test_a_training_whose_page_stays_away_is_over_and_keeps_what_it_has_learnt(runs, monkeypatch):
    monkeypatch.setattr("ui.retrain.jobs.SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(train, "AWAY_SECONDS", 1.0)
    told = retrain.train(runs, None, [], None, "cartpole", *settings(steps=LONG))
    run = runs.get(next(told).run_id)
    run.hear()
    said = [text_of(view.status) for view in told if isinstance(view.status, str)]
    assert any(sentence.startswith("Paused: this page could not be reached.") for sentence in said)
    assert said[-1].startswith("Stopped early; what it had learnt is kept.")
    assert load_agent(run.checkpoint).recipe == run.recipe


def test_who_was_away_for_a_moment_keeps_their_turn(runs):
    first, other = (runs.enter(CARTPOLE, None) for _ in range(2))
    first.hear()
    assert list(train.wait_for_page(runs, first)) == []
    assert [runs.ahead(run) for run in (first, other)] == [0, 1]


@given(name=ANYTHING)
@tries(max_examples=50, deadline=None)
def test_whatever_page_says_that_it_is_there_is_told_that_its_training_is_over(name):
    asked = {"id": name if isinstance(name, str) else repr(name)}
    assert PRESENCE.post("/arcade/training/here", params=asked).json() == {"over": True}
    assert PRESENCE.post("/arcade/training/here").json() == {"over": True}


def test_a_page_that_is_silent_for_some_seconds_keeps_its_training_going(runs):
    """A phone that changes its cell; one that stays away gives its turn to others."""
    run = runs.enter(CARTPOLE, "page")
    for seconds, lost in ((3.0, False), (6.0, True)):
        run.heard = time.monotonic() - seconds
        assert run.alone is lost


def test_a_page_that_gradio_has_forgotten_still_finds_its_training(runs):
    """It remembers some hundred pages, and notes with a page which training is its own."""
    mine = {session: runs.enter(CARTPOLE, session) for session in ("page", "other", None)}
    retrain.stop(runs, None, SimpleNamespace(session_hash="page"))
    retrain.stop(runs, None, SimpleNamespace(session_hash="new"))
    retrain.stop(runs, None, SimpleNamespace(session_hash=None))
    assert [session for session, run in mine.items() if run.stop.is_set()] == ["page"]


# Through a real server


@pytest.fixture
def page(app: App, browser: Browser):
    with visit(browser, app, "?agent=cartpole") as opened:
        opened.get_by_role("tab", name="Retrain").click()
        yield opened


def train_lesson(page: Page, lesson: str, steps: int) -> None:
    """Trains with a lesson's settings until the end."""
    page.get_by_label(lesson, exact=True).click()
    expect(page.get_by_label("Steps", exact=True)).to_have_value(str(CARTPOLE.steps))  # the lesson has been laid out
    page.get_by_label("Steps", exact=True).fill(str(steps))
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#train-status")).not_to_contain_text("Both games")
    expect(page.locator("#train-status")).to_contain_text("Both games below start from")
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_enabled()


@needs_chromium
@pytest.mark.timeout(300)
def test_a_visitor_compares_lessons_and_takes_an_earlier_one_home(page, tmp_path):
    page.get_by_label("Rate too high", exact=True).click()
    expect(page.get_by_label("Learning rate", exact=True)).to_have_value("0.1")
    expect(page.locator("#lesson")).to_contain_text("entropy")
    legend = page.locator("#learning-curve .legend")

    train_lesson(page, "Rate too high", 5_000)
    small = page.locator("#vital-curves .curve")
    expect(small).to_have_count(len(VITALS))
    assert all(len(text) > 0 for text in page.locator("#vital-curves output").all_inner_texts())
    expect(legend).to_have_count(0)

    train_lesson(page, "One worker", 5_000)
    expect(legend.locator(".now")).to_have_text("this training: steps 5,000, workers 1")
    expect(legend.locator("li:not(.now)")).to_contain_text("steps 5,000, learning rate 0.1")
    expect(page.locator("#learning-curve polyline.earlier")).to_have_count(1)

    expect(page.locator("#lesson")).to_contain_text("This is A2C")
    visit = page.locator("#past label")
    expect(visit).to_have_count(2)
    visit.filter(has_text="learning rate 0.1").click()
    expect(legend.locator(".now")).to_have_text("this training: steps 5,000, learning rate 0.1")
    expect(legend.locator("li:not(.now)")).to_contain_text("workers 1")
    expect(page.locator("#train-status")).to_contain_text("Both games below start from seed 1.")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the checkpoint").click()
    download.value.save_as(tmp_path / "checkpoint.zip")
    zipfile.ZipFile(tmp_path / "checkpoint.zip").extractall(tmp_path)
    assert load_agent(tmp_path).recipe.learning_rate == 0.1

    page.get_by_label("Learning rate", exact=True).fill("0.02")
    expect(page.get_by_label("One worker", exact=True)).not_to_be_checked()
    expect(page.locator("#lesson")).to_have_text("")
    page.get_by_label("Pendulum", exact=True).click()
    expect(legend).to_have_count(0)
    expect(small).to_have_count(0)
    page.get_by_label("CartPole", exact=True).click()
    expect(page.locator("#learning-curve polyline.earlier")).to_have_count(2)
    page.get_by_role("button", name="Clear earlier trainings").click()
    expect(page.locator("#learning-curve polyline.earlier")).to_have_count(0)
    expect(page.get_by_role("button", name="Clear earlier trainings")).to_have_count(0)
    expect(page.locator("#past")).to_be_hidden()

    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("sent", [None, "", "nobody", ["a"], {"a": 1}, 7])
def test_whatever_a_browser_says_it_kept_the_page_opens(sent):
    assert all(part is retrain.UNCHANGED for part in retrain.restore(Jobs(), sent, None))


def test_one_address_cannot_take_all_places(app, tmp_path):
    """The proxy's word counts: these come from this machine, but say that they come from elsewhere."""
    headers = {"x-forwarded-for": "203.0.113.9"}
    visitors = [
        Client(app.url, verbose=False, analytics_enabled=False, headers=headers, download_files=tmp_path / str(i))
        for i in range(PER_ADDRESS + 1)
    ]
    jobs = []
    for visitor in visitors[:PER_ADDRESS]:
        jobs.append(visitor.submit("cartpole", *settings(steps=LONG), api_name="/train"))
        assert wait_until(lambda: jobs[-1].outputs(), 60)
    with pytest.raises(AppError, match="2 trainings from your address are running or waiting"):
        visitors[-1].predict("cartpole", *settings(steps=1_000), api_name="/train")
    with pytest.raises(AppError, match="This page is training already"):
        visitors[0].predict("cartpole", *settings(steps=1_000), api_name="/train")
    for visitor in visitors:
        visitor.predict(api_name="/stop")
    assert wait_until(lambda: not app.workers(), 60)
    for visitor in visitors:
        visitor.close()


@pytest.mark.parametrize("endpoint", ["train", "stop", "compare"])
def test_garbage_sent_to_an_endpoint_starts_nothing_and_shows_no_stack_trace(app, endpoint):
    for data in ([], [{"a": [None]}] * 11, ["../../etc/passwd"] * 40):
        post = httpx.post(f"{app.url}gradio_api/call/{endpoint}", json={"data": data}, timeout=30)
        event = post.json().get("event_id", "none")
        answer = httpx.get(f"{app.url}gradio_api/call/{endpoint}/{event}", timeout=30).text
        assert "Traceback" not in post.text + answer
    assert not app.workers()


def test_nobody_trains_past_the_queue(app):
    """A call that skips it takes a place in line which nobody would give back."""
    data = {"data": ["cartpole", *settings(steps=LONG)]}
    assert httpx.post(f"{app.url}gradio_api/run/train", json=data, timeout=30).status_code == 404
    assert not app.workers()
