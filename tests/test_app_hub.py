"""The app and the Hub: strangers' agents on its page, and visitors' agents on the Hub."""

import base64
import json
import re
import shutil
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import gradio as gr
import httpx
import imageio.v3 as iio
import pytest
from huggingface_hub import constants, scan_cache_dir
from playwright.sync_api import Browser, Page, Response, expect

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import save_agent
from tests import toy
from tests.browsing import leaving, needs_chromium, visit
from tests.loopback_hub import BLACK_HOLE, LoopbackHub, Repo, environment, patched
from tests.processes import wait_until
from tests.proxy import proxied
from tests.serving import ROOT, App, serve, text_of
from training.recipes import RECIPES
from ui.retrain import publishing
from ui.retrain.publishing import Publisher
from ui.streaming import agent_catalog, chunks, stream
from ui.streaming.routes import spec_of
from ui.watch.hub_agents import HubAgents, words_of
from ui.watch.tab import watch
from zoo import hub

TOKEN = "mock-oauth-token-for-local-dev"
"""What gradio hands out as a visitor's where there is no Space to sign in to."""
PATH = "/games"
"""Where a proxy serves one of the apps."""
ONLY_ON_THE_HUB = "pendulum"
"""An agent of the zoo whose weights the apps of these tests do not ship."""
SLACK = 10.0
"""Seconds that a busy machine may add to a deadline."""

EVIL = "<img src=x onerror=\"window.hurt='img'\"><script>window.hurt='js'</script>${window.hurt='js'}"


def with_strings(value: Any, text: str) -> Any:
    """`value` from JSON, with `text` for every string in it."""
    if isinstance(value, dict):
        return {key: with_strings(part, text) for key, part in value.items()}
    if isinstance(value, list):
        return [with_strings(part, text) for part in value]
    return text if isinstance(value, str) else value


def changed(files: dict[str, bytes], file: str, **changes: Any) -> dict[str, bytes]:
    """A repository's files with other fields in the recipe that `file` holds."""
    record = json.loads(files[file])
    record["recipe"] |= changes
    return files | {file: json.dumps(record).encode()}


