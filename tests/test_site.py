"""The static arcade in a real browser, from a plain file server, under a path of its own."""

import functools
import gzip
import json
import re
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
import yaml
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import zoo
from playback.episode import playback_steps
from tests.browsing import needs_chromium, visit
from tests.serving import App
from ui.site import record as recording
from ui.site.__main__ import main
from ui.site.build import build, described, weights_of
from ui.streaming.chunks import EpisodeSpec, chunks, header_of, pixels_of
from ui.streaming.nudges import nudges_of
from zoo.__main__ import main as command_line

ROOT = Path(__file__).parents[1]
PONG = EpisodeSpec("pong", 0)


@pytest.fixture(scope="module")
def static_site(tmp_path_factory):
    """A site of CartPole, and the first seconds of a game of Pong, at PLACE/deep/arcade."""
    place = tmp_path_factory.mktemp("site")
    out = place / "deep" / "arcade"
    build(out, agents=["cartpole"], app="https://arcade.example/", processes=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "MOST_SECONDS", 3.0)
        patch.setattr(recording, "LOOKED_AT_SECONDS", 1.0)
        game = recording.record(PONG, zoo.load("pong"), out / "games")
    index = json.loads((out / "index.json").read_text())
    index["games"].append(game._asdict())
    index["agents"].append(described(zoo.entries()["pong"], ["cartpole"]))
    (out / "index.json").write_text(json.dumps(index))
    return place


@pytest.fixture(scope="module")
def site(static_site):
    """What serves it: nothing but files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """The tests' own output is enough."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=static_site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield App(f"http://127.0.0.1:{server.server_port}/deep/arcade/", 0, 0.0, 0.0, static_site, static_site)
    server.shutdown()


def chunks_in(file: Path) -> list[bytes]:
    data, found = gzip.decompress(file.read_bytes()), []
    while data:
        length = int.from_bytes(data[:4], "little")
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    return found


def test_recorded_chunks_are_those_that_the_server_sends(static_site):
    out = static_site / "deep" / "arcade"
    game = next(game for game in json.loads((out / "index.json").read_text())["games"] if game["agent"] == "pong")
    kept = [chunk for file in game["files"] for chunk in chunks_in(out / "games" / file)]
    looks = 0
    for chunk, sent in zip(kept, chunks(PONG, zoo.load("pong")), strict=False):
        told, asked = header_of(chunk), header_of(sent.chunk)
        looks += len(told.pop("looks", {}))
        for header in (told, asked):
            header.get("game", {}).pop("kinds", None)
        assert told == asked
        assert pixels_of(chunk)[768:] == pixels_of(sent.chunk)[768:]
    assert not game["whole"]
    assert looks == game["looks"] > 5
    assert sum(len(header_of(chunk)["actions"]) for chunk in kept) == game["steps"]


