"""Watching more closely: what an agent looks at, games that a visitor disturbs, moving pictures to take home."""

import base64
import io
import threading
from itertools import islice

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import zoo
from a3c_core.agent import Agent
from a3c_core.model import DiscretePolicy
from a3c_core.recipe import Recipe
from playback.episode import play, playback_steps, render
from playback.perturbation import HELD_STEPS, WALKER_PUSH, WALKER_SIGHT, Perturbation
from playback.saliency import saliency
from tests import toy
from tests.browsing import needs_chromium, visit
from tests.processes import wait_until
from ui.admission import Admission
from ui.streaming import saliency as saliency_maps
from ui.streaming import stream
from ui.streaming.chunks import header_of
from ui.streaming.files import mp4_of
from ui.streaming.nudges import nudges_of, written
from ui.streaming.routes import routes, spec_of
from ui.streaming.saliency import maps_from, sight_of
from ui.streaming.scheduler import Scheduler
from ui.streaming.stream import Broadcast, BrokenOff
from ui.watch.player import showing
from ui.watch.prefetch import Prefetch

PENDULUM = Agent.untrained(Recipe(env="Pendulum-v1", head_layers=(8,)))
WALKER = Agent.untrained(Recipe(env="BipedalWalker-v3"))
PONG = Agent.untrained(Recipe(env="ALE/Pong-v5", encoder="a3c", core="lstm", core_size=8, head_layers=()))
with torch.no_grad():
    PONG.model.policy.logits[-1].weight.mul_(1000.0)  # fresh policies hardly care what they see


@pytest.fixture(scope="module")
def client(arcade):
    """Who watches in the arcade of these tests."""
    return TestClient(Starlette(routes=routes(arcade.broadcasts, arcade.looks, arcade.files)))


class Corners(torch.nn.Module):
    """A policy that depends on the mean of a picture's upper left part alone, and a value on its lower right."""

    def forward(self, obs, reset, memory):
        upper, lower = (part.mean((-1, -2, -3)) for part in (obs[..., :21, :21], obs[..., -21:, -21:]))
        return DiscretePolicy(torch.stack([upper, -upper], -1)), lower, memory


def test_what_choice_and_value_depend_on_is_found_and_what_they_ignore_is_dark():
    noise = torch.randint(256, (4, 84, 84), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    choice, value = saliency(Corners(), noise, ())
    assert choice.shape == value.shape == (12, 12)
    assert divmod(int(choice.argmax()), 12) <= (3, 3)
    assert divmod(int(value.argmax()), 12) >= (8, 8)
    assert choice[:4, :4].sum() > 0.99 * choice.sum()
    assert value[8:, 8:].sum() > 0.99 * value.sum()
    assert max(choice[6:, 6:].max(), value[:6, :6].max()) < 1e-9


def test_where_a_picture_is_even_there_is_nothing_to_look_at():
    found = saliency(Corners(), torch.full((4, 84, 84), 90, dtype=torch.uint8), ())
    assert max(each.max() for each in found) < 1e-6


def test_a_kept_step_is_looked_at_as_it_was_when_it_was_played():
    """With a memory, too, which is kept for a chunk's first step only."""
    played = list(islice(playback_steps(PONG, 3), 6))
    kept = list(maps_from(PONG, sight_of(played[1:]), 2))
    assert len(kept) == 3
    last = played[-1]
    fresh, forgetful = (
        saliency(PONG.model, torch.from_numpy(last.obs), memory) for memory in (last.memory, played[1].memory)
    )
    assert fresh.policy.max() > 1e-4
    assert not torch.allclose(fresh.policy, forgetful.policy, rtol=0.01)
    for mine, theirs in zip(maps_in(kept[-1]), fresh, strict=True):
        np.testing.assert_allclose(mine, (255 * theirs / theirs.max()).numpy(), atol=1)


def maps_in(packed: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), np.uint8).reshape(2, 12, 12).astype(int)


PUSHED = (Perturbation(20, "left"), Perturbation(40, "right"))


