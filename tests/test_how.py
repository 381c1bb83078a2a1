"""How it works: that its code and its figures are what they are said to be, and that it can be read in a browser."""

import dataclasses
import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from torch import multiprocessing as mp

import zoo
from a3c_core.checkpoint import MODEL
from a3c_core.envs import spaces_of
from a3c_core.model import build_model
from a3c_core.shared import SharedParameters
from a3c_core.worker import work
from tests.browsing import leaving, needs_chromium, visit
from tests.processes import wait_until
from tests.serving import text_of
from training.recipes import RECIPES
from ui import how
from ui.how import evidence
from ui.how.code import PIECES, ROOT, Piece, lines_of, shown
from ui.how.records import records
from ui.how.trace import Clocked

REPLAYED = 140
"""Steps of the recorded game that are played again; the first point is lost within them."""


# The code


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_of_code_stands_in_the_file_where_the_page_says(name):
    lines, _ = lines_of(PIECES[name])
    file, number = re.search(r"<figcaption>(\S+), line (\d+)<", shown(name)).groups()
    assert file.startswith("a3c_core/")
    there = (ROOT / file).read_text().splitlines()[int(number) - 1 :][: len(lines)]
    assert [line.strip() for line in there] == [line.strip() for line in lines]


def test_a_piece_that_is_gone_is_noticed():
    with pytest.raises(LookupError, match="work has no line that begins with 'borrow = '"):
        lines_of(Piece(work, "borrow = "))


def test_the_text_shows_every_piece_figure_and_number():
    named = set(re.findall(r"\$(\w+)", "".join(how.chapters())))
    assert named == {f"code_{name}" for name in PIECES} | evidence.FIGURES.keys() | evidence.numbers().keys()


def test_the_whole_loop_of_a_worker_is_on_the_page():
    """All that `work` does between its first line and the last of its loop, but for the check of the gradient."""
    pieces = [line for name in PIECES if name.startswith("work_") for line in lines_of(PIECES[name])[0]]
    body = lines_of(Piece(work, "envs = ", "report("))[0]
    left_out = [line.strip() for line in body if line not in pieces and line.strip()]
    assert [line.split("(")[0] for line in left_out] == ["if not math.isfinite", "raise FloatingPointError"]


# The figures


def test_the_recorded_game_is_one_of_the_zoos_agent():
    """Its actions earn in the emulator what was recorded, and the agent still expects what it expected."""
    game = records().young
    entry = zoo.entries()[game.agent]
    remedy = "run python -m ui.how.record: the zoo has another agent now"
    assert entry.sha256[f"snapshots/{game.snapshot}/{MODEL}"] == game.sha256, remedy
    assert entry.sha256[MODEL] == records().trained.sha256, remedy
    agent, env = entry.open(game.snapshot), entry.open(game.snapshot).make_env()
    obs, _ = env.reset(seed=game.seed)
    values, rewards = [], []
    for action in game.actions[:REPLAYED]:
        values.append(agent.policy_and_value(np.asarray(obs)[None])[1][0])
        obs, reward, *_ = env.step(action)
        rewards.append(reward)
    env.close()
    assert rewards == game.rewards[:REPLAYED]
    assert any(rewards)
    np.testing.assert_allclose(values, game.values[:REPLAYED], atol=0.02)


def test_the_tables_hold_the_advantages_of_the_recorded_game():
    game, recipe = records().young, zoo.entries()["pong"].recipe
    step = evidence.lost_points()[1]
    wanted = 0.0
    for t in reversed(range(step, len(game.values) - 1)):
        delta = game.rewards[t] + recipe.gamma * game.values[t + 1] - game.values[t]
        wanted = delta + recipe.gamma * recipe.gae_lambda * wanted
    (row,) = re.findall(r"<tr class=marked>.*?</tr>", evidence.unforeseen())
    assert text_of(row).split() == [str(step), "−1", *map(evidence.signed, (game.values[step], delta, wanted))]