def hostile(files: dict[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Repositories that mean ill, by what is wrong with them."""
    record = json.loads(files["config.json"])
    evil = EVIL.encode()
    return {
        "words": files | {"config.json": json.dumps(with_strings(record, EVIL)).encode(), "README.md": evil},
        "field": changed(files, "recipe.json", **{EVIL: 1}),
        "game": changed(files, "recipe.json", env=EVIL[:100]),
        "pickle": files | {"model.safetensors": b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94" + evil},
        "network": changed(files, "recipe.json", core="lstm"),
        "page": files | {"recipe.json": evil},
        "nothing": {"README.md": evil},
    }


SENTENCES = {
    "words": "config.json is not what it should be: name:",
    "field": "recipe.json is not what it should be: <img",
    "game": "recipe.json: unknown environment '<img",
    "pickle": "Cannot read model.safetensors",
    "network": "model.safetensors lacks tensor core.cell",
    "page": "recipe.json is not valid JSON",
    "nothing": "hostile/nothing has no ",
}
"""How the page begins to say what is wrong with each."""


class Apps(NamedTuple):
    """Two of a kind that were started at the same moment."""

    connected: App
    """With a Hub that works, a visitor's token and a module `spaces`."""
    waiting: App
    """With a Hub that takes every request and never answers, below a path of its own."""


def checkout(directory: Path, published: zoo.ZooEntry, revision: str) -> Path:
    """A copy of the app whose zoo has one agent on the Hub alone."""
    for part in ("a3c_core", "playback", "training", "ui"):
        (directory / part).symlink_to(ROOT / part)
    shutil.copy(ROOT / "app.py", directory)
    shutil.copytree(ROOT / "zoo", directory / "zoo", ignore=shutil.ignore_patterns("__pycache__", "snapshots"))
    shutil.rmtree(directory / "zoo" / "weights" / published.name)
    path = directory / "zoo" / "entries" / f"{published.name}.json"
    record = json.loads(path.read_text())
    record["published"] = {"repo": "tester/only-here", "revision": revision, "sha256": published.sha256}
    path.write_text(json.dumps(record))
    return directory


@pytest.fixture(scope="module")
def loopback(repository) -> Iterator[LoopbackHub]:
    """A Hub with agents of many kinds."""
    with LoopbackHub() as running:
        running.token = TOKEN
        running.put("stranger/agent", repository)
        running.create(Repo("tester/secret", "model", private=True))
        running.put("tester/secret", repository)
        for name, files in hostile(repository).items():
            running.put(f"hostile/{name}", files)
        entry = zoo.entries()[ONLY_ON_THE_HUB]
        running.put("tester/only-here", {file: (entry.directory / file).read_bytes() for file in entry.sha256})
        yield running


@pytest.fixture(scope="module")
def silent() -> Iterator[LoopbackHub]:
    """A Hub that never answers."""
    with LoopbackHub() as running:
        running.fail(".*", BLACK_HOLE, None)
        yield running


@pytest.fixture(scope="module")
def root(loopback, tmp_path_factory) -> Path:
    revision = loopback.repos["model", "tester/only-here"].at("main").oid
    return checkout(tmp_path_factory.mktemp("checkout"), zoo.entries()[ONLY_ON_THE_HUB], revision)


@pytest.fixture(scope="module")
def homes(tmp_path_factory, root, loopback, silent) -> dict[str, dict[str, Any]]:
    """What `serve` takes for each of the two apps."""
    places = {name: tmp_path_factory.mktemp(name) for name in Apps._fields}
    (places["connected"] / "spaces.py").write_text(FAKE_SPACES)
    urls = zip(places.items(), (loopback.url, silent.url), strict=True)
    settings = {name: environment(url, place / "home") for (name, place), url in urls}
    settings["connected"] |= {"HF_TOKEN": TOKEN, "A3C_OAUTH": "1"}
    settings["waiting"] |= {"GRADIO_ROOT_PATH": PATH}
    return {name: {"directory": places[name], "root": root, **settings[name]} for name in places}


FAKE_SPACES = """
from pathlib import Path

def GPU(function):
    Path(__file__).with_name("asked for a GPU").touch()
    return function
"""


@pytest.fixture(scope="module")
def apps(homes) -> Iterator[Apps]:
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        yield Apps(*pool.map(lambda home: stack.enter_context(serve(**home)), homes.values()))


@pytest.fixture(scope="module")
def app(apps) -> App:
    return apps.connected


@pytest.fixture
def page(app: App, browser: Browser) -> Iterator[Page]:
    with visit(browser, app) as opened:
        yield opened


def ask(app: App, endpoint: str, *values: object) -> tuple[str, Any]:
    """What an endpoint of the app ends with: `complete` and its outputs, or `error` and the reason."""
    address = f"{app.url}gradio_api/call/{endpoint}"
    event = httpx.post(address, json={"data": values}, timeout=60).json()["event_id"]
    last = httpx.get(f"{address}/{event}", timeout=120).text.strip().split("\n\n")[-1]
    kind, data = re.fullmatch(r"event: (\w+)\ndata: (.*)", last, re.DOTALL).groups()
    return kind, json.loads(data)


def sentence(app: App, endpoint: str, *values: object) -> str:
    """The sentence with which the app refuses."""
    kind, answer = ask(app, endpoint, *values)
    assert kind == "error", answer
    return answer["error"]


def complaint(app: App) -> str:
    """What the app wrote where something was wrong that it had not foreseen."""
    return "".join(re.findall(r".*(?:Traceback|Error).*", app.output.read_text()))


# Handlers, without a server, and so before any runs: whose threads go on


def test_an_agent_that_breaks_down_is_explained_without_a_stack_trace(arcade, server, repository, monkeypatch, capsys):
    server.put("stranger/breaks", repository)
    monkeypatch.setattr(chunks, "playback_steps", lambda *_, **__: 1 / 0)
    with pytest.raises(gr.Error, match="stranger/breaks cannot play") as refused:
        arcade.hub_agents.invite({"agent": "stranger/breaks", "seed": "5"})
    assert not refused.value.print_exception
    assert capsys.readouterr().out == "stranger/breaks broke down while playing: ZeroDivisionError\n"


def test_a_repository_that_has_changed_is_another_agent(arcade, server, repository):
    server.put("stranger/changes", repository)
    arcade.hub_agents.invite({"agent": "stranger/changes"})
    before = spec_of({"agent": "stranger/changes"})
    server.put("stranger/changes", repository | {"README.md": b"Better now."})
    arcade.hub_agents.invite({"agent": "stranger/changes"})
    after = spec_of({"agent": "stranger/changes"})
    assert after != before
    assert after == before._replace(commit=after.commit)


def test_a_stranger_is_watched_at_each_snapshot(arcade, server, repository):
    server.put("stranger/learnt", repository)
    arcade.hub_agents.invite({"agent": "stranger/learnt", "snapshot": "0"})
    with pytest.raises(gr.Error, match="has these snapshots: 0, 5, 25, 100"):
        arcade.hub_agents.invite({"agent": "stranger/learnt", "snapshot": "26"})
    fills = {}
    for share in agent_catalog.watchable("stranger/learnt").snapshots:
        spec = spec_of({"agent": "stranger/learnt", "snapshot": str(share)})
        fills[share] = stream.agent_of(spec).model.value[-1].bias.item()
    assert fills.keys() == {0, 5, 25, 100}
    assert (fills[5], fills[25]) == (5, 25)  # as they were written


def test_a_snapshot_of_another_game_is_refused(arcade, server, repository, tmp_path):
    save_agent(tmp_path, Agent.untrained(RECIPES["pendulum"]))
    others = {f"snapshots/5/{path.name}": path.read_bytes() for path in tmp_path.iterdir()}
    server.put("stranger/turns", repository | others)
    arcade.hub_agents.invite({"agent": "stranger/turns"})
    with pytest.raises(gr.Error, match="The snapshot 5 of stranger/turns plays another game"):
        arcade.hub_agents.invite({"agent": "stranger/turns", "snapshot": "5"})


def test_guests_make_room_for_guests(monkeypatch):
    monkeypatch.setattr(agent_catalog, "MOST_GUESTS", 2)
    monkeypatch.setattr(agent_catalog, "_guests", OrderedDict())
    for name in ("a/a", "b/b", "a/a", "c/c"):
        agent_catalog.welcome(name, toy.beginner(), zoo.entries()["cartpole"], commit="")
    assert [agent_catalog.watchable(name) is not None for name in ("a/a", "b/b", "c/c")] == [True, False, True]
    assert agent_catalog.watchable("breakout")


def test_a_visitor_is_told_of_no_directory():
    error = FileNotFoundError(2, "No such file or directory", "/tmp/a3c/run/model.safetensors")
    assert words_of(error) == "[Errno 2] No such file or directory: 'model.safetensors'"
    assert words_of(OSError("cannot read /root/x/y.json (broken)")) == "Cannot read y.json (broken)"


def test_strangers_make_room_for_strangers_and_nobody_else(arcade, server, repository):
    strangers = HubAgents(arcade.broadcasts)
    for name in ("mine", "first", "second", "third"):
        server.put(f"stranger/{name}", repository)
    zoo.fetched("stranger/mine")
    for name in ("first", "second", "third", "first"):
        strangers.fetched(f"stranger/{name}")
    size = next(iter(scan_cache_dir(constants.HF_HUB_CACHE).repos)).size_on_disk
    strangers.sweep(int(2.5 * size))
    kept = {repo.repo_id for repo in scan_cache_dir(constants.HF_HUB_CACHE).repos}
    assert kept == {"stranger/mine", "stranger/first", "stranger/third"}


@pytest.fixture
def run(runs, small_run):
    """A visitor's training that has ended."""
    ended = runs.enter(RECIPES["cartpole"], "page")
    shutil.copytree(small_run, ended.checkpoint)
    ended.outcome = "Trained in 1 s."
    runs.leave(ended)
    return ended


PROFILE = gr.OAuthProfile({"name": "T", "preferred_username": "tester", "profile": "", "picture": ""})


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(503, "the Hub has trouble"), (403, "the token may not do that"), (BLACK_HOLE, "the Hub did not answer in time")],
)
def test_where_the_hub_fails_a_visitor_is_told_what_to_do(runs, run, server, monkeypatch, fault, reason):
    monkeypatch.setattr(hub, "FETCH_SECONDS", 0.5)
    monkeypatch.setattr(publishing, "GAMES", 2)
    server.fail("POST /api/repos/create", fault, None)
    views = [text_of(view) for view in Publisher(runs).publish(run.id, PROFILE, gr.OAuthToken(server.token, "", 0))]
    assert views[-1].startswith("Cannot create tester/a3c-CartPole-v1: ")
    assert reason in views[-1]
    assert views[-1].endswith(publishing.UNPUBLISHED)
    assert runs.get(run.id) is run