def test_a_folder_that_was_made_here_is_made_anew_and_one_of_others_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("ui.site.build.recorded", lambda *_, **__: [])
    out = tmp_path / "site"
    build(out, agents=[])
    (out / "old").touch()
    build(out, agents=[])
    assert not (out / "old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    (out / "arcade.css").unlink()
    with pytest.raises(ValueError, match="holds something else"):
        build(out, agents=[])


def test_an_index_names_every_game_and_its_score(static_site):
    games = json.loads((static_site / "deep" / "arcade" / "index.json").read_text())["games"]
    mine = [game for game in games if game["agent"] == "cartpole"]
    assert {game["snapshot"] for game in mine} == set(zoo.entries()["cartpole"].snapshots)
    assert [game["seed"] for game in mine if game["snapshot"] == 100] == [0, 1, 2]
    assert all(game["total"] == game["steps"] == 500 for game in mine if game["snapshot"] == 100)


def test_every_address_of_a_page_is_relative_and_leads_to_a_file(static_site):
    out = static_site / "deep" / "arcade"
    for page in out.glob("*.html"):
        for address in re.findall(r'(?:src|href)="([^"]*)"', page.read_text(encoding="utf-8")):
            if not address.startswith(("https://", "data:", "#")):
                assert (out / address.partition("?")[0].partition("#")[0]).is_file(), (page.name, address)


def test_a_static_space_is_the_folder_with_a_readme(static_site, server, tmp_path, monkeypatch, capsys):
    site = static_site / "deep" / "arcade"
    monkeypatch.chdir(tmp_path)
    deploy = ["deploy-space", "tester/arcade", "--static", "--site", str(site)]
    command_line([*deploy, "--dry-run"])
    assert server.requests == []
    command_line(deploy)
    assert capsys.readouterr().out.endswith(f"{server.url}/spaces/tester/arcade is being built\n")
    assert server.repos["space", "tester/arcade"].settings["sdk"] == "static"
    files = server.files("tester/arcade", repo_type="space")
    made = {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}
    staged = tmp_path / "runs" / "space" / "README.md"
    assert files == {".gitattributes": files[".gitattributes"], "README.md": staged.read_bytes()} | made
    front = yaml.safe_load(files["README.md"].decode().split("---\n")[1])
    assert (front["title"], front["sdk"], "app_file" in front) == ("A3C Arcade", "static", False)


@needs_chromium
def test_a_page_names_all_scripts_and_files_of_its_first_picture_so_that_none_waits_for_another(browser, site):
    signs = {"index.html": ".player canvas[data-step]", "play.html?play=cartpole": ".human canvas"}
    for page, sign in signs.items():
        with visit(browser, site, page) as opened:
            opened.locator(sign).first.wait_for()
            asked = opened.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
            links = "[...document.querySelectorAll('link[rel$=preload]')].map(({ href }) => href)"
            named = opened.evaluate(links)
        needed = [url for url in asked if url.endswith((".js", ".json", ".safetensors", ".bin"))]
        assert len(needed) > 20
        assert set(needed) <= set(named)
        assert len(needed) == len(set(needed))  # what was fetched ahead is used


@needs_chromium
def test_a_link_leads_to_its_moment_and_keys_move_the_game(browser, site):
    with visit(browser, site, "index.html?agent=cartpole&snapshot=25&seed=0&at=40") as page:
        canvas = page.locator(".player canvas").first
        page.locator(".player[data-state=playing]").wait_for()
        canvas.press("Space")
        expect(page.locator(".player")).to_have_attribute("data-state", "paused")
        step = int(canvas.get_attribute("data-step"))
        assert step >= 40
        canvas.press(".")
        expect(canvas).to_have_attribute("data-step", str(step + 1))
        canvas.press("Home")
        expect(canvas).to_have_attribute("data-step", "0")
        expect(page.locator(".shot .name")).to_have_text("cartpole, greedy actions, seed 0, at 25 % of training")
        page.get_by_role("radio", name="all").check(force=True)
        expect(page.locator(".shot .name")).to_have_text("cartpole, greedy actions, seed 0")
        assert "snapshot=100" in page.url
        page.go_back()
        expect(page.locator(".shot .name")).to_have_text("cartpole, greedy actions, seed 0, at 25 % of training")


@needs_chromium
def test_a_younger_agent_is_shown_at_the_same_moment(browser, site):
    with visit(browser, site, "index.html?agent=cartpole&seed=0&at=40") as page:
        canvas = page.locator(".player canvas").first
        page.locator(".player[data-state=playing]").wait_for()
        canvas.press(" ")
        step = canvas.get_attribute("data-step")
        page.get_by_role("radio", name="25 %").check(force=True)
        expect(page.locator(".shot .name")).to_contain_text("at 25 % of training")
        expect(canvas).to_have_attribute("data-step", step)
        expect(page.locator(".player")).to_have_attribute("data-state", "paused")


APART = """
() => new Promise((done) => {
  const canvases = [...document.querySelectorAll(".player .shot canvas[data-step]")];
  const apart = [];
  const look = () => {
    const [one, other] = canvases.map((each) => Number(each.dataset.step));
    apart.push(one - other);
    if (apart.length > 30) done(apart);
    else requestAnimationFrame(look);
  };
  look();
})
"""
"""How many steps two games are apart, frame by frame."""


@needs_chromium
def test_another_age_is_shown_beside_in_step_with_the_game(browser, site):
    with visit(browser, site, "index.html?agent=cartpole&seed=0&at=20&beside=25") as page:
        first, other = page.locator(".player canvas").first, page.locator(".shot.beside canvas")
        page.locator(".player[data-state=playing]").wait_for()
        expect(page.locator(".shot.beside .name")).to_have_text("cartpole, at 25 % of training")
        apart = page.evaluate(APART)
        assert set(apart) == {0}
        first.press(" ")
        first.press("Home")
        first.press(".")
        for canvas in (first, other):
            expect(canvas).to_have_attribute("data-step", "1")
        page.get_by_label("Beside it:").select_option("untrained")
        expect(page.locator(".shot.beside .name")).to_have_text("cartpole, at 0 % of training")
        expect(other).to_have_attribute("data-step", "1")
        expect(page).to_have_url(re.compile("beside=0"))
        page.get_by_role("button", name="Push left").click()
        first.press("End")
        expect(page.locator(".shot.beside .note")).to_contain_text("Over")
        page.get_by_label("Beside it:").select_option("nothing")
        expect(other).to_be_hidden()


@needs_chromium
def test_the_keys_are_told(browser, site):
    with visit(browser, site, "index.html?agent=cartpole&seed=0") as page:
        page.locator(".player[data-state=playing]").wait_for()
        page.locator(".player canvas").first.press("?")
        dialog = page.get_by_role("dialog", name="Keys of the player")
        expect(dialog).to_contain_text("10 seconds back")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        page.get_by_role("button", name="Keys").click()
        expect(dialog).to_be_visible()


@needs_chromium
def test_a_game_is_followed_by_another_unless_the_visitor_stays(browser, site):
    with visit(browser, site, "index.html?agent=cartpole&seed=0&snapshot=1") as page:
        said, name = page.locator(".player .said"), page.locator(".shot .name")
        expect(said).to_contain_text("Another game begins in a moment", timeout=60_000)
        expect(name).to_contain_text("seed 1", timeout=60_000)
        expect(said).to_contain_text("Another game begins in a moment", timeout=60_000)
        page.keyboard.press("Shift")
        expect(said).not_to_contain_text("Another")
        page.get_by_role("button", name="Autoplay").click()
        page.locator(".player canvas").first.press(" ")
        expect(said).to_contain_text("The game ended", timeout=60_000)
        expect(said).not_to_contain_text("Another")


@needs_chromium
def test_what_the_agent_looks_at_lies_on_the_step_that_it_was_made_from(browser, site):
    with visit(browser, site, "index.html?agent=pong&at=8") as page:
        canvas, light = page.locator(".player canvas").first, page.locator(".player canvas.light")
        page.locator(".player canvas[data-step]").first.wait_for()
        canvas.press("Space")
        canvas.press("Home")
        page.get_by_role("button", name="looks at for its value").click()
        expect(light).to_be_visible()
        expect(light).to_have_attribute("data-step", "0")
        expect(light).to_have_attribute("data-purpose", "value")
        canvas.press("End")
        expect(light).to_be_hidden()
        expect(page.locator(".said").first).to_contain_text("The recording stops here")


@needs_chromium
def test_a_game_that_was_not_recorded_is_told(browser, site):
    with visit(browser, site, "index.html?agent=pong&seed=999") as page:
        expect(page.locator(".verdict")).to_contain_text("was not recorded")
        page.locator(".player canvas[data-step]").first.wait_for()


@needs_chromium
@pytest.mark.parametrize(
    "query", ["index.html?agent=cartpole", "play.html", "zoo.html", "zoo-cartpole.html", "how.html"]
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_legible_and_fit_a_phone(browser, site, query, scheme):
    with visit(browser, site) as page:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(site.url + query)
        page.locator("main :is(canvas[data-step], .human .go, .replay, .timeline button)").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]})
        assert found.violations_count == 0, found.generate_report()