def test_what_the_text_says_of_the_records_holds():
    game = records().young
    foreseen, unforeseen = evidence.lost_points()
    assert game.values[foreseen] < game.values[unforeseen] - 0.5
    good, bad = records().trainings
    assert max(good.returns) > 450
    assert good.entropy[-1] > 0.1
    assert max(bad.returns) > 3 * bad.returns[-1]
    assert bad.entropy[-1] < 0.05
    assert [name for name in RECIPES if not RECIPES[name].normalize_advantages] == ["pong"]


def test_the_trace_is_one_of_two_workers_that_do_not_wait():
    trace = records().trace
    assert [update.before for update in trace] == list(range(trace[0].before, trace[0].before + len(trace)))
    assert {update.staleness for update in trace} >= {0, 1, 2}
    for update in trace:
        times = update[1:6]
        assert list(times) == sorted(times)
    for rank in (0, 1):
        mine = [update for update in trace if update.rank == rank]
        assert all(a.done <= b.pull for a, b in pairwise(mine))


def test_a_trace_is_what_a_worker_did():
    recipe = dataclasses.replace(RECIPES["cartpole"], workers=1, steps=2_000)
    spaces = spaces_of(recipe)
    clocked, reports = Clocked(SharedParameters(recipe, build_model(recipe, spaces), mp.get_context("spawn"))), []
    torch.manual_seed(0)
    work(0, recipe, spaces, clocked, reports.append, clocked.make)
    assert len(clocked.updates) == len(reports) > 4
    assert [update.staleness for update in clocked.updates] == [report.staleness for report in reports]
    for update in clocked.updates:
        assert update.pull <= update.play < update.learn < update.push <= update.done


# The page


@pytest.fixture
def page(app, browser):
    with visit(browser, app, "?tab=how") as opened:
        opened.locator(".lesson section").first.wait_for()
        yield opened


def moment(page: Page) -> float:
    return float(page.get_by_label("Moment of the trace").input_value())


@needs_chromium
def test_a_link_opens_the_page_and_its_chapters(page):
    expect(page.get_by_role("tab", name="How it works")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".lesson section")).to_have_count(len(how.chapters()) - 1)
    expect(page.locator(".lesson figure.code")).to_have_count(len(PIECES))
    page.get_by_role("navigation", name="Chapters").get_by_role("link", name="Workers that do not wait").click()
    expect(page.get_by_role("heading", name="Workers that do not wait")).to_be_in_viewport()
    expect(page).to_have_url(re.compile(r"\?tab=how#asynchrony$"))  # once the server has answered
    with leaving(page):
        page.reload()
    expect(page.get_by_role("heading", name="Workers that do not wait")).to_be_in_viewport()
    page.locator('.lesson a[href="?tab=retrain"]').click()
    expect(page.get_by_role("tab", name="Retrain")).to_have_attribute("aria-selected", "true")


@needs_chromium
def test_the_timeline_plays_and_obeys_the_keyboard(page):
    page.locator(".timeline").scroll_into_view_if_needed()
    assert wait_until(lambda: moment(page) > 0, 30)
    page.get_by_role("button", name="Pause the timeline").press("Enter")
    expect(page.locator(".timeline")).to_have_attribute("data-state", "paused")
    bar = page.get_by_label("Moment of the trace")
    bar.press("End")
    last = records().trace[-1]
    expect(page.locator(".timeline .said")).to_contain_text(f"made version {last.before + 1}")
    expect(page.locator(".timeline .said")).to_contain_text(f"staleness {last.staleness}")
    bar.press("Home")
    assert moment(page) == 0


@needs_chromium
def test_the_page_stands_still_and_fits_on_a_phone_that_asks_for_it(page):
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 390, "height": 844})
    with leaving(page):
        page.reload()
    page.locator(".lesson section").first.wait_for()
    page.locator(".timeline").scroll_into_view_if_needed()
    expect(page.get_by_role("button", name="Play the timeline")).to_be_visible()
    assert moment(page) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@needs_chromium
def test_an_address_that_names_no_tab_opens_the_first(app, browser):
    with visit(browser, app, "?tab=%3Cscript%3E&agent=cartpole") as page:
        expect(page.get_by_role("tab", name="Watch")).to_have_attribute("aria-selected", "true")
        page.locator(".player canvas[data-step]").first.wait_for()
