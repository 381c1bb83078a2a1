"""The page in a real browser: what a visitor sees, clicks and takes home."""

import base64
import re
import zipfile
from contextlib import closing
from urllib.parse import urlsplit

import imageio.v3 as iio
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

import zoo
from a3c_core.checkpoint import load_agent
from playback.episode import play, render
from tests.browsing import leaving, needs_chromium, visit
from tests.processes import wait_until
from tests.serving import App
from tests.wire import wired
from training.recipes import RECIPES
from ui.retrain.jobs import SILENCE_SECONDS

pytestmark = needs_chromium

STOP_SECONDS = 3.0
"""A stop is promised within a second; the rest is for a busy machine."""

PICTURE = """
async (selector) => {
  const video = document.querySelector(selector);
  if (!video || !video.videoWidth) return null;
  const canvas = Object.assign(document.createElement("canvas"), { width: 60, height: 40 });
  canvas.getContext("2d").drawImage(video, 0, 0, 60, 40);
  return canvas.toDataURL();
}
"""
"""What a video shows at this moment, as pixels."""

PIXELS = """
(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let text = "";
  for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
  return [canvas.width, canvas.height, btoa(text)];
}
"""

STOP = """
() => {
  const at = document.activeElement;
  if (at === document.body) return "seen";  // the browser's own bar
  if (reached.has(at)) return "again";
  reached.add(at);
  const { top, bottom } = at.getBoundingClientRect();
  if (bottom <= 0 || top >= innerHeight) return `out of sight: ${at.outerHTML}`;
  const around = [at, at.closest("label"), at.closest(".picture")].filter(Boolean);
  const marked = around.some((each) => getComputedStyle(each).outlineStyle !== "none");
  return marked ? "seen" : `unmarked: ${at.outerHTML}`;
}
"""
"""Where the keyboard is: whether a visitor sees that."""

MISSED = """
() => [...document.querySelectorAll("a[href], button, input, textarea, select, summary, [role=button]")]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.closest("[aria-hidden=true]"))
  .filter((each) => !each.disabled && !reached.has(each))
  .map((each) => each.outerHTML)
"""
"""What can be pressed or filled in, and is not where the keyboard went."""


@pytest.fixture
def page(app: App, browser: Browser):
    with visit(browser, app, "?agent=cartpole") as opened:
        yield opened


def picture(page: Page, selector: str) -> str | None:
    return page.evaluate(PICTURE, selector)


def pixels(page: Page) -> np.ndarray:
    """What is on the player's canvas, uint8 [height, width, 3]."""
    width, height, data = page.locator(".player canvas").first.evaluate(PIXELS)
    return np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)[..., :3]


def shown(page: Page) -> str:
    """What is on the player's canvas, once there is something, as text that differs where the picture does."""
    page.locator(".player canvas[data-step]").first.wait_for()
    return page.locator(".player canvas").first.evaluate("canvas => canvas.toDataURL()")


def start_training(page: Page, **settings: int) -> None:
    page.get_by_role("tab", name="Retrain").click()
    for label, value in settings.items():
        page.get_by_label(label, exact=True).fill(str(value))
    page.get_by_role("button", name="Train", exact=True).click()


def points(page: Page) -> int:
    return int(page.locator("#learning-curve .curve").get_attribute("data-points"))


def test_a_game_is_playing_before_anything_is_clicked(app, browser):
    with visit(browser, app) as page:
        expect(page).to_have_title("A3C Arcade")
        first = shown(page)
        assert wait_until(lambda: shown(page) != first, 30)
        expect(page.locator("#watch-player .shot")).to_have_attribute("data-game", "ALE/Breakout-v5")
        expect(page.locator("#watch-verdict")).to_contain_text("breakout scores")
        expect(page.locator(".choice")).to_have_count(4)


def test_the_first_game_is_part_of_the_page(app, browser):
    """Whatever the server has to do for others, a visitor waits for none of gradio's answers."""
    with closing(browser.new_page()) as page:
        held = []
        page.route("**/gradio_api/run/**", lambda route: held.append(route))
        page.route("**/gradio_api/queue/**", lambda route: held.append(route))
        page.goto(app.url)
        assert shown(page)
        expect(page.locator("#watch-verdict")).to_contain_text("breakout scores")
        assert [each.request.url for each in held if "/queue/" in each.request.url] == []
        for each in held:
            each.abort()