@needs_chromium
def test_in_the_systems_colours_and_by_ear_the_player_can_be_used(browser, site):
    with visit(browser, site) as page:
        page.emulate_media(forced_colors="active")
        page.goto(site.url + "index.html?agent=cartpole&at=30")
        page.locator(".player canvas[data-step]").first.wait_for()
        chosen, other = page.locator("label.selected").first, page.locator("label:not(.selected)").first
        colours = [each.evaluate("label => getComputedStyle(label).backgroundColor") for each in (chosen, other)]
        assert colours[0] != colours[1]
        expect(page.get_by_role("application", name="CartPole-v1 played by cartpole")).to_be_visible()
        position = page.get_by_role("slider", name="Position in the game")
        spoken = r"0:0\d, step \d+, chooses (left|right), return \d+, value \d+"
        expect(position).to_have_attribute("aria-valuetext", re.compile(spoken))
        unforced = {"color-contrast": {"enabled": False}}  # axe reads the colours that the system has replaced
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"], "rules": unforced})
        assert found.violations_count == 0, found.generate_report()


@needs_chromium
def test_a_picture_of_the_zoo_plays_its_game(browser, site):
    with visit(browser, site, "zoo.html") as page:
        page.locator(".replay").hover()
        page.locator(".replay[data-state=playing]").wait_for()
        page.get_by_role("link", name="cartpole").click()
        page.get_by_role("link", name="Watch it play").click()
        page.locator(".player canvas[data-step]").first.wait_for()


