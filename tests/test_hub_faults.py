"""Whatever goes wrong on the way to the Hub: a call ends in time, in what was asked for or in a line of advice."""

import re
import time

import pytest
from huggingface_hub import constants

import training.__main__ as cli
import zoo
from a3c_core.checkpoint import CheckpointError
from tests.loopback_hub import BLACK_HOLE, RESET, SLOW, TRUNCATED, WRONG_BYTES
from zoo import hub
from zoo.entry import checkpoint_files

THEIRS, MINE = "stranger/agent", "tester/agent"
DEADLINE, SLACK = 0.5, 5.0
"""Seconds that a call has where nobody answers, and that a busy machine may add."""

ADVICE = {
    401: "sign in again (on the command line: `hf auth login`, or HF_TOKEN)",
    402: "--hardware zero-a10g",
    403: "take one that may write to this namespace",
    404: "check the name, or sign in (on the command line: `hf auth login`)",
    409: "choose another name",
    412: "try again",
    429: "try again in a few minutes",
    500: "try again in a few minutes",
    503: "try again in a few minutes",
    RESET: "check the network, or try again later",
    TRUNCATED: "check the network, or try again later",
    WRONG_BYTES: "try again",
    BLACK_HOLE: "check the network, or try again later",
}
PLANS = [
    *((fault, 1, "well") for fault in (429, 500, 503, RESET, TRUNCATED, SLOW)),
    *((fault, 1, "badly") for fault in (401, 402, 403, 404, 409, 412, BLACK_HOLE)),
    *((fault, None, "badly") for fault in (429, 500, 503, RESET)),
    *((fault, None, "either") for fault in (TRUNCATED, WRONG_BYTES, SLOW)),
    (WRONG_BYTES, 1, "either"),
]
"""What goes wrong, how often (None: for ever), and how the call ends."""
FEW_PLANS = [(503, 1, "well"), (403, 1, "badly"), (RESET, None, "badly"), (BLACK_HOLE, 1, "badly")]
DOWNLOADING = {
    "find": "GET /api/models/[^/]+/[^/]+$",
    "look": "GET .*/revision/",
    "ask": "HEAD .*/resolve/",
    "get": "GET .*/resolve/",
}
PUBLISHING = {
    "create": "POST /api/repos/create",
    "look": "GET /api/models/[^/]+/[^/]+$",
    "announce": "POST .*/preupload/",
    "upload": "PUT /large/",
    "commit": "POST .*/commit/",
    "tag": "POST .*/tag/",
}
DONE_ALL_THE_SAME = {("upload", RESET), ("commit", RESET)}
"""The answer is lost, and another try finds that the work is done."""


def name_of(value):
    return getattr(value, "name", None)


def table(places, *decisive):
    """A decorator: all plans at the decisive places, a few at the others."""
    rows = [(place, *plan) for place in places for plan in (PLANS if place in decisive else FEW_PLANS)]
    return pytest.mark.parametrize(("place", "fault", "times", "ends"), rows, ids=name_of)


def attempt(call, fault, ends):
    """Makes a call that has a deadline, and checks that it ended in time and as it should."""
    started = time.monotonic()
    try:
        result, error = call(seconds=DEADLINE if fault is BLACK_HOLE else 60.0), None
    except (hub.HubError, CheckpointError) as caught:
        result, error = None, caught
    elapsed = time.monotonic() - started
    assert elapsed < (DEADLINE + SLACK if fault is BLACK_HOLE else 20.0)
    assert ends == "either" or (error is None) == (ends == "well"), error
    if error:
        assert_advises(error, ADVICE[fault])
    return result


def assert_advises(error, advice):
    assert re.fullmatch(r"[^\n]+\.", str(error)), "one line"
    assert advice in str(error)


@pytest.fixture(autouse=True)
def short_of_patience(monkeypatch):
    """The client itself gives a download up sooner, which then holds the lock of its file no longer."""
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 2 * DEADLINE)


@table(DOWNLOADING, "find", "get")
def test_a_download(server, repository, place, fault, times, ends):
    server.put(THEIRS, repository)
    server.fail(DOWNLOADING[place], fault, times, headers={"Retry-After": "2"}, seconds=0.1)
    files = attempt(lambda seconds: hub.fetch(THEIRS, checkpoint_files(), seconds=seconds), fault, ends)
    server.clear_faults()
    for fetched in filter(None, (files, hub.fetch(THEIRS, checkpoint_files()))):
        assert {file: path.read_bytes() for file, path in fetched.items()} == {
            file: repository[file] for file in checkpoint_files()
        }
    assert zoo.load(THEIRS).steps == 1000


