"""The Hub that tests talk to: the real client gets from it what it put there, and every fault does what it says."""

import hashlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.loopback_hub import (
    BLACK_HOLE,
    RESET,
    SLOW,
    TRUNCATED,
    WRONG_BYTES,
    LoopbackHub,
    environment,
    patched,
)

AGENT = "tester/agent"
CARD = b"---\nlibrary_name: a3c-arcade\npipeline_tag: reinforcement-learning\ntags: [a3c, Pong]\n---\n# Agent\n"
WEIGHTS = bytes(range(256)) * 40
FILES = {"README.md": CARD, "recipe.json": b"{}", "model.safetensors": WEIGHTS, "logs/events.1": b"\x00\x01"}


@pytest.fixture
def hub():
    with LoopbackHub() as hub:
        yield hub


@pytest.fixture
def slept(monkeypatch, hub, tmp_path):
    """The seconds that the client would have slept between attempts."""
    return patched(monkeypatch, hub, tmp_path / "home")


@pytest.fixture
def api(hub, slept):
    return HfApi(endpoint=hub.url, token=hub.token)


@pytest.fixture
def folder(tmp_path):
    for path, content in FILES.items():
        (tmp_path / "agent" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "agent" / path).write_bytes(content)
    return tmp_path / "agent"


def fetch(hub, name, **how):
    return Path(hf_hub_download(AGENT, name, endpoint=hub.url, **how)).read_bytes()


def test_a_folder_becomes_one_commit(hub, api, folder):
    assert api.create_repo(AGENT, exist_ok=True).repo_id == AGENT
    first = api.upload_folder(repo_id=AGENT, folder_path=folder)
    assert [commit.title for commit in hub.repos["model", AGENT].commits[1:]] == ["Upload folder using huggingface_hub"]
    assert hub.files(AGENT) == FILES | {".gitattributes": hub.files(AGENT)[".gitattributes"]}
    assert set(hub.large_files.values()) == {WEIGHTS, FILES["logs/events.1"]}

    assert api.upload_folder(repo_id=AGENT, folder_path=folder).oid == first.oid
    assert len(hub.repos["model", AGENT].commits) == 2

    (folder / "logs/events.1").rename(folder / "logs/events.2")
    before = len(hub.requests)
    api.upload_folder(repo_id=AGENT, folder_path=folder, delete_patterns=["logs/*"])
    assert set(hub.files(AGENT)) == {".gitattributes", *FILES, "logs/events.2"} - {"logs/events.1"}
    assert "PUT" not in [method for method, _ in hub.requests[before:]], "the content is there already"
    assert hub.files(AGENT, first.oid)["logs/events.1"] == FILES["logs/events.1"]


def test_a_commit_is_made_on_the_parent_that_it_names_or_not_at_all(hub, api):
    parent = hub.put(AGENT, FILES)
    change = [CommitOperationAdd("a.txt", b"a"), CommitOperationDelete("logs/")]
    commit = api.create_commit(AGENT, change, commit_message="Change", parent_commit=parent)
    assert "logs/events.1" not in hub.files(AGENT, commit.oid)
    with pytest.raises(HfHubHTTPError, match="412"):
        api.create_commit(AGENT, [CommitOperationAdd("b.txt", b"b")], commit_message="Late", parent_commit=parent)
    with pytest.raises(RemoteEntryNotFoundError):
        api.create_commit(AGENT, [CommitOperationDelete("none.txt")], commit_message="Nothing")
    assert api.model_info(AGENT).sha == commit.oid


def test_what_the_hub_tells_of_a_repository(hub, api):
    oid = hub.put(AGENT, FILES)
    api.create_tag(AGENT, tag="v1")
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_tag(AGENT, tag="v1")
    api.create_tag(AGENT, tag="v1", exist_ok=True)
    hub.put(AGENT, {"recipe.json": b'{"new": 1}'})
    assert [(tag.name, tag.target_commit) for tag in api.list_repo_refs(AGENT).tags] == [("v1", oid)]
    info = api.model_info(AGENT, revision="v1", files_metadata=True)
    assert info.sha == oid
    assert info.card_data.library_name == "a3c-arcade"
    files = {file.rfilename: file for file in info.siblings}
    assert files["model.safetensors"].lfs.sha256 == hashlib.sha256(WEIGHTS).hexdigest()
    assert files["model.safetensors"].size == len(WEIGHTS)
    assert files["recipe.json"].lfs is None
    assert sorted(api.list_repo_files(AGENT, revision=oid)) == sorted(files)


def test_what_is_not_there(hub, api):
    hub.put(AGENT, FILES)
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("tester/none")
    with pytest.raises(RevisionNotFoundError):
        api.model_info(AGENT, revision="v9")
    with pytest.raises(RemoteEntryNotFoundError):
        fetch(hub, "none.json")