def test_the_canvas_shows_the_game(page):
    """Step by step, and pixel by pixel: what the page draws is what the game is."""
    shown(page)
    page.get_by_role("button", name="Play or pause").click()
    page.locator(".seek").evaluate("bar => { bar.value = 0; bar.dispatchEvent(new Event('input')); }")
    agent = zoo.load("cartpole")
    drawn = list(render(agent, play(agent, 0, max_steps=3)).pictures)
    for step, picture in enumerate(drawn[1:]):
        expect(page.locator(".player canvas").first).to_have_attribute("data-step", str(step))
        if step:
            assert wait_until(lambda want=picture: np.abs(pixels(page).astype(int) - want).max() < 4, 10)
        page.get_by_role("button", name="One step forward").click()


def test_the_player_pauses_steps_seeks_and_changes_its_speed(page):
    shown(page)
    canvas = page.locator(".player canvas").first
    canvas.press(" ")
    expect(page.locator(".player")).to_have_attribute("data-state", "paused")
    page.wait_for_timeout(300)
    before = shown(page)
    page.wait_for_timeout(300)
    assert shown(page) == before
    step = int(canvas.get_attribute("data-step"))
    canvas.press(".")
    expect(canvas).to_have_attribute("data-step", str(step + 1))
    canvas.press("Home")
    expect(canvas).to_have_attribute("data-step", "0")
    page.get_by_role("button", name="Speed").click()
    expect(page.get_by_role("button", name="Speed 2×")).to_have_text("2×")
    canvas.press("End")
    assert wait_until(lambda: int(canvas.get_attribute("data-step")) >= max(step, 1), 10)


@pytest.mark.parametrize(
    ("window", "ratio", "query", "pixel"),
    [
        ((1920, 960), 1, "agent=pong", (5, 3)),
        ((844, 390), 3, "agent=pong", (7, 4)),
        ((1920, 960), 1, "play=pong", (5, 3)),
    ],
)
def test_each_pixel_of_a_console_is_a_whole_number_of_the_screens(app, browser, window, ratio, query, pixel):
    size = {"width": window[0], "height": window[1]}
    whole = [round(160 * pixel[0] / ratio, 1), round(210 * pixel[1] / ratio, 1)]
    with closing(browser.new_page(viewport=size, device_scale_factor=ratio)) as page:
        page.goto(f"{app.url}?{query}")
        canvas = page.locator("#play-screen canvas" if "play" in query else ".player .picture canvas").first
        expect(canvas).to_be_visible()
        assert wait_until(lambda: size_of(canvas) == whole, 30), size_of(canvas)


@pytest.mark.parametrize(
    ("window", "agent", "shape"),
    [((1280, 900), "cartpole", 3 / 2), ((390, 844), "pong", 4 / 3), ((844, 390), "cartpole", 3 / 2)],
)
def test_a_game_has_its_true_shape_and_fits_into_the_window(app, browser, window, agent, shape):
    with closing(browser.new_page(viewport={"width": window[0], "height": window[1]})) as page:
        page.goto(f"{app.url}?agent={agent}")
        shown(page)
        canvas = page.locator(".player .picture canvas").first
        assert wait_until(lambda: size_of(canvas)[0] / size_of(canvas)[1] == pytest.approx(shape, rel=0.01), 30)
        assert size_of(canvas)[1] <= 0.73 * window[1]


def size_of(canvas: Locator) -> list[float]:
    """Width and height on the page, in CSS pixels."""
    box = canvas.bounding_box()
    return [round(box["width"], 1), round(box["height"], 1)]


def test_the_playhead_of_the_curves_follows_a_click_on_them(page):
    shown(page)
    canvas = page.locator(".player canvas").first
    canvas.press(" ")
    assert wait_until(lambda: int(page.locator(".seek").get_attribute("max")) > 100, 30)
    page.locator(".curve.live canvas").first.click(position={"x": 3, "y": 20})
    assert wait_until(lambda: int(canvas.get_attribute("data-step")) < 20, 10)


