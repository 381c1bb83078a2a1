"""Anybody can write a repository: whatever is in it, nothing of it runs, leaves its place or reaches the terminal."""

import hashlib
import io
import json
import pickle
import resource
import struct
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

import zoo
from a3c_core.checkpoint import MODEL, RECIPE, SNAPSHOTS, CheckpointError
from tests.loopback_hub import Blob, git_hash
from zoo import hub
from zoo.__main__ import main
from zoo.entry import CONFIG, checkpoint_files
from zoo.loading import agent_files
from zoo.verify import Contradiction, rescore

REPO = "stranger/agent"
NASTY = "\x1b[2J\x1b]0;owned\x07\r\n\u202e<script>alert(1)</script>{{7*7}}${7*7}"
"""Clears the screen, names the window, rings, turns the writing round, and what pages and templates might run."""


def forged(repository, *, files=None, recipe=None, config=None):
    """A repository whose only flaw is what is given: the record's hashes are those of its files."""
    made = dict(repository)
    record = json.loads(made[RECIPE])
    record["recipe"] |= recipe or {}
    made[RECIPE] = json.dumps(record).encode()
    made |= files or {}
    entry = json.loads(made[CONFIG])
    entry["recipe"] |= recipe or {}
    entry["sha256"] = {file: sha256(made[file]) for file in entry["sha256"]}
    made[CONFIG] = json.dumps(entry | (config or {})).encode()
    return made


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Payload:
    """Creates a file when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("unpickled"),)


def zipped():
    """As torch.save has it."""
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Payload()))
    return file.getvalue()


def nested(depth):
    return b'{"schema_version": 1, "steps": ' + depth * b"[" + depth * b"]" + b"}"


MEMORY = 500_000
"""Kilobytes that a refusal may take."""
BIAS = "value.0.bias"
WEIGHTS = {
    "pickle": (pickle.dumps(Payload()), "cannot read"),
    "pickle in a zip": (zipped(), "cannot read"),
    "nothing": (b"", "cannot read"),
    "a header of 10 TB": (struct.pack("<Q", 10 * 2**40) + b"{}", "header too large"),
    "a header that is cut short": (struct.pack("<Q", 2**20) + b"{}", "cannot read"),
    "a tensor of 10 TB": (
        safetensors({BIAS: {"dtype": "F32", "shape": [5 * 2**39], "data_offsets": [0, 10 * 2**40]}}),
        "cannot read",
    ),
    "a size that overflows": (
        safetensors({BIAS: {"dtype": "F32", "shape": [2**63, 2**63], "data_offsets": [0, 0]}}),
        "cannot read",
    ),
    "a deep header": (safetensors(100_000 * b"["), "cannot read"),
    "a type of its own": (
        safetensors({BIAS: {"dtype": NASTY, "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        "cannot read",
    ),
}
TENSORS = {
    "not a number": ({BIAS: torch.tensor([float("nan")])}, "not numbers"),
    "infinite": ({BIAS: torch.tensor([float("inf")])}, "not numbers"),
    "so large that sums overflow": ({BIAS: torch.tensor([3e38])}, "could overflow"),
    "another shape": ({BIAS: torch.zeros(2)}, r"has shape \(2,\), not \(1,\)"),
    "another type": ({BIAS: torch.zeros(1, dtype=torch.float64)}, "torch.float64"),
    "one too many": ({NASTY: torch.zeros(1)}, r"has an unknown tensor \?\[2J"),
    "one too few": ({BIAS: None}, "lacks tensor value.0.bias"),
}
RECIPES = {
    "a program": ({"env": "os:system"}, "unknown environment 'os:system'"),
    "a module": ({"env": "gymnasium.envs.toy_text:FrozenLakeEnv"}, "unknown environment"),
    "a registered environment": ({"env": "PongNoFrameskip-v4"}, "unknown environment"),
    "a module and an environment": ({"env": "this:CartPole-v1"}, "unknown environment"),
    "a path": ({"env": "ALE/../../../etc/passwd"}, "unknown environment"),
    "an environment for the terminal": ({"env": NASTY}, r"unknown environment '\\x1b"),
    "many workers": ({"workers": 10**9}, "workers: Input should be less"),
    "many environments": ({"envs_per_worker": 10**9}, "envs_per_worker: Input should be less"),
    "a large core": ({"core": "lstm", "core_size": 10**9}, "core_size: Input should be less"),
    "a wide layer": ({"head_layers": [10**9]}, r"head_layers\.0: Input should be less"),
    "many layers": ({"head_layers": 10**4 * [64]}, "head_layers: Tuple should have at most"),
    "many rollouts": ({"n_steps": 10**4 * [1]}, "n_steps: Tuple should have at most"),
    "an encoder for something else": ({"encoder": "nature"}, "can't read CartPole-v1"),
    "a field for the terminal": ({NASTY: 1}, r"\?\[2J"),
    "many fields": ({f"{n}": n for n in range(5_000)}, "Unexpected keyword"),
    "a discount that is no number": ({"gamma": float("nan")}, "gamma"),
    "steps without an end": ({"steps": 10**400}, "steps"),
}
RECIPE_FILES = {
    "deep": (nested(100_000), "not valid JSON"),
    "just as deep as can be read": (nested(900), "recipe.json"),
    "no JSON": (b"\xff\xfe\x1b[2J", "not valid JSON"),
    "a list": (b"[]", "no schema_version"),
    "a number of many digits": (b'{"schema_version": ' + 10_000 * b"9" + b"}", "not valid JSON"),
    "of a later version": (b'{"schema_version": 99}', "update A3C Arcade"),
}
BAD_AGENTS = [
    *(({"files": {MODEL: content}}, says) for content, says in WEIGHTS.values()),
    *(({"tensors": changes}, says) for changes, says in TENSORS.values()),
    *(({"recipe": changes}, says) for changes, says in RECIPES.values()),
    *(({"files": {RECIPE: content}}, says) for content, says in RECIPE_FILES.values()),
]
NAMES = [
    "../../evil",
    "../evil.json",
    "/tmp/evil.json",
    f"{SNAPSHOTS}/../../{MODEL}",
    f"{SNAPSHOTS}/5/../../../{RECIPE}",
    f"{SNAPSHOTS}/x/{MODEL}",
    f"{SNAPSHOTS}/100/{MODEL}",
    SNAPSHOTS,
    f"{MODEL}/x",
    f"{RECIPE}\n",
    f"..\\{MODEL}",
    "README.md",
    "resume.safetensors",
    NASTY,
    "",
]
"""Where files of an agent never are."""
RECORDS = {
    **{f"a file at {name!r}": ({"sha256": {name: 64 * "0"}}, "sha256") for name in NAMES},
    "no hashes": ({"sha256": {}}, "is not the file that its record names"),
    "other hashes": ({"sha256": dict.fromkeys(checkpoint_files(), 64 * "0")}, "not the file that its record names"),
    "a name that leads away": ({"name": "../../evil"}, "name"),
    "a name for the terminal": ({"name": NASTY}, "name"),
    "a long summary": ({"summary": 301 * "x"}, "summary"),
    "a field for the terminal": ({NASTY: 1}, r"\?\[2J"),
    "a field too many": ({"code": "import os"}, "code: Unexpected"),
    "endless hours": ({"hours": float("inf")}, "hours"),
    "deep": ({"summary": json.loads(150 * "[" + 150 * "]")}, "config.json"),
}


@pytest.fixture
def around(tmp_path, monkeypatch):
    """The files that there are, but for the Hub's cache; an agent may be laid into `to` alone."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def files():
        kept = (tmp_path / "home", tmp_path / "to")
        return {path for path in tmp_path.rglob("*") if not any(path.is_relative_to(place) for place in kept)}

    before, evil = files(), Path("/tmp/evil.json")
    yield tmp_path
    assert files() == before
    assert not evil.exists()


