"""The page in a real browser: what a visitor sees, clicks and takes home."""

import shutil
import zipfile

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from a3c_core.checkpoint import load_agent
from tests.processes import wait_until
from tests.serving import App, serve
from training.recipes import RECIPES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install it (Debian: apt install chromium)")

PATIENCE = 60_000
"""Milliseconds that a busy machine may take."""
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


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("app")) as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield opened
        opened.close()


@pytest.fixture
def page(app: App, browser: Browser):
    """The page, just opened; nothing that happens on it may be an error or leave this machine."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened, wrong = context.new_page(), []
    opened.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: None if is_ours(request.url, app) else wrong.append(request.url))
    opened.goto(app.url)
    yield opened
    context.close()
    assert not wrong


def is_ours(url: str, app: App) -> bool:
    return url.startswith((app.url, "data:", "blob:"))


def picture(page: Page, selector: str) -> str | None:
    return page.evaluate(PICTURE, selector)


def start_training(page: Page, **settings: int) -> None:
    page.get_by_role("tab", name="Retrain").click()
    for label, value in settings.items():
        page.get_by_label(label, exact=True).fill(str(value))
    page.get_by_role("button", name="Train", exact=True).click()


def points(page: Page) -> int:
    return int(page.locator("#learning-curve .curve").get_attribute("data-points"))


def test_a_game_is_playing_before_anything_is_clicked(page):
    expect(page).to_have_title("A3C Arcade")
    page.wait_for_selector("#watch-screen video")
    assert wait_until(lambda: picture(page, "#watch-screen video"), 30)
    first = picture(page, "#watch-screen video")
    assert wait_until(lambda: picture(page, "#watch-screen video") != first, 30)
    expect(page.locator("#watch-curves .curve")).to_have_count(2)
    expect(page.locator("#watch-verdict")).to_contain_text("on average")


def test_the_playhead_follows_the_game(page):
    page.wait_for_selector("#watch-curves .playhead", state="attached")
    head = page.locator("#watch-curves .playhead").first
    seen = {head.get_attribute("x1")}
    assert wait_until(lambda: seen.add(head.get_attribute("x1")) or len(seen) > 3, 30)


def test_another_seed_shows_another_game_that_can_be_taken_home(page, tmp_path):
    video = page.locator("#watch-screen video")
    before = video.get_attribute("src")
    page.get_by_label("Seed", exact=True).first.fill("1")
    page.get_by_role("button", name="Watch", exact=True).click()
    expect(video).not_to_have_attribute("src", before)
    expect(page.locator("#watch-screen .name")).to_have_text("cartpole, seed 1")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the video").click()
    assert download.value.suggested_filename == "cartpole-seed-1.mp4"


def test_choosing_another_agent_shows_its_game(page):
    page.wait_for_selector("#watch-screen video")
    page.get_by_label("pendulum").first.click()
    expect(page.locator("#watch-screen .shot")).to_have_attribute("data-game", "Pendulum-v1")


def test_a_bad_seed_is_explained(page):
    page.wait_for_selector("#watch-screen video")
    page.get_by_label("Seed", exact=True).first.fill("-3")
    page.get_by_role("button", name="Watch", exact=True).click()
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
    assert wait_until(lambda: not app.workers(), 30)


def test_another_game_brings_its_own_settings(page):
    page.get_by_role("tab", name="Retrain").click()
    page.get_by_label("Pendulum", exact=True).click()
    expect(page.get_by_label("Steps", exact=True)).to_have_value(str(RECIPES["pendulum"].steps))
    expect(page.locator("#learning-curve .curve")).to_have_attribute("data-game", "Pendulum-v1")


@pytest.mark.parametrize("tab", ["Watch", "Retrain"])
def test_on_a_phone_nothing_sticks_out(page, tab):
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_selector("#watch-screen video")
    page.get_by_role("tab", name=tab).click()
    page.get_by_role("button", name={"Watch": "Watch", "Retrain": "Train"}[tab], exact=True).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_app_asked_no_other_machine(app):
    assert app.asked.read_text() == ""