def test_a_wait_for_pictures_is_explained(app, browser):
    with visit(browser, app) as page:
        held = []
        page.route("**/arcade/chunk?*n=2&*", lambda route: held.append(route))
        with leaving(page):
            page.goto(f"{app.url}?agent=cartpole&seed=5")
        status = page.locator("#watch-player .said")
        expect(status).to_have_text("Waiting for the next pictures.")
        for route in held:
            route.continue_()
        page.unroute("**/arcade/chunk?*n=2&*")
        expect(status).not_to_have_text("Waiting for the next pictures.")
        expect(page.locator(".player").first).to_have_attribute("data-state", "playing")


def test_nothing_is_played_for_a_tab_that_is_not_in_front(app, browser):
    with visit(browser, app) as page:
        asked, of_a_game = [], re.compile(r"/arcade/(chunk|recordings)")
        with leaving(page):
            page.goto(f"{app.url}?tab=how")
        expect(page.get_by_role("tab", name="How it works")).to_have_attribute("aria-selected", "true")
        page.wait_for_timeout(500)
        page.on("request", lambda request: asked.append(request.url) if of_a_game.search(request.url) else None)
        page.wait_for_timeout(1000)
        assert asked == []
        page.get_by_role("tab", name="Watch").click()
        shown(page)