def test_who_may_do_what(hub, api):
    api.create_repo(AGENT, private=True)
    assert api.whoami()["name"] == "tester"
    stranger = HfApi(endpoint=hub.url, token=False)
    with pytest.raises(RepositoryNotFoundError):
        stranger.model_info(AGENT)
    assert list(stranger.list_models(author="tester")) == []
    for refused, who, repo_id in (
        ("401", stranger, "tester/other"),
        ("403", api, "another/agent"),
        ("401", HfApi(endpoint=hub.url, token="hf_wrong"), "tester/other"),
    ):
        with pytest.raises(HfHubHTTPError, match=refused):
            who.create_repo(repo_id)
    hub.put("another/agent", FILES)
    with pytest.raises(HfHubHTTPError, match="403"):
        api.upload_file(path_or_fileobj=b"x", path_in_repo="x.txt", repo_id="another/agent")
    api.delete_repo(AGENT)
    assert list(hub.repos) == [("model", "another/agent")]


def test_a_space(hub, api, folder):
    url = api.create_repo("tester/arcade", repo_type="space", space_sdk="gradio", space_hardware="cpu-basic")
    assert (url.repo_type, url.repo_id) == ("space", "tester/arcade")
    settings = hub.repos["space", "tester/arcade"].settings
    assert (settings["sdk"], settings["hardware"]) == ("gradio", "cpu-basic")
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_repo("tester/arcade", repo_type="space", space_sdk="gradio")
    commit = api.upload_folder(repo_id="tester/arcade", repo_type="space", folder_path=folder)
    assert commit.repo_url.repo_type == "space"
    assert api.space_info("tester/arcade").sha == commit.oid
    assert hub.files("tester/arcade", repo_type="space")["model.safetensors"] == WEIGHTS
    got = hf_hub_download("tester/arcade", "recipe.json", repo_type="space", endpoint=hub.url)
    assert Path(got).read_bytes() == b"{}"


def test_a_download_of_what_is_cached_asks_nothing_if_the_revision_is_an_oid(hub, slept):
    oid = hub.put(AGENT, FILES)
    assert fetch(hub, "model.safetensors", revision=oid) == WEIGHTS
    assert [method for method, _ in hub.requests] == ["HEAD", "GET"]
    assert fetch(hub, "model.safetensors", revision=oid) == WEIGHTS
    assert len(hub.requests) == 2


def test_a_snapshot(hub, slept, tmp_path):
    hub.put(AGENT, FILES)
    snapshot = snapshot_download(AGENT, endpoint=hub.url, local_dir=tmp_path / "snapshot")
    for path, content in hub.files(AGENT).items():
        assert (tmp_path / "snapshot" / path).read_bytes() == content
    assert snapshot == str(tmp_path / "snapshot")


def test_a_list_of_models(hub, api):
    hub.put(AGENT, FILES)
    hub.put("tester/other", {"README.md": b"No metadata."})
    hub.put("another/agent", FILES)
    hub.repos["model", AGENT].downloads = 7

    def ids(**wanted):
        return [model.id for model in api.list_models(**wanted)]

    assert ids() == [AGENT, "tester/other", "another/agent"]
    assert ids(author="tester", filter="a3c") == [AGENT]
    assert ids(filter=["a3c", "Pong"], search="ANOTHER") == ["another/agent"]
    [model] = api.list_models(author="tester", filter="a3c", cardData=True, full=True)
    assert (model.downloads, model.sha) == (7, api.model_info(AGENT).sha)
    assert model.card_data.tags == ["a3c", "Pong"]
    assert next(api.list_models()).card_data is None, "who does not ask for cards gets none"


def test_a_collection(hub, api):
    hub.put(AGENT, FILES)
    slug = api.create_collection("A3C Arcade", namespace="tester", description="Agents").slug
    assert api.create_collection("A3C Arcade", namespace="tester", exists_ok=True).slug == slug
    for _ in range(2):
        api.add_collection_item(slug, AGENT, "model", note="plays", exists_ok=True)
    [item] = api.get_collection(slug).items
    assert (item.item_id, item.item_type, item.note) == (AGENT, "model", "plays")


def test_a_front_matter_that_is_no_yaml_is_refused(hub, api):
    hub.put(AGENT, {})
    with pytest.raises(ValueError, match="Invalid metadata"):
        api.upload_file(path_or_fileobj=b"---\na: [\n---\n", path_in_repo="README.md", repo_id=AGENT)


def test_a_large_file_must_be_what_it_says(hub):
    address = f"{hub.url}/large/{hashlib.sha256(WEIGHTS).hexdigest()}"
    assert httpx2.put(address, content=b"other").status_code == 400
    assert httpx2.put(address, content=WEIGHTS).status_code == 200


def test_a_part_of_a_file(hub):
    oid = hub.put(AGENT, FILES)
    address = f"{hub.url}/{AGENT}/resolve/main/model.safetensors"
    part = httpx2.get(address, headers={"Range": "bytes=3-5"})
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (206, b"\3\4\5", "bytes 3-5/10240")
    assert part.headers["X-Repo-Commit"] == oid
    assert httpx2.get(address, headers={"Range": "bytes=10240-"}).status_code == 416


