"""The zoo on the Hub, with the real client: what is published comes back bit by bit, and is found again."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from dataclasses import replace
from itertools import islice
from pathlib import Path

import imageio.v3 as iio
import pytest
import torch
import yaml
from huggingface_hub import HfApi, ModelCard

import training.__main__ as cli
import zoo
from a3c_core.checkpoint import MODEL, RECIPE, SNAPSHOTS, CheckpointError
from playback.episode import play
from tests.loopback_hub import BLACK_HOLE, RESET, SLOW, environment
from tests.processes import wait_until
from training.publish import CARD, REPLAY, RESULTS, Publication, assemble_records, publish
from zoo import hub
from zoo.entry import CONFIG, checkpoint_files, hash_of, write_entry
from zoo.loading import agent_files
from zoo.space import assemble as stage_space

ROOT = Path(__file__).parents[1]
THEIRS, MINE = "stranger/agent", "tester/agent"
ENTRY = pytest.mark.parametrize("entry", zoo.entries().values(), ids=zoo.entries())


def shipped(entry):
    """An agent of the zoo as it is published where its games need not be played again."""
    return Publication(entry, entry.open(), entry.directory, entry.scores)


def weights_of(agent):
    return torch.nn.utils.parameters_to_vector(agent.model.parameters()).detach()


def same(agent, other):
    return agent[::2] == other[::2] and torch.equal(weights_of(agent), weights_of(other))


# What is published


@ENTRY
def test_an_agent_of_the_zoo_comes_back_bit_by_bit_with_its_story(entry, server, tmp_path):
    repo = hub.repository_of(entry.name, entry.recipe.env, "tester")
    assemble_records(shipped(entry), repo, tmp_path / "staged")
    hub.publish(tmp_path / "staged", repo, private=False, message="Agent")
    for percent in entry.snapshots[-2:]:
        assert same(zoo.load(repo, percent), entry.open(percent))
    assert {file: hash_of(path) for file, path in agent_files(repo).items() if file != CONFIG} == entry.sha256
    assert zoo.find(repo) == replace(entry, published=None)

    card = ModelCard.load(repo)
    card.validate()
    assert (card.data.license, card.data.library_name) == ("mit", "a3c-arcade")
    assert {hub.TAG, entry.recipe.env, "reinforcement-learning"} <= set(card.data.tags)
    assert [(result.dataset_name, result.metric_value) for result in card.data.eval_results] == [
        (entry.recipe.env, f"{score.mean:.2f} +/- {score.std:.2f}") for score in entry.scores
    ]
    (index,) = HfApi().model_info(repo).card_data.to_dict()["model-index"]
    assert (index["name"].lower(), index["results"][0]["dataset"]["name"]) == ("a3c", entry.recipe.env)

    results = json.loads(server.files(repo)[RESULTS])
    assert {"mean_reward", "std_reward", "is_deterministic", "n_eval_episodes", "eval_datetime"} <= set(results)
    assert (results["mean_reward"], results["env_id"]) == (entry.score.mean, entry.recipe.env)
    assert [other["protocol"] for other in results["other_protocols"]] == ["sticky"] * bool(entry.sticky_score)

    (code,) = re.findall(r"```python\n(.*?)```", card.text, re.DOTALL)
    names = {}
    exec(code, names)
    assert len([line for line in code.splitlines() if line]) == 6
    assert names["env"].observation_space.contains(names["obs"])


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, marks=() if name in ("cartpole", "pendulum") else pytest.mark.slow)
        for name, entry in zoo.entries().items()
    ],
    ids=zoo.entries(),
)
def test_publishing_plays_the_score_again_and_keeps_the_first_game_as_a_video(entry, server):
    publication = Publication.of_entry(entry, episodes=1, progress=lambda finished: None)
    copy = publish(publication, MINE)
    assert set(server.files(MINE)) == {".gitattributes", *copy.sha256}
    assert {*entry.sha256, CONFIG, CARD, RESULTS, REPLAY, "log.jsonl"} <= set(copy.sha256)
    assert (copy.repo, copy.revision) == (MINE, server.repos["model", MINE].commits[-1].oid)
    video = hub.HfApi().hf_hub_download(MINE, REPLAY)
    steps = len(play(entry.open(), entry.score.first_seed, greedy=entry.score.greedy).actions)
    told = iio.immeta(video, plugin="FFMPEG")
    assert (told["codec"], told["fps"] * told["duration"] >= steps) == ("h264", True)
    first, later = islice(iio.imiter(video, plugin="FFMPEG"), 0, 20, 19)
    assert (first != later).any()


def test_the_next_version_replaces_all_files_and_has_the_next_tag(server, folder, repository):
    first = hub.publish(folder, MINE, private=False, message="One")
    assert hub.publish(folder, MINE, private=False, message="Again") == first
    shutil.rmtree(folder / SNAPSHOTS)
    (folder / CARD).write_text("---\ntags: [a3c-arcade]\n---\nNew words.\n")
    second = hub.publish(folder, MINE, private=False, message="Two")
    assert server.repos["model", MINE].tags == {"v1": first, "v2": second}
    assert [commit.title for commit in server.repos["model", MINE].commits[1:]] == ["One", "Two"]
    assert not [file for file in server.files(MINE) if file.startswith(SNAPSHOTS)]
    assert server.files(MINE, "v1").items() >= repository.items()


def test_a_private_agent_stays_private(server, folder, monkeypatch):
    hub.publish(folder, MINE, private=True, message="Secret")
    assert zoo.load(MINE).steps == 1000
    monkeypatch.setenv("HF_TOKEN", "")
    with pytest.raises(hub.HubError, match="or it is private: check the name, or sign in"):
        zoo.load(MINE)


def test_what_is_public_is_not_published_as_private(server, folder):
    hub.publish(folder, MINE, private=False, message="For all")
    (folder / CARD).write_text("---\ntags: [a3c-arcade]\n---\nSecret words.\n")
    with pytest.raises(hub.HubError, match="is public already: make it private on the Hub first"):
        hub.publish(folder, MINE, private=True, message="Secret")
    assert b"Secret" not in server.files(MINE)[CARD]


def test_of_two_who_publish_at_once_the_later_is_told_to_do_it_again(server, folder, tmp_path):
    hub.publish(folder, MINE, private=False, message="One")
    other = shutil.copytree(folder, tmp_path / "other")
    (folder / RESULTS).write_text("{}")
    (other / RESULTS).write_text("[]")
    server.fail("POST .*/commit/", SLOW, seconds=1.0)
    errors = []

    def publish_slowly():
        try:
            hub.publish(folder, MINE, private=False, message="Late")
        except hub.HubError as error:
            errors.append(str(error))

    slow = threading.Thread(target=publish_slowly)
    slow.start()
    assert wait_until(lambda: ("POST", f"/api/models/{MINE}/commit/main") in server.requests[-1:], 30.0)
    hub.publish(other, MINE, private=False, message="Quick")
    slow.join()
    assert len(errors) == 1
    assert "somebody else changed the repository at the same time: try again" in errors[0]
    assert server.files(MINE)[RESULTS] == b"[]"
    hub.publish(folder, MINE, private=False, message="Late")
    assert [commit.title for commit in server.repos["model", MINE].commits[1:]] == ["One", "Quick", "Late"]
    assert sorted(server.repos["model", MINE].tags) == ["v1", "v2", "v3"]


KILLED = """
import sys
import zoo.entry
from pathlib import Path
zoo.entry.ENTRIES, zoo.entry.WEIGHTS = Path(sys.argv[1], "entries"), Path(sys.argv[1], "weights")
from training.__main__ import main
main(["publish", "beginner", "--namespace", "tester"])
"""


def test_what_a_killed_process_began_is_completed_by_the_next(server, beginner, empty_zoo, tmp_path):
    record = empty_zoo / "entries" / "beginner.json"
    before = record.read_bytes()
    server.fail("POST .*/commit/", SLOW, seconds=1.0)
    env = os.environ | environment(server.url, tmp_path / "other") | {"HF_TOKEN": server.token}
    with subprocess.Popen([sys.executable, "-c", KILLED, empty_zoo], cwd=ROOT, env=env) as process:
        try:
            assert wait_until(lambda: any("/commit/" in path for _, path in server.requests), 90.0)
        finally:
            process.send_signal(signal.SIGKILL)
    assert record.read_bytes() == before
    (repo,) = server.repos.values()
    assert wait_until(lambda: len(repo.commits) == 2, 30.0), "the Hub makes the commit after all"
    assert not repo.tags

    cli.main(["publish", "beginner", "--namespace", "tester"])
    copy = zoo.entries()["beginner"].published
    assert repo.tags == {"v1": copy.revision}
    assert repo.commits[-1].oid == copy.revision
    assert set(server.files(repo.repo_id)) == {".gitattributes", *copy.sha256}
    assert same(zoo.load(repo.repo_id), zoo.load("beginner"))


@pytest.mark.parametrize("fault", [None, 401, 403, 503, RESET, BLACK_HOLE], ids=str)
def test_nobody_gets_to_see_the_token(server, beginner, empty_zoo, monkeypatch, tmp_path, capfd, caplog, fault):
    monkeypatch.setattr(hub, "PUBLISH_SECONDS", 60.0 if fault is not BLACK_HOLE else 0.5)
    if fault:
        server.fail("POST .*/commit/|GET .*/resolve/", fault, None)
    told = []
    for call in (lambda: cli.main(["publish", "beginner", "--namespace", "tester"]), lambda: agent_files(MINE)):
        try:
            call()
        except (SystemExit, OSError) as error:
            told += traceback.format_exception(error)
            while error:
                told += [repr(error), repr(vars(error))]
                error = error.__cause__ or error.__context__
    captured = capfd.readouterr()
    assert server.token not in "".join([*told, captured.out, captured.err, caplog.text])
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    files += [content for repo in server.repos.values() for commit in repo.commits for content in commit.files.values()]
    assert not [content for content in files if server.token.encode() in content]


# Where an agent comes from


def test_a_commit_that_is_in_the_cache_costs_no_request(server, repository):
    commit = server.put(THEIRS, repository)
    agent = zoo.load(THEIRS, revision=commit)
    server.requests.clear()
    assert same(zoo.load(THEIRS, revision=commit), agent)
    assert server.requests == []
    server.close()
    assert same(zoo.load(THEIRS, revision=commit), agent)


def test_the_readmes_python_runs_as_printed(server, repository):
    _, _, code, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    commit = server.put("user/a3c-CartPole-v1", repository)
    server.repos["model", "user/a3c-CartPole-v1"].tags["v1"] = commit
    names = {}
    exec(code, names)
    assert names["agent"].steps == 1000


def test_a_branch_moves_on_and_a_tag_stays(server, repository):
    commit = server.put(THEIRS, repository)
    server.repos["model", THEIRS].tags["v1"] = commit
    assert zoo.load(THEIRS).steps == 1000
    recipe = json.loads(repository[RECIPE])
    server.put(THEIRS, {RECIPE: json.dumps(recipe | {"steps": 2000}).encode()})
    assert [zoo.load(THEIRS, revision=revision).steps for revision in (None, "main", "v1", commit)] == [
        2000,
        2000,
        1000,
        1000,
    ]


def test_what_was_damaged_in_the_cache_is_noticed_and_fetched_again(server, repository):
    commit = server.put(THEIRS, repository)
    for file in checkpoint_files():
        path = hub.fetch(THEIRS, checkpoint_files(), commit)[file]
        path.resolve().write_bytes(path.read_bytes()[:-1] + b"!")
        with pytest.raises(CheckpointError, match=f"{file} of {THEIRS} came damaged .* try again"):
            zoo.load(THEIRS, revision=commit)
        assert zoo.load(THEIRS, revision=commit).steps == 1000


def test_the_snapshots_of_anybodys_agent_open(server, repository):
    server.put(THEIRS, repository)
    assert [zoo.load(THEIRS, percent).steps for percent in (0, 5, 25, 100)] == [0, 50, 250, 1000]
    with pytest.raises(CheckpointError, match=f"{THEIRS} has no snapshots/7/recipe.json"):
        zoo.load(THEIRS, 7)


def test_what_ships_with_the_zoo_is_not_fetched(server, published):
    assert [zoo.load("beginner", percent).steps for percent in published.snapshots] == [0, 50, 250, 1000]
    assert zoo.find("beginner") == published
    assert server.requests == []


def test_an_agent_that_does_not_ship_with_the_zoo_is_fetched_once(server, published):
    shipped = {percent: published.open(percent) for percent in published.snapshots}
    shutil.rmtree(published.directory)
    for _ in range(2):
        for percent, agent in shipped.items():
            assert same(zoo.load("beginner", percent), agent)
    assert len([path for method, path in server.requests if method == "GET" and "/resolve/" in path]) == 6


def test_a_fetched_agent_must_be_the_one_that_the_record_names(server, published, repository):
    shutil.rmtree(published.directory)
    recipe = json.loads(repository[RECIPE])
    changed = server.put(published.published.repo, {RECIPE: json.dumps(recipe | {"steps": 9}).encode()})
    write_entry(replace(published, published=replace(published.published, revision=changed)))
    with pytest.raises(CheckpointError, match=f"{RECIPE} is not the file that beginner's record names"):
        zoo.load("beginner")


def test_whose_agents_are_meant(server, published, monkeypatch, repository):
    for user in ("given", "set", "author"):
        server.put(f"{user}/a3c-CartPole-v1-beginner", repository)
    with pytest.raises(hub.HubError, match="whose agents"):
        hub.namespace_of(None)
    for variable, user in (("SPACE_AUTHOR_NAME", "author"), ("A3C_ZOO_NAMESPACE", "set")):
        monkeypatch.setenv(variable, user)
        assert hub.namespace_of(None) == user
        assert hub.namespace_of("given") == "given"
    assert zoo.repository("beginner") == published.published.repo
    assert zoo.repository("beginner", "given") == "given/a3c-CartPole-v1-beginner"
    write_entry(replace(published, published=None))
    assert zoo.repository("beginner") == "set/a3c-CartPole-v1-beginner"
    assert zoo.load("beginner", namespace="given").steps == 1000
    assert server.requests[-1][1].startswith("/given/")


@pytest.mark.parametrize(
    ("name", "env", "repo"),
    [
        ("cartpole", "CartPole-v1", "a3c-CartPole-v1"),
        ("cartpole-small", "CartPole-v1", "a3c-CartPole-v1-small"),
        ("cartpole2", "CartPole-v1", "a3c-CartPole-v1-2"),
        ("beginner", "CartPole-v1", "a3c-CartPole-v1-beginner"),
        ("pong", "ALE/Pong-v5", "a3c-ALE-Pong-v5"),
        ("pong_lstm", "ALE/Pong-v5", "a3c-ALE-Pong-v5-lstm"),
        ("space_invaders", "ALE/SpaceInvaders-v5", "a3c-ALE-SpaceInvaders-v5"),
        ("spaceinvaders", "ALE/SpaceInvaders-v5", "a3c-ALE-SpaceInvaders-v5"),
    ],
)
def test_the_names_of_repositories(name, env, repo):
    assert hub.repository_of(name, env, "tester") == f"tester/{repo}"


@pytest.mark.parametrize(
    ("text", "repo"),
    [
        ("user/name", "user/name"),
        (" user/name\n", "user/name"),
        ("A-1/b_2.c", "A-1/b_2.c"),
        ("https://huggingface.co/user/name", "user/name"),
        ("https://huggingface.co/user/name/tree/v1?x=1#files", "user/name"),
        ("huggingface.co/user/name/", "user/name"),
        ("hf.co/user/name", "user/name"),
        *dict.fromkeys(
            [
                *("", " ", "user", "user/", "/", "//", "https://huggingface.co/user", "https://huggingface.co"),
                *("../name", "./name", "user/..", "user/a..b", "user/.name", "http://[", "user/na me", "user/näme"),
                *("user/name\0", "user\n/name", "user/\x1b[2J", "<b>/<i>", "user/" + 97 * "n", "C:\\user\\name"),
                *("https://huggingface.co/spaces/user/name", "https://huggingface.co/datasets/user/name"),
            ]
        ).items(),
    ],
)
def test_a_repository_is_told_from_rubbish(text, repo):
    assert hub.repository(text) == repo


def test_a_name_that_the_hub_cannot_have_is_refused_at_once(server, folder):
    with pytest.raises(hub.HubError, match="the Hub has no such names: use letters"):
        hub.publish(folder, "a b/agent", private=False, message="Agent")
    assert server.requests == []


# What else there is on the Hub


def test_a_listing_has_the_agents_of_our_format_by_name(server, published, repository):
    for repo in ("tester/b", "tester/a", "stranger/c"):
        server.put(repo, repository)
    server.put("tester/other", {CARD: b"---\ntags: [a3c]\n---\n", **dict.fromkeys(checkpoint_files(), b"")})
    server.put("tester/bare", {CARD: b"---\ntags: [a3c-arcade]\n---\n"})
    server.repos["model", "tester/a"].downloads = 7
    found = hub.listing("tester")
    assert [agent.repo for agent in found] == ["tester/a", published.published.repo, "tester/b", "tester/bare"]
    assert found[0] == ("tester/a", "CartPole-v1", found[1].score, 7, server.repos["model", "tester/a"].commits[-1].oid)
    assert re.fullmatch(r"\d+\.\d\d \+/- \d+\.\d\d", found[0].score)
    assert found[3][1:4] == ("", "", 0)
    assert hub.listing("nobody") == []


def test_a_collection_is_filled_once(server, repository):
    for repo in ("tester/a", "tester/b"):
        server.put(repo, repository)
    server.fail("POST .*/items", 503)
    slugs = {hub.collect("tester", "A3C Arcade", repos) for repos in (["tester/a"], ["tester/a", "tester/b"])}
    assert slugs == set(server.collections)
    (collection,) = server.collections.values()
    assert [item["id"] for item in collection["items"]] == ["tester/a", "tester/b"]


@pytest.mark.parametrize("hardware", [None, "zero-a10g"])
def test_a_space_has_what_the_page_needs_and_nothing_else(server, published, tmp_path, hardware):
    stage_space(tmp_path / "space", zoo.entries())
    for _ in range(2):
        url = hub.deploy_space(tmp_path / "space", "tester/arcade", sdk="gradio", hardware=hardware, private=False)
    assert url == f"{server.url}/spaces/tester/arcade"
    space = server.repos["space", "tester/arcade"]
    assert (space.settings["sdk"], space.settings.get("hardware")) == ("gradio", hardware)
    assert len(space.commits) == 2
    files = server.files("tester/arcade", repo_type="space")
    needed = {"app.py", "requirements.txt", "README.md", "LICENSE", "zoo/hub.py", "ui/how/records.json"}
    assert needed <= set(files)
    assert {name.split("/")[0] for name in files}.isdisjoint({"tests", "benchmarks", "runs", ".venv", ".git"})
    assert not [name for name in files if "__pycache__" in name]
    front = yaml.safe_load(files["README.md"].decode().split("---\n")[1])
    assert (front["sdk"], front["python_version"]) == ("gradio", "3.12.12")  # ZeroGPU takes no other above 3.10
    torch = [line for line in files["requirements.txt"].decode().splitlines() if line.startswith("torch")]
    assert torch == ["torch==2.11.0"]  # nor any above this one
    assert front["models"] == [published.published.repo]
    assert front["preload_from_hub"] == [f"{published.published.repo} {MODEL},{RECIPE} {published.published.revision}"]


def test_a_space_of_agents_that_are_not_published_preloads_nothing(tmp_path, beginner):
    stage_space(tmp_path / "space", zoo.entries())
    front = yaml.safe_load((tmp_path / "space" / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    assert {"models", "preload_from_hub"}.isdisjoint(front)


def test_an_installed_package_makes_no_space(tmp_path, monkeypatch):
    monkeypatch.setattr("zoo.space.IN_CHECKOUT", False)
    with pytest.raises(ValueError, match="run this in a checkout of A3C Arcade"):
        stage_space(tmp_path / "space", {})


def test_who_has_no_plan_for_spaces_is_told_of_those_that_need_none(server, tmp_path):
    (tmp_path / "app.py").write_text("")
    server.fail("POST /api/repos/create", 402)
    with pytest.raises(
        hub.HubError, match=r"cannot create the Space tester/arcade: .* PRO, or ZeroGPU .*zero-a10g\), .*billing\)\.$"
    ):
        hub.deploy_space(tmp_path, "tester/arcade", sdk="gradio", hardware=None, private=False)


def test_an_upload_that_meets_silence_leaves_no_thread_that_keeps_the_process_from_ending(
    server, beginner, repository, tmp_path, monkeypatch
):
    monkeypatch.setattr(hub, "STALL_SECONDS", 0.2)
    server.fail("PUT ", BLACK_HOLE, None)
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / MODEL).write_bytes(repository[MODEL])
    before = set(threading.enumerate())
    with pytest.raises(hub.HubError, match="check the network, or try again later"):
        hub.publish(tmp_path / "agent", "tester/silence", private=False, message="Nothing", seconds=60.0)
    left = {thread for thread in set(threading.enumerate()) - before if not thread.daemon}
    assert wait_until(lambda: not any(thread.is_alive() for thread in left), 10)