def test_another_seed_shows_another_game_that_can_be_taken_home(page, tmp_path):
    shown(page)
    page.get_by_role("button", name="Another game").click()
    expect(page.locator(".player .name")).to_contain_text("seed 1")
    taken = {}
    for kind in ("MP4", "GIF"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind).click()
        taken[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(taken[kind])
        expect(page.locator(".player .said")).to_contain_text("in your downloads")
    assert taken["MP4"].name == "cartpole-seed-1.mp4"
    assert re.fullmatch(r"cartpole-seed-1-step-\d+\.gif", taken["GIF"].name)
    drawn = list(render(zoo.load("cartpole"), play(zoo.load("cartpole"), 1)).pictures)
    kept = iio.imread(taken["MP4"], plugin="FFMPEG")
    assert len(kept) == len(drawn)
    assert np.abs(kept[40].astype(int) - drawn[40]).mean() < 2
    moving, begin = iio.imread(taken["GIF"]), int(taken["GIF"].stem.split("-")[-1])
    assert np.abs(moving[0].astype(int) - drawn[begin]).mean() < 2


def test_why_a_file_is_not_made_is_told_for_longer_than_a_chunk_takes(app, browser):
    with closing(browser.new_page()) as page:  # to the browser's console any refusal is an error
        page.goto(app.url + "?agent=pong&seed=6")
        shown(page)
        refused = {"status": 503, "json": {"error": "Many videos are being made right now."}}
        page.route("**/arcade/gif*", lambda route: route.fulfill(**refused))
        page.get_by_role("button", name="GIF").click()
        expect(page.locator(".player .said")).to_have_text("Many videos are being made right now.")
        with page.expect_response("**/arcade/chunk?*"):
            pass
        page.wait_for_timeout(500)
        expect(page.locator(".player .said")).to_have_text("Many videos are being made right now.", timeout=1)


def test_how_a_game_ends_is_told_at_its_end(page):
    shown(page)
    canvas = page.locator(".player canvas").first
    canvas.press(" ")
    expect(page.locator(".player .time")).not_to_contain_text("…")  # all of it is here
    expect(page.locator(".player .said")).to_have_text("")
    canvas.press("End")
    expect(page.locator(".player .said")).to_have_text("The game ended after 500 steps with a return of 500.")


def test_choosing_another_agent_shows_its_game(page):
    shown(page)
    page.get_by_label("pendulum").first.click()
    expect(page.locator("#watch-player .shot")).to_have_attribute("data-game", "Pendulum-v1")
    expect(page.locator(".choice")).to_have_count(1)


def test_a_link_opens_the_same_moment(app, browser):
    with visit(browser, app, "?agent=pong&seed=7&snapshot=25&protocol=sticky&at=60") as page:
        canvas = page.locator(".player canvas").first
        assert wait_until(lambda: int(canvas.get_attribute("data-step") or 0) >= 60, 60)
        expect(page.locator(".player .name")).to_contain_text("pong, greedy actions, seed 7, at 25 % of training")
        page.get_by_role("button", name="Copy a link").click()
        assert wait_until(lambda: "agent=pong&seed=7&snapshot=25" in page.url, 10)


def test_the_address_follows_and_leads_back(app, browser):
    """Through moments, agents, tabs, and the settings of a training."""
    with visit(browser, app, "?agent=cartpole&seed=3") as page:
        canvas = page.locator(".player canvas").first
        shown(page)
        page.get_by_role("button", name="Speed").click()
        expect(page).to_have_url(re.compile(r"agent=cartpole&seed=3&.*&at=\d+&speed=2$"))
        page.get_by_label("pendulum").first.click()
        expect(page).to_have_url(re.compile("agent=pendulum&seed=3"))
        page.get_by_role("tab", name="Retrain").click()
        page.get_by_label("Learning rate", exact=True).fill("0.02")
        expect(page).to_have_url(f"{app.url}?tab=retrain&game=cartpole&learning_rate=0.02")
        page.get_by_role("tab", name="Zoo").click()
        expect(page).to_have_url(f"{app.url}?zoo=")  # its script is there: until then a link of it opens another page
        page.locator("a[data-zoo=pong]").first.click()
        expect(page).to_have_url(f"{app.url}?zoo=pong")
        page.go_back()
        expect(page.locator(".zoo .cards")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("tab", name="Retrain")).to_have_attribute("aria-selected", "true")
        page.go_back()
        expect(page.get_by_role("tab", name="Watch")).to_have_attribute("aria-selected", "true")
        page.go_back()
        expect(page.locator(".player .name").first).to_contain_text("cartpole, greedy actions, seed 3")
        assert wait_until(lambda: int(canvas.get_attribute("data-step")) > 0, 20)
        page.go_forward()
        expect(page.locator(".player .name").first).to_contain_text("pendulum, greedy actions, seed 3")
    with visit(browser, app, "?tab=retrain&game=pendulum&learning_rate=0.02") as page:
        expect(page.get_by_label("Learning rate", exact=True)).to_have_value("0.02")
        expect(page.locator("#learning-curve .curve")).to_have_attribute("data-game", "Pendulum-v1")


def test_a_link_that_names_no_game_is_explained(app, browser):
    with visit(browser, app, "?agent=nobody&seed=<b>") as page:
        expect(page.get_by_text("Choose an agent")).to_be_visible()
        shown(page)


def test_a_bad_seed_is_explained(page):
    shown(page)
    page.get_by_label("Seed", exact=True).first.fill("-3")
    page.get_by_label("Seed", exact=True).first.press("Enter")
    expect(page.get_by_text("The seed must be a whole number")).to_be_visible()


def test_training_from_the_first_click_to_the_checkpoint_at_home(app, page, tmp_path):
    start_training(page, Steps=5_000_000)
    status = page.locator("#train-status")
    expect(status).to_contain_text("Training CartPole")
    assert wait_until(lambda: points(page) >= 2, 30)
    early = points(page)
    assert wait_until(lambda: points(page) >= early + 3, 30)
    assert app.workers()

    page.get_by_role("button", name="Stop", exact=True).click()
    assert wait_until(lambda: not app.workers(), STOP_SECONDS)
    expect(status).to_contain_text("Stopped early; what it had learnt is kept.")

    videos = page.locator("#before-after video")
    expect(videos).to_have_count(2)
    expect(page.locator("#before-after .name").first).to_have_text("Untrained")
    expect(status).to_contain_text("Both games below start from seed 0.")
    assert wait_until(lambda: picture(page, "#before-after .shot:last-child video"), 30)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the checkpoint").click()
    download.value.save_as(tmp_path / "checkpoint.zip")
    zipfile.ZipFile(tmp_path / "checkpoint.zip").extractall(tmp_path)
    assert load_agent(tmp_path).steps > 0

    page.get_by_role("button", name="Another game").click()
    expect(status).to_contain_text("Both games below start from seed 1.")
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_enabled()


def test_closing_the_tab_ends_its_training(app, page):
    start_training(page, Steps=5_000_000)
    assert wait_until(app.workers, 30)
    page.close()
    assert wait_until(lambda: not app.workers(), STOP_SECONDS)


def test_a_training_whose_page_is_lost_frees_its_processes_and_goes_on_when_the_page_is_back(app, browser):
    with wired(urlsplit(app.url).port) as wire:
        url = f"http://127.0.0.1:{wire.port}/"
        with visit(browser, app._replace(url=url), "?agent=cartpole") as page:
            start_training(page, Steps=5_000_000)
            assert wait_until(lambda: points(page) >= 4, 30)
            wire.cut()
            assert wait_until(lambda: not app.workers(), SILENCE_SECONDS + STOP_SECONDS)
            wire.mend()
            assert wait_until(app.workers, 30)
            reached = points(page)
            assert wait_until(lambda: points(page) >= reached + 3, 30)
            page.get_by_role("button", name="Stop", exact=True).click()
            expect(page.locator("#train-status")).to_contain_text("Stopped early; what it had learnt is kept.")


def test_another_game_brings_its_own_settings(page):
    page.get_by_role("tab", name="Retrain").click()
    page.get_by_label("Pendulum", exact=True).click()
    expect(page.get_by_label("Steps", exact=True)).to_have_value(str(RECIPES["pendulum"].steps))
    expect(page.locator("#learning-curve .curve")).to_have_attribute("data-game", "Pendulum-v1")


@pytest.mark.parametrize("tab", ["Watch", "Retrain"])
def test_on_a_phone_nothing_sticks_out(page, tab):
    page.set_viewport_size({"width": 390, "height": 844})
    shown(page)
    page.get_by_role("tab", name=tab).click()
    page.get_by_role("button", name={"Watch": "Another game", "Retrain": "Train"}[tab], exact=True).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("theme", ["light", "dark", "forced"])
def test_everybody_can_use_each_tab(app, browser, theme):
    """By axe's rules: contrast, names for all that can be pressed, roles, headings, what screen readers need."""
    forced = theme == "forced"
    with visit(browser, app, f"?agent=cartpole&__theme={'light' if forced else theme}") as page:
        page.emulate_media(forced_colors="active" if forced else "none")
        shown(page)
        for tab in page.get_by_role("tab").all():
            tab.click()
            tab.and_(page.locator("[aria-selected=true]")).wait_for()
            if tab.inner_text() == "How it works":
                page.locator(".lesson section").first.wait_for()
            page.evaluate("document.querySelectorAll('.more > button:not(.open)').forEach((each) => each.click())")
            expect(page.locator(".more > button:not(.open):visible")).to_have_count(0)
            # axe reads the colours that the system has replaced
            found = Axe().run(page, options={"rules": {"color-contrast": {"enabled": not forced}}})
            contrasts = [
                node for rule in found.response["passes"] if rule["id"] == "color-contrast" for node in rule["nodes"]
            ]
            assert forced or len(contrasts) > 15, tab.inner_text()
            assert not found.violations_count, f"{tab.inner_text()}: {found.generate_report()}"


def test_the_keyboard_reaches_everything_and_shows_where_it_is(page):
    shown(page)
    for tab in page.get_by_role("tab").all():
        tab.click()
        tab.and_(page.locator("[aria-selected=true]")).wait_for()
        page.evaluate("window.reached = new Set()")
        stops = []
        while len(stops) < 200 and (not stops or stops[-1] != "again"):
            page.keyboard.press("Tab")
            stops.append(page.evaluate(STOP))
        assert [stop for stop in stops if stop not in ("seen", "again")] == [], tab.inner_text()
        assert stops[-1] == "again", f"the keyboard does not come round: {tab.inner_text()}"
        assert page.evaluate(MISSED) == [], tab.inner_text()


def test_the_app_asked_no_other_machine(app):
    assert app.asked.read_text() == ""