def test_who_has_not_trained_or_not_signed_in_is_told_so(runs, run):
    with pytest.raises(gr.Error, match="Train an agent first"):
        next(Publisher(runs).publish("guessed", PROFILE, gr.OAuthToken(TOKEN, "", 0)))
    with pytest.raises(gr.Error, match="Sign in with Hugging Face first"):
        next(Publisher(runs).publish(run.id, None, None))
    with pytest.raises(gr.Error, match="Sign in with Hugging Face first"):  # gradio has forgotten the page
        next(Publisher(runs).publish(None, None, None, SimpleNamespace(session_hash="page")))


def test_a_visitor_publishes_an_agent(runs, run, server, monkeypatch):
    monkeypatch.setattr(publishing, "GAMES", 2)
    *_, last = Publisher(runs).publish(run.id, PROFILE, gr.OAuthToken(server.token, "", 0))
    assert "Published" in last


def test_an_agent_waits_for_its_visitor_who_signs_in(runs):
    ended = runs.enter(RECIPES["cartpole"], "page")
    runs.leave(ended)
    under_way = runs.enter(RECIPES["cartpole"], "page")
    runs.leave_page("page", keep=True)
    assert runs.get(ended.id) is ended
    assert under_way.stop.is_set()


# A Hub that does not answer