def ended(monkeypatch, capfd, *argv):
    """How a command of the zoo ended, None where it did its work; what it prints can do a terminal no harm."""
    monkeypatch.setattr(sys, "argv", ["zoo", *map(str, argv)])
    error = None
    try:
        main()
    except SystemExit as caught:
        error = str(caught)
        assert_inert(error)
        assert "\n" not in error
        assert error.startswith("error: ")
        assert len(error) < 2000
    told = capfd.readouterr()
    assert_inert(told.out.replace("\n", ""))
    assert_inert(told.err.replace("\n", ""))
    return error, told.out


def assert_inert(text):
    assert not [letter for letter in text if not letter.isprintable()]


def commands(around):
    """The commands that take anybody's agent."""
    return [
        ("download", REPO, "--to", around / "to"),
        ("verify", REPO, "--episodes", 2),
        ("play", REPO, "--out", around / "to" / "game.mp4"),
    ]


@pytest.mark.parametrize(("flaw", "says"), BAD_AGENTS, ids=[*WEIGHTS, *TENSORS, *RECIPES, *RECIPE_FILES])
def test_an_agent_that_is_none_is_refused(server, repository, around, monkeypatch, capfd, flaw, says):
    if "tensors" in flaw:
        tensors = load(repository[MODEL]) | flaw["tensors"]
        flaw = {"files": {MODEL: save({name: tensor for name, tensor in tensors.items() if tensor is not None})}}
    server.put(REPO, forged(repository, **flaw))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match=says):
        zoo.load(REPO)
    for command in commands(around)[:2]:
        error, _ = ended(monkeypatch, capfd, *command)
        assert error
    assert not (around / "to").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY


def test_the_largest_network_that_a_recipe_can_ask_for_is_small(server, repository):
    server.put(REPO, forged(repository, recipe={"core": "lstm", "core_size": 1024, "head_layers": 4 * [1024]}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match="lacks tensor core"):
        zoo.load(REPO)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY


@pytest.mark.parametrize(("changes", "says"), RECORDS.values(), ids=RECORDS)
def test_a_record_that_is_none_is_refused(server, repository, around, monkeypatch, capfd, changes, says):
    server.put(REPO, forged(repository, config=changes) | dict.fromkeys(changes.get("sha256", ()), b"evil"))
    with pytest.raises(CheckpointError, match=says):
        agent_files(REPO)
    for command in commands(around)[:2]:
        error, _ = ended(monkeypatch, capfd, *command)
        assert error
    assert not (around / "to").exists()


@pytest.mark.parametrize("file", [MODEL, RECIPE, CONFIG, f"{SNAPSHOTS}/5/{MODEL}"])
def test_a_file_that_is_too_large_is_not_fetched(server, repository, around, monkeypatch, capfd, file):
    plain = Blob.of

    def boasting(path, content):
        blob = plain(path, content)
        return blob._replace(size=2**30) if path == file else blob

    server.put(REPO, repository)
    monkeypatch.setattr(Blob, "of", boasting)
    error, _ = ended(monkeypatch, capfd, "download", REPO, "--to", around / "to")
    assert f"{file} of {REPO} has 1,073,741,824 bytes, more than an agent's" in error
    assert not [path for _, path in server.requests if path.endswith(f"/{file}")]
    assert not (around / "to").exists()


@pytest.mark.parametrize(
    ("score", "says"),
    [
        ({"returns": [500.0, 500.0, 500.0]}, "claims 500.00 ± 0.00"),
        ({"returns": [float("nan")]}, "finite number"),
        ({"returns": [float("inf")]}, "finite number"),
        ({"returns": [1e308, 1e308]}, "less than or equal"),
        ({"returns": []}, "at least 1 item"),
        ({"steps": 9}, "after 9 steps"),
        ({"env": "Pendulum-v1"}, "on Pendulum-v1"),
        ({"env": NASTY}, r"on \?\[2J"),
        ({"protocol": "sticky"}, "classic protocol only"),
        ({"first_seed": 10**9}, "seeds must be between"),
        ({"first_seed": -1}, "first_seed"),
    ],
    ids=str,
)
def test_a_score_that_is_not_the_agents_is_contradicted(server, repository, around, monkeypatch, capfd, score, says):
    told = json.loads(repository[CONFIG])["score"]
    server.put(REPO, forged(repository, config={"score": told | score}))
    error, _ = ended(monkeypatch, capfd, "verify", REPO)
    assert says.replace("\\", "") in error


def test_a_few_games_contradict_neither_a_true_score_nor_excuse_a_false_one(beginner):
    agent, claim = beginner.open(), beginner.score
    for games in (1, 2, 3):
        (score,) = rescore(agent, [claim], episodes=games)
        assert score.returns == claim.returns[:games]
    with pytest.raises(Contradiction):
        rescore(agent, [claim.__class__(**vars(claim) | {"returns": (400.0, 500.0, 450.0)})], episodes=1)


def test_words_for_the_terminal_or_the_page_stay_in_the_repository(server, repository, around, monkeypatch, capfd):
    words = dict.fromkeys(("summary", "licence", "command", "machine"), NASTY)
    readme = f"---\n{json.dumps(card(NASTY, NASTY))}\n---\n{NASTY}".encode()
    server.put(REPO, forged(repository, config=words, files={"README.md": readme}))
    for command in (*commands(around), ("list", "--hub", "--namespace", "stranger")):
        (around / "to").mkdir(exist_ok=True)
        error, out = ended(monkeypatch, capfd, *command)
        assert error is None
        assert out
    error, out = ended(monkeypatch, capfd, "list", "--hub", "--json", "--namespace", "stranger")
    (agent,) = json.loads(out)
    assert_inert("".join(map(str, agent.values())))
    error, _ = ended(monkeypatch, capfd, "info", REPO)
    assert "no agent" in error
    assert {path.name for path in (around / "to").iterdir()} == {"agent", "game.mp4"}
    assert zoo.load(around / "to" / "agent").steps == 1000


def card(env, score):
    """The front matter of a model card."""
    result = {
        "task": {"type": "reinforcement-learning"},
        "dataset": {"name": env, "type": env},
        "metrics": [{"type": "mean_reward", "value": score}],
    }
    return {"tags": [hub.TAG], "model-index": [{"name": "A3C", "results": [result]}]}


@pytest.mark.parametrize(
    "index",
    [
        "x",
        {},
        [],
        [None],
        [{"name": "A3C"}],
        [{"name": "A3C", "results": []}],
        [{"name": "A3C", "results": [{"dataset": 1}]}],
        card({"a": [1]}, None)["model-index"],
        card(1, 10**400)["model-index"],
        card(10_000 * "x", "x")["model-index"],
    ],
    ids=lambda index: str(index)[:60],
)
def test_a_card_that_makes_no_sense_is_listed_all_the_same(server, monkeypatch, capfd, index):
    front = json.dumps({"tags": [hub.TAG], "model-index": index})
    server.put(REPO, {"README.md": f"---\n{front}\n---\n".encode()})
    error, out = ended(monkeypatch, capfd, "list", "--hub", "--namespace", "stranger")
    assert error is None
    _, row = out.splitlines()
    assert row.startswith(REPO)
    assert len(row) < 1000


@pytest.mark.parametrize("written", ["https://huggingface.co/stranger/agent/tree/main", f"{REPO}/..", f" {REPO} "])
def test_an_address_does_not_say_where_a_download_goes(server, repository, around, monkeypatch, capfd, written):
    server.put(REPO, repository)
    error, _ = ended(monkeypatch, capfd, "download", written, "--to", around / "to")
    assert error is None
    assert [path.name for path in (around / "to").iterdir()] == ["agent"]


def test_a_blob_that_is_not_what_its_hash_says_is_no_agents(server, repository, around):
    commit = server.put(REPO, repository)
    path = hub.fetch(REPO, checkpoint_files(), commit)[RECIPE]
    assert path.resolve().name == git_hash(repository[RECIPE])
    path.resolve().write_bytes(repository[RECIPE].replace(b"1000", b"2000"))
    with pytest.raises(CheckpointError, match="came damaged"):
        zoo.load(REPO, revision=commit)