def test_the_command_refuses_in_a_sentence(tmp_path, capfd):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ValueError, match="holds something else"):
        main(out=tmp_path)
    assert (tmp_path / "mine.txt").exists()
    with pytest.raises(ValueError, match="not the address"):
        main(app="x")
    with pytest.raises(SystemExit) as ended:
        command_line(["build-static", "--agents", "nobody"])
    assert ended.value.code == 1
    assert capfd.readouterr().err.startswith("error: no agent and no directory 'nobody'")


def play_in_node(env: str, weights: Path, games: list[list]) -> list[dict]:
    """Games, each a seed and its nudges, as the browser plays them."""
    program = """
        import { readFileSync } from "node:fs";
        import { play, tensorsOf } from "./ui/site/simulation.js";
        const [env, file, games] = process.argv.slice(1);
        const bytes = readFileSync(file);
        const tensors = tensorsOf(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
        console.log(JSON.stringify(JSON.parse(games).map(([seed, nudges]) => play(env, tensors, seed, nudges))));
    """
    command = ["node", "--input-type=module", "-e", program, env, str(weights), json.dumps(games)]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100).stdout)


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node (Debian: apt install nodejs)")
@pytest.mark.parametrize(
    ("name", "snapshot", "seeds"),
    [
        ("cartpole", 5, [0, 1, 2, 3, 123_456_789]),
        ("pendulum", 1, [0, 1, 2, 3, 123_456_789]),
        pytest.param("cartpole", 100, range(100), marks=pytest.mark.slow),
        pytest.param("pendulum", 100, range(100), marks=pytest.mark.slow),
    ],
)
def test_games_played_in_the_browser_are_those_of_python_to_their_end(tmp_path, name, snapshot, seeds):
    agent, weights = zoo.load(name, snapshot), tmp_path / "model.safetensors"
    weights.write_bytes(weights_of(agent))
    games = [[seed, "20.left-60.right" if seed % 2 else ""] for seed in seeds]
    for (seed, nudges), played in zip(games, play_in_node(agent.recipe.env, weights, games), strict=True):
        mine = played["steps"]
        real = list(playback_steps(agent, seed, perturbations=nudges_of(nudges, agent.recipe, 1000)))
        assert len(mine) == len(real)
        np.testing.assert_allclose([step["seen"] for step in mine], [step.obs for step in real], atol=1e-5)
        np.testing.assert_allclose([step["reward"] for step in mine], [step.reward for step in real], atol=1e-5)
        if name == "cartpole":
            assert [np.argmax(step["head"]) for step in mine] == [step.action for step in real]
        else:
            np.testing.assert_allclose([step["head"] for step in mine], [step.action for step in real], atol=1e-4)


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node (Debian: apt install nodejs)")
@pytest.mark.parametrize("name", ["cartpole", "pendulum"])
def test_every_step_in_the_browser_is_that_of_gymnasium(tmp_path, name):
    agent, weights = zoo.load(name), tmp_path / "model.safetensors"
    weights.write_bytes(weights_of(agent))
    env = gym.make(agent.recipe.env).unwrapped
    real, steps = [], []
    for seed, game in enumerate(play_in_node(agent.recipe.env, weights, [[seed, ""] for seed in range(100)])):
        env.reset(seed=seed)
        assert game["begin"] == list(env.state)
        for step in game["steps"]:
            action = step["action"] if name == "cartpole" else 2 * np.clip(step["action"], -1, 1)
            obs, reward, over, _, _ = env.step(action)
            state = obs if name == "cartpole" else env.state  # CartPole's is rounded to what it shows
            real.append([*state, reward, over or step is game["steps"][-1]])
            env.state = np.array(step["state"])  # what is compared is a step, not how far rounding has led
        steps += game["steps"]
    told = [[*step["state"], step["reward"], step["over"]] for step in steps]
    rounding = 1e-7 if name == "cartpole" else 1e-12
    np.testing.assert_allclose(told, real, rtol=rounding, atol=1e-12)
    policy, value, _ = agent.policy_and_value(np.array([step["seen"] for step in steps], dtype=np.float32))
    heads = torch.tensor([step["head"] for step in steps])
    mine, theirs = (heads.softmax(-1), policy.parameters()) if name == "cartpole" else (heads, policy.mean)
    np.testing.assert_allclose(mine, theirs[0], atol=1e-4)
    np.testing.assert_allclose([step["value"] for step in steps], value, atol=1e-4)