@table(PUBLISHING, "upload", "commit")
def test_publishing(server, folder, repository, place, fault, times, ends):
    server.fail(PUBLISHING[place], fault, times, headers={"Retry-After": "2"}, seconds=0.1)
    ends = "either" if (place, fault) in DONE_ALL_THE_SAME else ends

    def publish(seconds=60.0):
        return hub.publish(folder, MINE, private=False, message="The agent", seconds=seconds)

    published = attempt(publish, fault, ends)
    assert all(len(files) in (0, len(repository)) for files in commits_of(server))
    server.clear_faults()
    revision = publish()
    assert published in (None, revision)
    assert commits_of(server) == [{}, repository], "one commit, which has it all"
    assert server.repos["model", MINE].tags == {"v1": revision}
    assert zoo.load(MINE, revision=revision).steps == 1000


def commits_of(server):
    """The files of each commit of my repository, but the one that the Hub begins with."""
    repo = server.repos.get(("model", MINE))
    return [
        {file: content for file, content in commit.files.items() if file != ".gitattributes"}
        for commit in (repo.commits if repo else ())
    ]


@pytest.mark.parametrize("fault", [429, 503, RESET, BLACK_HOLE], ids=str)
def test_a_branch_is_that_of_the_cache_where_the_hub_is_away(server, repository, monkeypatch, fault):
    monkeypatch.setattr(hub, "ANSWER_SECONDS", DEADLINE)
    server.put(THEIRS, repository)
    zoo.load(THEIRS)
    server.fail("", fault, None)
    started = time.monotonic()
    assert zoo.load(THEIRS).steps == 1000
    assert time.monotonic() - started < DEADLINE + SLACK


@pytest.mark.parametrize("fault", [401, 403, 404])
def test_a_branch_that_the_hub_refuses_is_not_taken_from_the_cache(server, repository, fault):
    server.put(THEIRS, repository)
    zoo.load(THEIRS)
    server.fail("GET", fault, None)
    with pytest.raises(hub.HubError) as caught:
        zoo.load(THEIRS)
    assert_advises(caught.value, ADVICE[fault])


def test_a_repository_that_is_hidden_is_said_to_be_missing(server):
    server.fail("GET", 401, None, headers={"X-Error-Code": "RepoNotFound"})
    with pytest.raises(hub.HubError) as caught:
        zoo.load(THEIRS)
    assert_advises(caught.value, ADVICE[404])


def test_a_file_that_was_missing_once_is_not_missing_for_ever(server, repository):
    commit = server.put(THEIRS, repository)
    missing = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}
    server.fail("HEAD", 404, headers=missing)
    with pytest.raises(hub.HubError) as caught:
        hub.fetch(THEIRS, checkpoint_files(), commit)
    assert_advises(caught.value, ADVICE[404])
    assert zoo.load(THEIRS, revision=commit).steps == 1000


def test_a_closed_hub_and_a_full_disk(server, repository, monkeypatch):
    server.put(THEIRS, repository)
    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub.file_download.http_get", full_disk)
        with pytest.raises(hub.HubError, match="the disk is full: free some space"):
            zoo.load(THEIRS)
    server.close()
    with pytest.raises(hub.HubError) as caught:
        zoo.load(THEIRS)
    assert_advises(caught.value, "check the network")


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("place", "fault", "times"),
    [
        ("create", 403, 1),
        ("look", 500, None),
        ("announce", BLACK_HOLE, 1),
        ("upload", 503, None),
        ("commit", 412, 1),
        ("commit", BLACK_HOLE, 1),
        ("tag", RESET, None),
    ],
    ids=name_of,
)
def test_a_record_names_a_copy_only_when_it_is_whole(server, beginner, empty_zoo, monkeypatch, place, fault, times):
    monkeypatch.setattr(hub, "PUBLISH_SECONDS", 60.0 if fault is not BLACK_HOLE else DEADLINE)
    record = empty_zoo / "entries" / "beginner.json"
    before = record.read_bytes()
    server.fail(PUBLISHING[place], fault, times)
    with pytest.raises(SystemExit) as caught:
        cli.main(["publish", "beginner", "--namespace", "tester"])
    assert_advises(caught.value, ADVICE[fault])
    assert str(caught.value).startswith("error: cannot ")
    assert record.read_bytes() == before

    server.clear_faults()
    monkeypatch.setattr(hub, "PUBLISH_SECONDS", 60.0)
    cli.main(["publish", "beginner", "--namespace", "tester"])
    published = zoo.entries()["beginner"].published
    repo = server.repos["model", published.repo]
    assert repo.tags[max(repo.tags)] == published.revision
    assert repo.commits[-1].oid == published.revision
    assert set(repo.commits[-1].files) == {".gitattributes", *published.sha256}
    assert all(len(commit.files) == len(repo.commits[-1].files) for commit in repo.commits[1:])