class Said(NamedTuple):
    """What a visitor heard, and after how many seconds."""

    sentence: str
    seconds: float


ELSEWHERE = ["stranger/agent", ONLY_ON_THE_HUB]


@pytest.fixture(scope="module")
def answers(apps) -> Iterator[dict[str, Future[Said]]]:
    """What is heard of agents that a Hub has which does not answer; asked for once the app's first game is there."""

    def hear(agent: str) -> Said:
        started = time.monotonic()
        return Said(sentence(apps.waiting, "watch", agent, 0), time.monotonic() - started)

    assert ask(apps.waiting, "watch", "cartpole", 0)[0] == "complete"
    with ThreadPoolExecutor() as pool:
        yield {agent: pool.submit(hear, agent) for agent in ELSEWHERE}


def test_the_page_works_while_it_waits_for_the_hub(apps, answers):
    chunk = f"{apps.waiting.url}arcade/chunk"
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(chunk, params={"agent": ONLY_ON_THE_HUB}, timeout=0.5)
    assert ask(apps.waiting, "watch", "cartpole", 0)[0] == "complete"
    assert httpx.get(chunk, params={"agent": "cartpole"}, timeout=60).status_code == 200
    assert not any(answer.done() for answer in answers.values())


def test_a_silent_hub_does_not_delay_the_start(apps, silent):
    assert wait_until(lambda: silent.requests, 30), "the app should ask for the agent that it does not ship"
    assert apps.waiting.started + apps.waiting.seconds < silent.first_asked + hub.ANSWER_SECONDS