@pytest.mark.parametrize("status", [401, 402, 403, 404, 409, 412, 500, 503])
def test_a_status_instead_of_a_commit(hub, api, slept, status):
    hub.put(AGENT, FILES)
    hub.fail("POST .*/commit/", status)
    with pytest.raises(HfHubHTTPError) as error:
        api.upload_file(path_or_fileobj=b"x", path_in_repo="x.txt", repo_id=AGENT)
    assert error.value.response.status_code == status
    assert "x.txt" not in hub.files(AGENT), "the request was not served"
    assert slept == [], "the client does not try commits again"
    api.upload_file(path_or_fileobj=b"x", path_in_repo="x.txt", repo_id=AGENT)
    assert hub.files(AGENT)["x.txt"] == b"x"


def test_a_fault_comes_as_often_as_planned(hub, api, slept):
    hub.put(AGENT, FILES)
    hub.fail("GET /api/models$", 503, times=2)
    assert len(list(api.list_models())) == 1
    assert slept == [1, 2]
    hub.fail("GET /api/models/", 500, times=None)
    for _ in range(3):
        with pytest.raises(HfHubHTTPError, match="500"):
            api.model_info(AGENT)
    hub.clear_faults()
    assert api.model_info(AGENT).id == AGENT


def test_too_many_requests_say_when_to_come_again(hub, api, slept):
    hub.put(AGENT, FILES)
    hub.fail("POST .*/preupload/", 429, headers={"Retry-After": "3"})
    api.upload_file(path_or_fileobj=b"x", path_in_repo="x.txt", repo_id=AGENT)
    assert slept == [4], "the client adds a second"


def test_half_a_download_is_continued(hub, slept):
    hub.put(AGENT, FILES)
    hub.fail("GET .*/resolve/", TRUNCATED)
    assert fetch(hub, "model.safetensors") == WEIGHTS
    assert len(hub.requests) == 3
    assert slept == [1]


def test_a_connection_that_is_reset(hub, api, slept):
    hub.put(AGENT, FILES)
    hub.fail("GET .*/resolve/", RESET)
    with pytest.raises(httpx2.ReadError):
        fetch(hub, "model.safetensors")
    hub.fail("HEAD .*/resolve/", RESET)
    with pytest.raises(httpx2.ReadError):
        fetch(hub, "model.safetensors")
    hub.fail("POST .*/commit/", RESET)
    with pytest.raises(httpx2.ReadError):
        api.upload_file(path_or_fileobj=b"x", path_in_repo="x.txt", repo_id=AGENT)
    assert hub.files(AGENT)["x.txt"] == b"x", "the answer was lost, not the commit"


@pytest.mark.parametrize("name", ["model.safetensors", "recipe.json"])
def test_wrong_bytes_are_as_many_and_the_client_takes_them(hub, slept, name):
    hub.put(AGENT, FILES)
    hub.fail("GET .*/resolve/", WRONG_BYTES)
    got = fetch(hub, name)
    assert len(got) == len(FILES[name])
    assert got != FILES[name]


def test_a_black_hole_swallows_until_the_hub_closes(hub, api):
    hub.fail("GET", BLACK_HOLE, times=None)
    with pytest.raises(httpx2.ReadTimeout):
        api.model_info(AGENT, timeout=0.2)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(api.model_info, AGENT)
        with pytest.raises(TimeoutError):  # the client itself would wait for ever
            waiting.result(0.2)
        hub.close()
        assert isinstance(waiting.exception(2), httpx2.RemoteProtocolError)


def test_a_slow_answer_comes(hub, api):
    hub.put(AGENT, FILES)
    hub.fail("GET", SLOW, times=2, seconds=0.3)
    with pytest.raises(httpx2.ReadTimeout):
        api.model_info(AGENT, timeout=0.1)
    started = time.monotonic()
    assert api.model_info(AGENT, timeout=2).id == AGENT
    assert time.monotonic() - started >= 0.3


def test_a_closed_hub_answers_nobody(hub, api):
    hub.put(AGENT, FILES)
    assert fetch(hub, "recipe.json") == b"{}"
    hub.close()
    with pytest.raises(httpx2.TransportError):
        api.model_info(AGENT)
    assert fetch(hub, "recipe.json") == b"{}", "from the cache"
    with pytest.raises(LocalEntryNotFoundError):
        fetch(hub, "README.md")


def test_another_process_meets_the_hub_through_its_environment(hub, tmp_path):
    hub.put(AGENT, {"recipe.json": json.dumps({"game": "Pong"}).encode()})
    script = f"""
from huggingface_hub import HfApi, hf_hub_download
api = HfApi()
print(api.whoami()["name"], open(hf_hub_download({AGENT!r}, "recipe.json")).read())
api.upload_file(path_or_fileobj=b"\\0" * 9, path_in_repo="w.bin", repo_id={AGENT!r})
"""
    told = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment(hub.url, tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert told.stdout == 'tester {"game": "Pong"}\n'
    assert hub.files(AGENT)["w.bin"] == bytes(9)
    assert (tmp_path / "hub").is_dir()
