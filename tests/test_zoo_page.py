"""The Zoo tab: what is said of each agent, and the tab in a real browser."""

import io
import json
import re
import zipfile
from dataclasses import replace

import gradio as gr
import httpx
import imageio.v3 as iio
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import zoo
from a3c_core.checkpoint import MODEL, load_agent
from a3c_core.recipe import Recipe, meaning
from tests.browsing import leaving, needs_chromium, visit
from tests.processes import wait_until
from tests.serving import App, text_of
from ui.games import GAMES
from ui.zoo_tab import tab as zoo_page
from ui.zoo_tab import thumbnails
from ui.zoo_tab.figures import Mark, histogram, scale
from ui.zoo_tab.page import agent_page
from ui.zoo_tab.thumbnails import drawn, file_of, thumbnail_of
from zoo.card import description, model_card
from zoo.peers import Peer, peers, peers_of

# What is said, without a server


def test_every_published_score_names_its_source_and_how_it_was_taken():
    for peer in peers():
        assert peer.env in GAMES
        assert peer.source.url.startswith("https://")
        assert peer.source.protocol


def test_a_mean_lies_within_its_interval_as_often_as_it_says():
    chance = np.random.default_rng(0)
    score = zoo.entries()["pendulum"].score
    hits = 0
    for _ in range(400):
        returns = tuple(chance.normal(3.0, 2.0, 100).tolist())
        low, high = type(score)(**vars(score) | {"returns": returns}).interval
        hits += low < 3.0 < high
    assert 0.91 < hits / 400 < 0.98


def test_where_others_are_better_the_page_says_so():
    entry = zoo.entries()["breakout"]
    better = Peer("ALE/Breakout-v5", "other", entry.score.mean + 50, peers()[0].source)
    assert zoo_page.standing(entry, (better, better)) == "Both published agents score higher."
    equal = better._replace(score=entry.score.mean)
    assert zoo_page.standing(entry, (better, equal)) == "Of 2 published agents 1 scores higher, 1 scores the same."
    assert "no other agent" in zoo_page.standing(entry, (better._replace(kind="human"),))


@pytest.mark.parametrize(
    "entry", [pytest.param(e, id=e.name) for e in zoo.entries().values() if e.name in ("pong", "pong_lstm")]
)
def test_a_score_whose_games_repeat_says_so_wherever_it_is_shown(entry):
    games, distinct = len(entry.score.returns), entry.score.distinct
    assert distinct < games
    words = f"{distinct} of them distinct"
    assert words in description(entry)
    assert words in agent_page(entry)
    assert f"| {games} | {distinct} |" in model_card(entry, "tester/agent")
    assert entry.limits


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.name) for e in zoo.entries().values() if e.whole.schedule])
def test_the_hours_of_an_agent_that_was_chosen_among_branches_say_what_they_leave_out(entry):
    for text in (description(entry), agent_page(entry), model_card(entry, "tester/agent")):
        assert "on the branch that was kept, without abandoned branches" in text


def test_a_far_score_does_not_press_the_others_into_a_corner():
    marks = [Mark("a", 0, 0, "0", "peer"), Mark("b", 100, 100, "100", "ours"), Mark("c", 5e3, 9e4, "far", "range")]
    drawn = scale(marks, "scores")
    assert "left:100.00%" in drawn
    assert drawn.index("far</span>") < drawn.index("100</span>") < drawn.index("0</span></li></ul>")
    assert "→" in drawn


@pytest.mark.parametrize(
    ("returns", "heights"),
    [
        ([500.0] * 9, ["100.0"]),
        ([20.0, 21.0, 21.0, 23.0], ["50.0", "100.0", "0.0", "50.0"]),
        ([-0.5, -1.8, -1.95, -1.97], ["100.0", "0.0", "50.0", *["0.0"] * 12, "50.0"]),
    ],
)
def test_a_histogram_holds_all_returns(returns, heights):
    assert re.findall(r"height:([\d.]+)%", histogram(returns, "Returns")) == heights


def test_every_field_of_a_recipe_is_explained():
    page = text_of(zoo_page.view_of("cartpole"))
    for field in Recipe.__dataclass_fields__:
        assert len(meaning(field)) > 10
        assert field in page


def test_what_an_agent_does_badly_stands_on_its_page_as_text(beginner):
    entry = replace(beginner, limits="It <b>never</b> rests.")
    assert "<p>It &lt;b&gt;never&lt;/b&gt; rests.</p>" in agent_page(entry)


@pytest.mark.parametrize("asked", [None, 7, float("nan"), [], {}, "nobody", "<img src=x>", "../pong", "x" * 100_000])
def test_a_stranger_who_asks_for_another_agent_gets_a_sentence(asked):
    with pytest.raises(gr.Error) as refused:
        zoo_page.chosen(gr.EventData(None, {"name": asked}))
    assert len(refused.value.message) < 400
    assert "<" not in refused.value.message
    with pytest.raises(gr.Error):
        zoo_page.chosen(gr.EventData(None, asked))


# In a browser


@pytest.fixture
def page(app: App, browser: Browser):
    with visit(browser, app, "?zoo=cartpole") as opened:
        yield opened