def test_a_hub_that_cannot_be_reached_is_explained(arcade, monkeypatch, tmp_path):
    with LoopbackHub() as gone:
        patched(monkeypatch, gone, tmp_path)
    with pytest.raises(gr.Error, match="the Hub cannot be reached: check the network, or try again later"):
        watch(arcade.hub_agents, arcade.files, "stranger/agent", 0)


# Strangers' agents


def test_a_strangers_agent_plays(app):
    kind, (played,) = ask(app, "watch", "stranger/agent", 3)
    assert (kind, played["return"]) == ("complete", played["steps"])
    video = httpx.get(played["video"])
    assert 'filename="stranger-agent-seed-3.mp4"' in video.headers["content-disposition"]
    assert len(iio.imread(video.content, plugin="FFMPEG", extension=".mp4")) == played["steps"] + 1


@pytest.mark.parametrize("text", ["https://huggingface.co/stranger/agent/tree/main", "  stranger/agent "])
def test_an_agents_address_will_do(app, text):
    assert ask(app, "watch", text, 3)[1][0]["video"] == f"{app.url}arcade/video?agent=stranger%2Fagent&seed=3"


@pytest.mark.parametrize("text", ["", "agent", "../../etc/passwd", "a b/c", EVIL, None, 7, ["stranger/agent"]])
def test_what_names_no_agent_is_answered_with_a_sentence(app, text):
    assert sentence(app, "watch", text, 0)
    assert complaint(app) == ""


def test_a_bad_seed_is_explained_before_anything_is_fetched(app, loopback):
    assert "The seed must be a whole number" in sentence(app, "watch", "stranger/bad-seed", -1)
    assert not any("stranger/bad-seed" in path for _, path in loopback.requests)


def test_an_agent_that_is_not_there_is_explained(app):
    assert sentence(app, "watch", "stranger/nobody", 0).startswith("Cannot find stranger/nobody: ")


def test_visitors_do_not_see_what_the_host_may(app):
    assert sentence(app, "watch", "tester/secret", 0).startswith("Cannot find tester/secret: ")


@pytest.mark.parametrize("name", SENTENCES)
def test_a_hostile_repository_is_answered_with_a_sentence(app, homes, name):
    said = sentence(app, "watch", f"hostile/{name}", 0)
    assert "<" not in said
    assert str(homes["connected"]["directory"]) not in said
    assert len(said) < 1000
    assert complaint(app) == ""


@needs_chromium
def test_a_stranger_is_watched_and_the_hostile_stay_inert(page, app):
    page.get_by_role("button", name="An agent from the Hub").click()
    box = page.get_by_label("Repository")
    box.fill("stranger/agent")
    page.get_by_role("button", name="Watch it").click()
    name_of_game = page.locator("#watch-player .name")
    expect(name_of_game).to_have_text("stranger/agent, greedy actions, seed 0")
    expect(page.locator("#watch-player canvas[data-step]")).to_have_attribute("data-step", re.compile("[1-9]"))
    expect(page.get_by_role("radio", name="stranger/agent")).to_be_checked()
    for name, beginning in SENTENCES.items():
        box.fill(f"hostile/{name}")
        box.press("Enter")
        toast = page.locator(".toast-body", has_text=beginning)
        expect(toast).to_be_visible()
        assert page.locator("img[src=x], [onerror]").count() == 0
        assert "window.hurt" not in "".join(page.locator("script").all_inner_texts())
        toast.locator(".toast-close").click()
    assert page.evaluate("window.hurt") is None
    expect(page.locator("#watch-verdict")).to_contain_text(
        "stranger/agent is an agent that somebody published on the Hub."
    )
    expect(name_of_game).to_have_text("stranger/agent, greedy actions, seed 0")
    page.get_by_role("button", name="Another game").click()
    expect(name_of_game).to_have_text("stranger/agent, greedy actions, seed 1")
    page.get_by_role("radio", name="none").check()
    expect(name_of_game).to_have_text("stranger/agent, greedy actions, seed 1, at 0 % of training")