@needs_chromium
def test_a_seed_that_nobody_recorded_is_played_in_the_browser_and_can_be_pushed(browser, site):
    with visit(browser, site, "index.html?agent=cartpole&seed=999&at=50") as page:
        page.locator(".player canvas[data-step]").first.wait_for()
        expect(page.locator(".shot .name")).to_have_text("cartpole, greedy actions, seed 999")
        page.get_by_role("button", name="Push left").click()
        expect(page.locator(".shot .name")).to_have_text("cartpole, greedy actions, seed 999, 1 nudge")
        page.get_by_role("button", name="Another game").click()
        expect(page.locator(".shot .name")).to_have_text("cartpole, greedy actions, seed 1000")


@needs_chromium
def test_cartpole_is_played_with_the_keys_against_the_agents_own_game(browser, site):
    with visit(browser, site, "play.html") as page:
        page.locator(".human .go").wait_for()
        page.keyboard.press("Enter")
        # The countdown takes seconds; a game that nobody plays is over before a slow page says that it began.
        page.locator(".human:not([data-state=ready], [data-state=opening])").wait_for()
        page.keyboard.press("ArrowRight")
        expect(page.locator(".human .said")).to_have_text(re.compile(r"The agent won: 500 against your \d+\."))
        page.locator(".player-box canvas[data-step]").first.wait_for()
        page.get_by_role("button", name="Another seed").click()
        expect(page.locator(".player-box")).to_have_count(0)
        expect(page).to_have_url(re.compile(r"play\.html\?play=cartpole&seed=1$"))
        page.go_back()
        expect(page.locator(".human .name")).to_have_text("You, seed 0 at half speed")


@needs_chromium
def test_cartpole_is_taken_over_and_its_link_replays_it(browser, site):
    with visit(browser, site, "index.html?agent=cartpole&seed=0&at=100&speed=0.5") as page:
        canvas, name = page.locator(".player canvas").first, page.locator(".player .shot .name").first
        page.locator(".player[data-state=playing]").wait_for()
        canvas.press(" ")
        canvas.press("t")
        expect(page.locator(".player .result")).to_contain_text(
            re.compile(r"took cartpole's game over at step \d+ and scored")
        )
        expect(page.locator(".shot.rival .name")).to_have_text("The agent alone")
        score = re.search(r"scored (\d+)", page.locator(".player .result").inner_text())[1]
        assert "takeovers=" in page.url
        page.goto(page.url)
        expect(name).to_contain_text("taken over at step")
        canvas.press("End")
        expect(page.locator(".player .said").first).to_contain_text(
            f"with a return of {score}. The agent alone scored 500."
        )
