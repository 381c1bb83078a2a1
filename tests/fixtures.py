"""What tests share: one thread for torch, as workers have, a zoo, a Hub and trainings of their own, a small agent.

A fixture imports for itself what only some tests need: the core's need neither page, browser, Hub nor Atari.
"""

import hashlib
import shutil
import signal
import threading
from dataclasses import replace

import pytest
import torch

import zoo.entry
from a3c_core.checkpoint import SNAPSHOTS, save_agent
from tests import toy
from tests.zoos import zoo_at, zoo_of
from zoo.entry import Published, write_entry

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def usual_signals():
    """The command line takes SIGINT and SIGTERM for itself; a test gives them back."""
    before = {taken: signal.getsignal(taken) for taken in (signal.SIGINT, signal.SIGTERM)}
    yield
    for taken, handler in before.items():
        signal.signal(taken, handler)


@pytest.fixture(scope="session")
def app(tmp_path_factory):
    """The app, which takes seconds to start and so is shared: a test leaves nothing under way in it."""
    from tests.serving import serve

    with serve(tmp_path_factory.mktemp("app")) as running:
        yield running


@pytest.fixture(scope="session")
def browser():
    """A browser, whose pages are each test's own."""
    from tests.browsing import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def arcade():
    """What visitors share, here the tests of a module; nothing is under way in it afterwards."""
    from ui.arcade import Arcade

    made = Arcade()
    yield made
    made.close()


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Trainings of the test's own."""
    from ui.retrain.jobs import Jobs

    monkeypatch.setattr("ui.retrain.jobs.scratch", lambda: tmp_path)
    return Jobs()


@pytest.fixture
def cut_short(monkeypatch):
    """Has Atari's games cut short after so many steps, in emulators that no other test gets."""
    from a3c_core import atari
    from playback.emulator_pool import EmulatorPool

    pool = EmulatorPool(per_spec=8)
    monkeypatch.setattr(atari, "emulators", pool)
    yield lambda steps: monkeypatch.setattr(atari, "MAX_FRAMES", atari.FRAMES_PER_STEP * steps)
    pool.close()


@pytest.fixture
def empty_zoo(tmp_path, monkeypatch):
    """A directory that is the zoo for the time of a test, with no agent in it."""
    return zoo_at(tmp_path / "zoo", monkeypatch)


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """What training left behind of an agent that can hardly play, with two snapshots; nobody writes into it."""
    run = toy.run_of(tmp_path_factory.mktemp("run"), toy.beginner())
    for percent in (5, 25):
        younger = toy.beginner(steps=10 * percent)
        with torch.no_grad():
            younger.model.value[-1].bias.fill_(percent)
        save_agent(run / SNAPSHOTS / str(percent), younger, dtype=torch.bfloat16)
    return run


@pytest.fixture(scope="session")
def small_zoo(small_run, tmp_path_factory):
    """A zoo of that agent, scored once; nobody writes into it."""
    return zoo_of(small_run, tmp_path_factory.mktemp("zoo"), name="beginner", summary="Drops every pole.")


@pytest.fixture
def beginner(empty_zoo, small_zoo):
    """The record of that agent, the only one of a small zoo."""
    shutil.copytree(small_zoo, empty_zoo, dirs_exist_ok=True)
    return zoo.entries()["beginner"]


@pytest.fixture(scope="session")
def repository(small_run, tmp_path_factory):
    """The files of that agent's repository on the Hub, by path."""
    from training.publish import Publication, assemble

    folder = tmp_path_factory.mktemp("repository")
    assemble(Publication.of_run(small_run, "beginner", episodes=3), "tester/agent", folder)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(repository, tmp_path):
    """That repository in a directory of the test's own."""
    for file, content in repository.items():
        (tmp_path / "folder" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / file).write_bytes(content)
    return tmp_path / "folder"


@pytest.fixture
def published(server, beginner, repository):
    """The record of that agent, of which the Hub has a copy."""
    repo = "tester/a3c-CartPole-v1-beginner"
    sha256 = {file: hashlib.sha256(content).hexdigest() for file, content in repository.items()}
    entry = replace(beginner, published=Published(repo=repo, revision=server.put(repo, repository), sha256=sha256))
    write_entry(entry)
    return entry


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A Hub on this machine that this process' client talks to, with a cache of its own and pauses of no length."""
    from huggingface_hub.utils import disable_progress_bars

    from tests.loopback_hub import LoopbackHub, patched

    others = set(threading.enumerate())
    for variable in ("A3C_ZOO_NAMESPACE", "SPACE_AUTHOR_NAME"):
        monkeypatch.delenv(variable, raising=False)
    with LoopbackHub() as running:
        running.token = "hf_ThisIsTheSecretOfTheTests"
        patched(monkeypatch, running, tmp_path / "home")
        monkeypatch.setattr("zoo.hub.PAUSE_SECONDS", 0.01)
        monkeypatch.setattr("zoo.jobs.POLL_SECONDS", 0.01)
        disable_progress_bars()
        monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # those of training have no thread then, which would stay
        yield running
    for thread in set(threading.enumerate()) - others:  # calls that nobody waited for would meet the next test's Hub
        thread.join(10.0)