@needs_chromium
def test_a_link_leads_to_a_strangers_game(browser, app, loopback, repository):
    loopback.put("stranger/linked", repository)
    with visit(browser, app, "?agent=stranger/linked&seed=5&at=9") as page:
        expect(page.locator("#watch-player .name")).to_have_text("stranger/linked, greedy actions, seed 5")
    with visit(browser, app, "?agent=https://huggingface.co/stranger/linked/tree/main&seed=6") as page:
        expect(page.locator("#watch-player .name")).to_have_text("stranger/linked, greedy actions, seed 6")
    with visit(browser, app, "?agent=stranger/nobody") as page:
        expect(page.get_by_text("Cannot find stranger/nobody")).to_be_visible()
        expect(page.locator("#watch-player .name")).to_contain_text("breakout")


def test_an_agent_of_the_zoo_that_is_only_on_the_hub_plays(apps, loopback):
    assert wait_until(lambda: any("only-here" in path for _, path in loopback.requests), 30)
    assert ask(apps.connected, "watch", ONLY_ON_THE_HUB, 0)[0] == "complete"


# Below a path


@needs_chromium
@pytest.mark.parametrize("end", ["", "/"])
def test_below_a_path_of_a_proxy_all_is_found(apps, browser, end):
    with proxied(apps.waiting.url, PATH) as address, closing(browser.new_page()) as page:
        missing = []
        page.on("response", lambda answer: missing.append(answer.url) if answer.status >= 400 else None)
        page.goto(f"{address}{end}?zoo=cartpole")
        link = page.get_by_role("link", name="Download all files")
        expect(link).to_be_visible()
        assert page.request.get(link.evaluate("link => link.href")).headers["content-type"] == "application/zip"
        expect(page.locator(".replay img")).not_to_have_js_property("naturalWidth", 0)
        page.get_by_role("tab", name="Watch").click()
        page.locator("#watch-player canvas[data-step]").wait_for()
        assert [url for url in missing if url.startswith(address)] == []


def test_below_a_path_of_a_proxy_programs_are_told_where_a_video_is(apps):
    with proxied(apps.waiting.url, PATH) as address:
        kind, (played,) = ask(apps.waiting._replace(url=f"{address}/"), "watch", "cartpole", 0)
        assert (kind, played["video"]) == ("complete", f"{address}/arcade/video?agent=cartpole&seed=0")
        assert httpx.get(played["video"], timeout=60).status_code == 200


# Visitors' agents


def test_no_page_that_is_opened_waits_in_the_queue(app):
    """Not even behind gradio's own question who has signed in."""
    events = httpx.get(f"{app.url}config", timeout=30).json()["dependencies"]
    loads = [event for event in events if any(kind == "load" for _, kind in event["targets"])]
    assert len(loads) >= 6
    assert [event for event in loads if event["queue"]] == []


def test_nobody_can_publish_where_nobody_can_sign_in(apps):
    config = httpx.get(f"{apps.waiting.url}config").text
    assert "Sign in" not in config
    assert "Publish" not in config
    assert httpx.get(f"{apps.waiting.url}login/huggingface").status_code == 404