@needs_chromium
def test_a_game_plays_while_it_is_pointed_at_and_not_before(page: Page):
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "chunk?agent=cartpole" in request.url else None)
    box = page.locator(".replay")
    assert wait_until(lambda: box.locator("img").evaluate("img => img.naturalWidth") == 600, 60)
    assert asked == []

    box.hover()
    expect(box).to_have_attribute("data-state", "playing")
    first = box.locator("canvas").evaluate("canvas => canvas.toDataURL()")
    assert wait_until(lambda: box.locator("canvas").evaluate("canvas => canvas.toDataURL()") != first, 30)
    expect(box.locator("img")).to_be_hidden()
    page.locator("#zoo header h2").hover()
    expect(box.locator("canvas")).to_be_hidden()
    expect(box.locator("img")).to_be_visible()

    page.get_by_role("link", name="All agents").focus()
    page.keyboard.press("Tab")
    expect(box).to_have_attribute("data-state", "playing")
    page.keyboard.press("Enter")
    expect(box.locator("canvas")).to_be_hidden()


@needs_chromium
def test_who_wants_no_motion_sees_a_game_only_when_asking_for_it(page: Page):
    page.emulate_media(reduced_motion="reduce")
    with leaving(page):
        page.reload()
    box = page.locator(".replay")
    box.hover()
    page.wait_for_timeout(500)
    assert box.get_attribute("data-state") is None
    box.click()
    expect(box).to_have_attribute("data-state", "playing")
    box.click()
    expect(box.locator("canvas")).to_be_hidden()


@needs_chromium
def test_an_agent_has_a_page_with_an_address(app: App, page: Page):
    page.get_by_role("link", name="All agents").click()
    expect(page.locator(".cards .card")).to_have_count(len(zoo.entries()))
    page.locator(".cards a[data-zoo=pong]").click()
    expect(page.locator("#zoo header h2")).to_have_text("pong")
    expect(page.locator("#zoo header h2")).to_be_focused()
    expect(page).to_have_url(f"{app.url}?zoo=pong")
    for peer in peers_of("ALE/Pong-v5"):
        expect(page.locator(".scale")).to_contain_text(peer.player)
    expect(page.locator(".learning .curve")).to_have_count(4)
    expect(page.locator(".histogram")).to_have_count(2)
    page.go_back()
    expect(page.locator(".cards .card")).to_have_count(len(zoo.entries()))

    with leaving(page):
        page.goto(f"{app.url}?zoo=cartpole")
    expect(page.locator("#zoo header h2")).to_have_text("cartpole")
    page.get_by_text("Its recipe").click()
    expect(page.locator(".recipe tr")).to_have_count(len(Recipe.__dataclass_fields__))
    with page.expect_download() as download:
        page.get_by_role("link", name="Download all files").click()
    assert download.value.suggested_filename == "cartpole-a3c.zip"
    page.get_by_role("link", name="Watch it play").click()
    expect(page.locator(".player .name")).to_contain_text("cartpole")


@needs_chromium
def test_an_address_of_no_agent_is_explained(app: App, page: Page):
    with leaving(page):
        page.goto(f"{app.url}?zoo=<b>pnog")
    expect(page.get_by_text("No agent and no directory")).to_be_visible()
    expect(page.locator(".cards .card").first).to_be_visible()


@needs_chromium
def test_nothing_sticks_out(app: App, page: Page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_text("Its recipe").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="All agents").click()
    page.get_by_text("Sources of the published scores").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        too_wide = "points => points.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
        assert page.locator(".scale .points").evaluate_all(too_wide) == []


def test_a_checkpoint_goes_home_and_nothing_else_does(app: App, tmp_path):
    def get(**query: str) -> httpx.Response:
        return httpx.get(f"{app.url}arcade/checkpoint", params=query, timeout=60)

    zipfile.ZipFile(io.BytesIO(get(agent="cartpole").content)).extractall(tmp_path)
    assert load_agent(tmp_path).steps == zoo.entries()["cartpole"].score.steps
    assert get(agent="cartpole", file="recipe.json").json() == json.loads((tmp_path / "recipe.json").read_text())
    for query in ({}, {"agent": "../cartpole"}, {"agent": "cartpole", "file": "../../entries/cartpole.json"}):
        refused = get(**query)
        assert refused.status_code == 400
        assert refused.json()["error"].endswith(".")
    assert get(agent="cartpole").headers["etag"] == get(agent="cartpole").headers["etag"]  # it is packed once
    assert httpx.get(f"{app.url}arcade/thumbnail?agent=%00", timeout=60).status_code == 400
    assert httpx.get(f"{app.url}arcade/thumbnail?agent=pong", timeout=60).content.startswith(b"\x89PNG")


@pytest.mark.parametrize("entry", zoo.entries().values(), ids=lambda entry: entry.name)
def test_the_picture_that_ships_is_a_moment_of_the_agents_game(entry):
    assert file_of(entry).is_file(), "draw it with python -m ui.zoo_tab.draw_thumbnails"
    assert np.array_equal(iio.imread(file_of(entry)), iio.imread(drawn(entry.name, entry.sha256[MODEL])))


def test_an_agent_whose_weights_are_others_by_now_is_drawn_anew(monkeypatch, tmp_path):
    entry = zoo.entries()["pong"]
    shipped = thumbnail_of(entry)
    monkeypatch.setattr(thumbnails, "THUMBNAILS", tmp_path)
    assert np.array_equal(iio.imread(thumbnail_of(entry)), iio.imread(shipped))


def test_the_app_asked_no_other_machine(app: App):
    assert app.asked.read_text() == ""