@pytest.mark.parametrize("agent", [toy.balancer(), PENDULUM, WALKER], ids=["cartpole", "pendulum", "walker"])
def test_a_nudged_game_repeats_and_is_the_game_until_the_nudge(agent):
    plain, nudged, again = (play(agent, 3, perturbations=nudges, max_steps=60) for nudges in ((), PUSHED, PUSHED))
    for ours, theirs in zip(nudged, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(nudged.values[:20], plain.values[:20])
    assert nudged.values[20] != plain.values[20]  # which it sees at once


@pytest.mark.parametrize(("kind", "way"), [("left", -1.0), ("right", 1.0)])
def test_a_push_goes_where_it_says(kind, way):
    for agent, step in ((toy.balancer(), 5), (PENDULUM, 5)):
        before, after = (
            list(islice(playback_steps(agent, 3, perturbations=n), 6))[-1].obs
            for n in ((), (Perturbation(step, kind),))
        )
        swing = after[-1] - before[-1]
        above = 1.0 if agent is not PENDULUM else -np.sign(before[0])  # the rod's angle is counted the other way round
        assert np.sign(swing * above) == way


@pytest.mark.parametrize(("kind", "way"), [("left", -1.0), ("right", 1.0)])
def test_the_walker_sees_at_once_how_fast_a_push_made_it(kind, way):
    pushes = ((), (Perturbation(5, kind),))
    before, after, *_ = (
        np.stack([s.obs for s in islice(playback_steps(WALKER, 3, perturbations=p), 7)]) for p in pushes
    )
    assert after[5, 2] - before[5, 2] == pytest.approx(way * WALKER_SIGHT * WALKER_PUSH)
    assert after[6, 2] - before[6, 2] == pytest.approx(way * WALKER_SIGHT * WALKER_PUSH, rel=0.5)  # as the game sees it


def test_an_action_is_taken_in_the_agents_place_and_the_film_shows_it():
    plain, forced = (play(PONG, 3, perturbations=nudges, max_steps=30) for nudges in ((), (Perturbation(10, "3"),)))
    assert forced.actions[10 : 10 + HELD_STEPS].tolist() == [3] * HELD_STEPS
    assert not np.array_equal(plain.actions[10 : 10 + HELD_STEPS], forced.actions[10 : 10 + HELD_STEPS])
    pictures = list(render(PONG, forced).pictures)
    streamed = islice(playback_steps(PONG, 3, perturbations=(Perturbation(10, "3"),), watched=True), 30)
    streamed = [picture for moment in streamed for picture in moment.pictures]
    np.testing.assert_array_equal(pictures, streamed)


def test_an_address_names_nudges():
    asked = {"agent": "cartpole", "nudges": "120.left-120.left-340.right"}
    assert spec_of(asked).nudges == (Perturbation(120, "left"), Perturbation(120, "left"), Perturbation(340, "right"))
    assert written(spec_of(asked).nudges) == asked["nudges"]


def test_beside_a_game_are_its_agents_other_ages_and_other_agents_of_the_game():
    offered = showing(spec_of({"agent": "pong", "snapshot": "25"}))["others"]
    ages = [{"snapshot": age} for age in zoo.entries()["pong"].snapshots if age != 25]
    assert offered == [*ages, *({"agent": other, "snapshot": 100} for other in ("pong_lstm", "pong_sticky"))]


@pytest.mark.parametrize(
    "text",
    [
        *("x", "1", "1.", ".left", "1.up", "-1.left", "1.left-", "27000.left", "9.left-1.left", "1e1.left", "٣.left"),
        *("9" * 5000 + ".left", "-".join(["1.left"] * 21), "-" * 100_000, "1.left" * 10_000, "nan.left", "1.0.left"),
    ],
    ids=lambda text: text[:12],
)
def test_nudges_that_cannot_be_are_refused_in_a_sentence(text):
    with pytest.raises(ValueError, match=r"[Nn]udge.*\.$"):
        nudges_of(text, Recipe(), 27_000)


@pytest.mark.parametrize(
    ("place", "asked", "status"),
    [
        ("saliency", {"agent": "nobody"}, 400),
        ("saliency", {"agent": "cartpole"}, 400),
        ("saliency", {"agent": "pong", "step": "900"}, 400),
        ("saliency", {"agent": "pong", "n": "-1"}, 400),
        ("gif", {"agent": "cartpole", "from": "nan"}, 400),
        ("gif", {"agent": "cartpole", "nudges": "<b>"}, 400),
        ("chunk", {"agent": "pong", "nudges": "5.left"}, 400),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(client, place, asked, status):
    answer = client.get(f"/arcade/{place}", params=asked)
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")


def test_where_the_line_for_a_look_is_full_one_more_is_refused(arcade, client, monkeypatch):
    asked = {"agent": "pong", "seed": "3", "n": "1", "step": "2"}
    monkeypatch.setattr(saliency_maps, "TURN_SECONDS", 60.0)  # however busy the machine is, both looks fit
    monkeypatch.setattr(arcade.looks, "line", Admission(at_once=1, waiting=0))
    with arcade.looks.line.turn():
        assert client.get("/arcade/saliency", params=asked).status_code == 503
    looks = client.get("/arcade/saliency", params=asked | {"most": "2"}).json()["looks"]
    first = header_of(arcade.broadcasts.get(spec_of({"agent": "pong", "seed": "3"})).chunks[1].chunk)["first"]
    assert sorted(map(int, looks)) == [first + 2, first + 3]
    assert all(maps_in(packed).max((1, 2)).tolist() == [255, 255] for packed in looks.values())


def test_what_was_seen_is_kept_to_the_last_pixel():
    played = list(islice(playback_steps(PONG, 3), 70))
    for part in (played[:8], played[60:]):
        np.testing.assert_array_equal(sight_of(part).unpacked(), np.stack([moment.obs for moment in part]))


def test_a_game_becomes_a_video_of_all_its_pictures(arcade, tmp_path):
    """While it is played; the colours are those that H.264 keeps."""
    broadcast = arcade.broadcasts.get(spec_of({"agent": "pendulum", "seed": "4"}))
    recording = mp4_of(broadcast, tmp_path / "game.mp4")
    episode = play(zoo.load("pendulum"), 4)
    drawn = list(render(zoo.load("pendulum"), episode).pictures)
    kept = iio.imread(tmp_path / "game.mp4", plugin="FFMPEG")
    assert kept.shape == (201, 500, 500, 3)
    for number in range(0, 201, 50):
        assert np.abs(kept[number].astype(int) - drawn[number]).mean() < 2
    assert (recording.env, recording.seed) == ("Pendulum-v1", 4)
    assert recording.total == pytest.approx(episode.total, abs=1e-3)
    np.testing.assert_allclose(recording.values, episode.values, atol=1e-3)


def test_a_game_that_breaks_off_becomes_no_video(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "AHEAD_SECONDS", 0.0)
    broadcast = Broadcast(spec_of({"agent": "pendulum", "seed": "5"}), zoo.load("pendulum"), Scheduler(places=1))
    broadcast.leave()
    with pytest.raises(BrokenOff):
        mp4_of(broadcast, tmp_path / "game.mp4")


def test_where_many_wait_for_videos_one_more_is_refused_in_a_sentence(arcade, client, monkeypatch):
    def make_video() -> None:
        assert client.get("/arcade/video", params={"agent": "pendulum", "seed": "1"}).status_code == 200

    monkeypatch.setattr(arcade.files, "line", Admission(at_once=1, waiting=1))
    with arcade.files.line.turn():
        waiting = [threading.Thread(target=make_video)]
        for thread in waiting:
            thread.start()
        wait_until(lambda: arcade.files.line.full, seconds=10)
        answer = client.get("/arcade/video", params={"agent": "cartpole", "seed": "77"})
        assert (answer.status_code, answer.json()["error"][-1]) == (503, ".")
    for thread in waiting:
        thread.join()


def test_a_game_becomes_a_moving_picture_in_its_colours_and_proportions(client):
    answer = client.get("/arcade/gif", params={"agent": "pendulum", "seed": "1", "from": "0"})
    assert answer.headers["content-type"] == "image/gif"
    moving = Image.open(io.BytesIO(answer.content))
    assert moving.size == (500, 500)
    assert b"pendulum, seed 1" in moving.info["comment"]
    seconds = 0
    for number in range(moving.n_frames):
        moving.seek(number)
        seconds += moving.info["duration"] / 1000
    assert seconds == pytest.approx(201 / 30, abs=0.2)
    moving.seek(0)
    drawn = next(iter(render(PENDULUM, play(PENDULUM, 1, max_steps=1)).pictures))
    assert np.abs(np.asarray(moving.convert("RGB")).astype(int) - drawn).max() < 4


def step_of(page: Page) -> int:
    return int(page.locator(".player canvas").first.get_attribute("data-step") or 0)


def paused_at(page: Page, step: int) -> None:
    """Opens nothing: waits until the game that a link opened has come to its step, and stops it there."""
    assert wait_until(lambda: step_of(page) >= step, 60)
    page.get_by_role("button", name="Play or pause").click()


@needs_chromium
def test_a_visitor_pushes_the_pole_and_takes_it_back(app, browser):
    with visit(browser, app, "?agent=cartpole&at=60") as page:
        paused_at(page, 60)
        step = step_of(page)
        push = page.get_by_role("button", name="Push left")
        push.press("Enter")
        expect(page.locator(".player .name")).to_contain_text("1 nudge")
        expect(push).to_be_focused()  # so that Enter pushes again
        assert wait_until(lambda: step_of(page) > step, 30)
        page.get_by_role("button", name="Copy a link").click()
        assert wait_until(lambda: f"nudges={step + 1}.left" in page.url, 10)
        page.get_by_role("button", name="Undo the last nudge").click()
        expect(page.locator(".player .name")).not_to_contain_text("nudge")
        assert wait_until(lambda: step_of(page) >= step, 30)


@needs_chromium
def test_a_link_opens_a_nudged_game(app, browser):
    with visit(browser, app, "?agent=cartpole&nudges=5.left-6.left-7.left") as page:
        expect(page.locator(".player .name")).to_contain_text("3 nudges")
        expect(page.locator(".player .said")).to_contain_text("The game ended after")  # three at once throw the pole


SEEN = """
() => new Promise((done) => {
  const [canvas, light] = document.querySelectorAll(".player .picture canvas");
  const seen = new Set();
  const look = () => {
    const shown = light.hidden ? "dark" : Number(light.dataset.step) - Number(canvas.dataset.step);
    seen.add(`${canvas.dataset.step} ${shown}`);
    if (seen.size > 60) done([...seen].map((each) => each.split(" ")));
    else requestAnimationFrame(look);
  };
  look();
})
"""
"""Of each picture while the game plays: its step, and how many steps away the light's is."""


@needs_chromium
def test_what_an_agent_looks_at_lies_on_the_picture_that_it_was_made_from(app, browser):
    with visit(browser, app, "?agent=pong&at=30") as page:
        light = page.locator(".player .light")
        page.get_by_role("button", name="looks at for its choice").click()
        page.locator(".player .light:not([hidden])").wait_for()
        seen = page.evaluate(SEEN)
        assert {away for _, away in seen} <= {"0", "1"}  # a step's last picture is what the next is chosen from
        assert len({step for step, _ in seen}) > 20
        page.get_by_role("button", name="Play or pause").click()
        stopped_at = step_of(page)
        page.get_by_role("button", name="One step forward").click()
        assert wait_until(lambda: step_of(page) > stopped_at, 30)
        assert wait_until(lambda: light.get_attribute("data-step") == str(step_of(page) + 1), 30)
        box, game = light.bounding_box(), page.locator(".player canvas").first.bounding_box()
        assert box == game
        choice = light.evaluate("light => light.toDataURL()")
        page.get_by_role("button", name="looks at for its value").click()
        expect(light).to_have_attribute("data-purpose", "value")
        assert light.evaluate("light => light.toDataURL()") != choice
        page.get_by_role("button", name="looks at for its value").click()
        expect(light).to_be_hidden()


@needs_chromium
def test_an_agent_that_sees_no_picture_has_no_light(app, browser):
    with visit(browser, app, "?agent=pendulum") as page:
        expect(page.get_by_role("button", name="Push left")).to_be_visible()
        expect(page.get_by_role("button", name="Show what it looks at for its choice")).to_be_hidden()
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_game_begins_while_its_page_is_loading(arcade):
    async def page(request):
        return PlainTextResponse("the page")

    pages, early = [Route("/", page), Route("/elsewhere", page)], Middleware(Prefetch, broadcasts=arcade.broadcasts)
    with TestClient(Starlette(routes=pages, middleware=[early])) as visitor:
        refused = ("/?agent=nobody", "/?agent=cartpole&seed=-1", "/")
        for address in (*refused, "/?tab=retrain&agent=cartpole&seed=90211", "/elsewhere?agent=cartpole&seed=90211"):
            assert visitor.get(address).text == "the page"
        assert visitor.get("/?agent=cartpole&seed=90210").text == "the page"
        spec = spec_of({"agent": "cartpole", "seed": "90210"})
        assert wait_until(lambda: arcade.broadcasts.found(spec), 30)
    assert arcade.broadcasts.found(spec._replace(seed=90211)) is None