@needs_chromium
def test_a_visitor_trains_signs_in_and_publishes(page, app, homes, loopback):
    page.get_by_role("tab", name="Retrain").click()
    expect(page.locator("#publish")).to_have_count(0)
    page.get_by_label("Steps", exact=True).fill("2000")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#before-after video")).to_have_count(2)

    page.get_by_role("button", name="Publish to my account").click()
    expect(page.get_by_text("Sign in with Hugging Face first")).to_be_visible()
    with leaving(page):
        page.get_by_role("button", name="Sign in to publish").click()
        expect(page.get_by_role("button", name="Sign out (tester)")).to_be_visible()  # it has been left and is back
    status = page.locator("#train-status")
    expect(status).to_contain_text("Trained in")
    expect(page.get_by_label("Steps", exact=True)).to_have_value("2000")

    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))
    loopback.fail("POST /api/repos/create", 403)
    page.get_by_role("button", name="Publish to my account").click()
    expect(status).to_contain_text("Your agent is still here: try again, sign out and in, or download it.")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the checkpoint").click()
    assert download.value.suggested_filename == "cartpole-a3c.zip"

    page.get_by_role("button", name="Publish to my account").click()
    link = status.get_by_role("link", name="tester/a3c-CartPole-v1")
    expect(link).to_have_attribute("href", f"{loopback.url}/tester/a3c-CartPole-v1")
    files = loopback.files("tester/a3c-CartPole-v1")
    assert {"README.md", "config.json", "model.safetensors", "recipe.json", "replay.mp4", "results.json"} <= set(files)
    assert len(json.loads(files["results.json"])["returns"]) == publishing.GAMES

    assert [cookie["httpOnly"] for cookie in page.context.cookies()] == [True]  # the visitor's own, for no script
    assert [place for place, text in within_reach(page, responses).items() if not hidden(TOKEN, text)] == []
    assert hidden(TOKEN, app.output.read_text())
    assert complaint(app) == ""
    written = [path for path in homes["connected"]["directory"].rglob("*") if path.is_file()]
    assert [path for path in written if not hidden(TOKEN, path.read_bytes().decode(errors="replace"))] == []
    with leaving(page):
        page.get_by_role("button", name="Sign out (tester)").click()
        expect(page.get_by_role("button", name="Sign in to publish")).to_be_visible()
        page.goto(f"{app.url}?tab=how")  # who has not left to sign in goes where the link leads
    expect(page.get_by_role("tab", name="How it works")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#sign-in")).to_be_hidden()


def within_reach(page: Page, responses: list[Response]) -> dict[str, str]:
    """All that the page knows, and all that it was answered but its cookie."""
    kept = "document.cookie + JSON.stringify([localStorage, sessionStorage, window.gradio_config])"
    ended = [
        each for each in responses if each.headers.get("content-type", "").startswith(("text/html", "application"))
    ]
    fetched = {path: page.evaluate("path => fetch(path).then(a => a.text())", path) for path in ("/", "/config")}
    return {"page": page.content(), "kept": page.evaluate(kept)} | fetched | {a.url: a.text() for a in ended}


def hidden(token: str, text: str) -> bool:
    """Whether a token is nowhere in a text, nor in its base64, whatever stands around it."""
    coded = [base64.b64encode(b" " * shift + token.encode())[4:-4].decode() for shift in range(3)]
    return not any(form in text for form in (token, *coded))


# Spaces


def test_a_zero_gpu_space_finds_its_function(app, homes):
    assert (homes["connected"]["directory"] / "asked for a GPU").exists()
    assert not list(homes["waiting"]["directory"].glob("asked for*"))


# What was asked for at the beginning


@pytest.mark.parametrize("agent", ELSEWHERE)
def test_a_hub_that_is_silent_is_explained_in_time(apps, answers, agent):
    said = answers[agent].result(60)
    assert "the Hub did not answer in time: check the network, or try again later." in said.sentence
    assert said.seconds < hub.FETCH_SECONDS + SLACK
    assert complaint(apps.waiting) == ""


def test_the_apps_asked_no_other_machine(apps):
    assert [app.asked.read_text() for app in apps] == ["", ""]
