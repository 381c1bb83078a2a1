"""The commands that meet the Hub: each does its work, and each mistake ends in one sentence instead of a traceback."""

import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import zoo
from a3c_core.checkpoint import MODEL, RECIPE, SNAPSHOTS, save_agent
from tests import toy
from training.__main__ import main as training_main
from training.keep import keep
from training.log import LOG
from zoo.__main__ import main as zoo_main
from zoo.entry import CONFIG, write_entry

ROOT = Path(__file__).parents[1]
THEIRS = "stranger/agent"
MINE = "tester/a3c-CartPole-v1-beginner"
AGENT = {
    CONFIG,
    MODEL,
    RECIPE,
    *(f"{SNAPSHOTS}/{percent}/{file}" for percent in (5, 25) for file in (MODEL, RECIPE)),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A directory to work in, since commands write into runs/."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def run_zoo(monkeypatch, capsys):
    """Runs a command of the zoo and returns what it printed."""

    def run(*argv):
        monkeypatch.setattr(sys, "argv", ["zoo", *map(str, argv)])
        zoo_main()
        return capsys.readouterr().out

    return run


@pytest.fixture
def run_training(capsys):
    """Runs a command of the training and returns what it printed."""

    def run(*argv):
        training_main([*map(str, argv)])
        return capsys.readouterr().out

    return run


@pytest.fixture
def two(beginner, small_run):
    """The names of a zoo with two agents."""
    keep(small_run, "cartpole", summary="The same.", command="by hand", episodes=3)
    return ["beginner", "cartpole"]


def files_of(directory):
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


# python -m training publish


def test_publish_uploads_an_agent_of_the_zoo_and_notes_it_in_its_record(server, beginner, run_training):
    out = run_training("publish", "beginner", "--namespace", "tester")
    entry = zoo.entries()["beginner"]
    assert out == f"{MINE} is published, commit {entry.published.revision}\n"
    assert replace(entry, published=None) == beginner
    assert entry.published.repo == MINE
    assert set(server.files(MINE)) == {".gitattributes", *entry.published.sha256}
    assert not server.repos["model", MINE].private


def test_publish_takes_the_namespace_from_the_environment(server, beginner, run_training, monkeypatch):
    monkeypatch.setenv("A3C_ZOO_NAMESPACE", "tester")
    assert MINE in run_training("publish", "beginner", "--private")
    assert server.repos["model", MINE].private


def test_publish_uploads_a_run_that_is_not_in_the_zoo(server, empty_zoo, small_run, run_training):
    shared = ("--namespace", "tester", "--episodes", 3)
    assert "tester/a3c-CartPole-v1 is" in run_training("publish", small_run, *shared)
    words = ("--name", "mine", "--summary", "My own.", "--actions", "sampled")
    assert "tester/a3c-CartPole-v1-mine is" in run_training("publish", small_run, *shared, *words)
    entry = zoo.find("tester/a3c-CartPole-v1-mine")
    assert (entry.name, entry.summary, entry.score.greedy, len(entry.score.returns)) == ("mine", "My own.", False, 3)
    assert zoo.load("tester/a3c-CartPole-v1", 5).steps == 50
    assert zoo.entries() == {}


def test_publish_can_show_what_it_would_upload(server, beginner, run_training):
    before = zoo.entries()
    for _ in range(2):
        out = run_training("publish", "beginner", "--namespace", "tester", "--dry-run")
    folder = Path("runs", "publish", "a3c-CartPole-v1-beginner")
    assert out == f"{folder} holds the files for {MINE}; nothing was uploaded\n"
    assert files_of(folder) > AGENT | {"README.md", "results.json", "replay.mp4", LOG}
    assert server.requests == []
    assert zoo.entries() == before


def test_publish_all_makes_a_collection(server, two, run_training):
    out = run_training("publish", "--all", "--namespace", "tester").splitlines()
    (slug,) = server.collections
    assert out[-1] == f"collection {slug}"
    repos = [entry.published.repo for entry in zoo.entries().values()]
    assert repos == [MINE, "tester/a3c-CartPole-v1"]
    assert [item["id"] for item in server.collections[slug]["items"]] == repos


def test_publish_all_goes_on_where_it_was_interrupted(server, two, run_training):
    server.fail("POST .*/a3c-CartPole-v1/commit/", 403)
    with pytest.raises(SystemExit, match=r"^error: cannot upload to tester/a3c-CartPole-v1: "):
        run_training("publish", "--all", "--namespace", "tester")
    assert [bool(entry.published) for entry in zoo.entries().values()] == [True, False]
    run_training("publish", "--all", "--namespace", "tester")
    assert all(entry.published for entry in zoo.entries().values())


# python -m zoo


def test_download_fetches_what_the_record_names(server, published, run_zoo, tmp_path):
    server.put(MINE, {RECIPE: b"newer, and not what the record names"})
    out = run_zoo("download", "beginner", "--to", tmp_path / "to")
    directory = tmp_path / "to" / "beginner"
    assert out == f"{directory}: {len(AGENT)} files of {MINE}\n"
    assert files_of(directory) == AGENT
    assert [zoo.load(directory, percent).steps for percent in (0, 5, 25, 100)] == [0, 50, 250, 1000]


def test_download_fetches_anybodys_agent_and_any_version(server, repository, run_zoo, tmp_path):
    old = server.put(THEIRS, repository)
    server.repos["model", THEIRS].tags["v1"] = old
    server.put(THEIRS, {RECIPE: b"broken"})
    for revision in ("v1", old):
        run_zoo("download", THEIRS, "--to", tmp_path / revision, "--revision", revision)
        assert zoo.load(tmp_path / revision / "agent").steps == 1000
    with pytest.raises(SystemExit, match=f"^error: {RECIPE} of {THEIRS} is not the file that its record names"):
        run_zoo("download", THEIRS, "--to", tmp_path / "new")


def test_download_all(server, two, run_zoo, run_training, tmp_path):
    run_training("publish", "--all", "--namespace", "tester")
    assert len(run_zoo("download", "--all", "--to", tmp_path / "to").splitlines()) == 2
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == two


def test_download_from_another_namespace(server, published, repository, run_zoo, tmp_path):
    server.put("other/a3c-CartPole-v1-beginner", repository)
    out = run_zoo("download", "beginner", "--to", tmp_path, "--namespace", "other")
    assert "files of other/a3c-CartPole-v1-beginner" in out


@pytest.mark.parametrize("name", ["beginner", MINE])
def test_verify_plays_the_score_again(published, run_zoo, name):
    mean = rf"{published.score.mean:.1f} ± \d+\.\d"
    claim = rf"{name}: claimed {mean}, scores {mean} \(3 games, greedy actions, seeds 0 to 2\)\n"
    assert re.fullmatch(claim, run_zoo("verify", name))
    assert "(1 games, " in run_zoo("verify", name, "--episodes", 1)


def test_verify_all(two, run_zoo):
    assert [line.split(":")[0] for line in run_zoo("verify", "--all").splitlines()] == two


def test_verify_looks_at_all_files(server, published, repository, run_zoo):
    file = f"{SNAPSHOTS}/5/{RECIPE}"
    server.put(MINE, {file: repository[f"{SNAPSHOTS}/25/{RECIPE}"]})
    with pytest.raises(SystemExit, match=f"^error: {file} of {MINE} is not the file that its record names"):
        run_zoo("verify", MINE)


def test_verify_looks_at_all_files_of_the_zoo(beginner, run_zoo):
    (beginner.directory / SNAPSHOTS / "25" / RECIPE).write_text("{}")
    with pytest.raises(SystemExit, match=rf"^error: .*{SNAPSHOTS}/25/{RECIPE} is not the file that beginner's record"):
        run_zoo("verify", "beginner")


def test_list_tells_what_somebody_has_published(server, published, repository, run_zoo, monkeypatch):
    server.put("tester/other", repository)
    header, *rows = run_zoo("list", "--hub", "--namespace", "tester").splitlines()
    assert header.split() == ["repo", "env", "score", "downloads", "revision"]
    assert [row.split()[:2] for row in rows] == [[MINE, "CartPole-v1"], ["tester/other", "CartPole-v1"]]
    monkeypatch.setenv("A3C_ZOO_NAMESPACE", "tester")
    told = json.loads(run_zoo("list", "--hub", "--json"))
    assert [(agent["repo"], agent["downloads"]) for agent in told] == [(MINE, 0), ("tester/other", 0)]
    assert told[0]["revision"] == published.published.revision


def test_deploy_space(server, published, run_zoo):
    out = run_zoo("deploy-space", "tester/arcade", "--hardware", "zero-a10g", "--private")
    assert out == f"{server.url}/spaces/tester/arcade is being built\n"
    space = server.repos["space", "tester/arcade"]
    assert (space.private, space.settings["hardware"]) == (True, "zero-a10g")
    assert MINE in server.files("tester/arcade", repo_type="space")["README.md"].decode()


def test_deploy_space_can_show_what_it_would_upload(server, beginner, run_zoo):
    for _ in range(2):
        out = run_zoo("deploy-space", "tester/arcade", "--dry-run")
        assert out == f"{Path('runs/space')} holds the files for tester/arcade; nothing was uploaded\n"
    assert {"app.py", "README.md", "zoo/hub.py"} < files_of(Path("runs/space"))
    assert server.requests == []


# Mistakes


ZOO_MISTAKES = [
    ("download nobody --to to", "no agent and no directory 'nobody'. Agents of the zoo: beginner"),
    ("download beginnr --to to", "Did you mean beginner?"),
    ("download stranger/none --to to", "cannot find stranger/none: the Hub has no such repository"),
    ("download beginner --to to", "whose agents? Give --namespace USER, or set A3C_ZOO_NAMESPACE."),
    ("download beginner --to to --namespace nobody", "cannot find nobody/a3c-CartPole-v1-beginner"),
    ("download stranger/empty --to to", "stranger/empty has no config.json: it holds no agent of A3C Arcade"),
    ("download stranger/agent --to to --revision v9", "the Hub has no such repository, revision, file or job"),
    ("download stranger/agent --to to --seconds 0", "the Hub did not answer in time"),
    ("download stranger/agent --to file", "cannot write"),
    ("download --to to", "name one agent, or --all"),
    ("download beginner --all --to to", "name one agent, or --all"),
    ("verify", "name one agent, or --all"),
    ("verify nobody", "no agent and no directory 'nobody'"),
    ("verify stranger/none", "cannot find stranger/none"),
    ("verify stranger/bare", "stranger/bare has no config.json"),
    ("verify run", "run has no record to check: score it with python -m training evaluate run"),
    ("list --hub", "whose agents?"),
    ("deploy-space arcade", "'arcade' cannot be a Space: name it user/name"),
    ("deploy-space https://huggingface.co/spaces/tester/arcade", "cannot be a Space: name it user/name"),
    ("deploy-space other/arcade", "cannot create the Space other/arcade: the token may not do that"),
    ("deploy-space tester/arcade --static", "site holds no static arcade: make one with python -m zoo build-static"),
    ("deploy-space tester/arcade --static --hardware cpu-basic", "a static Space runs on no hardware"),
    ("deploy-space tester/arcade --site file", "add --static, or leave out --site"),
]
TRAINING_MISTAKES = [
    ("publish --namespace tester", "name one agent or directory to publish, or --all"),
    ("publish beginner --all --namespace tester", "name one agent or directory to publish, or --all"),
    ("publish beginner", "whose agents? Give --namespace USER"),
    ("publish nowhere --namespace tester", "nowhere is no checkpoint: it has no recipe.json"),
    ("publish no-log --namespace tester", f"no-log has no {LOG}"),
    ("publish run --namespace tester --name ../x", "the name '../x' is not allowed"),
    ("publish run --namespace tester --episodes 0", "episodes must be at least 1"),
    ("publish beginner --namespace tester --episodes 0", "episodes must be at least 1"),
    ("publish beginner --namespace other", "cannot create other/a3c-CartPole-v1-beginner: the token may not do that"),
    ("publish beginner --namespace a/b", "the Hub has no such names"),
    ("publish stronger --namespace tester", "the record is not this agent's. Score it again."),
]


@pytest.fixture
def mistakes(server, beginner, repository, small_run):
    """What the mistakes are about."""
    server.put(THEIRS, repository)
    server.put("stranger/empty", {})
    server.put("stranger/bare", {file: repository[file] for file in (MODEL, RECIPE)})
    Path("file").write_text("")
    Path("run").symlink_to(small_run)
    save_agent(Path("no-log"), toy.beginner())
    keep(small_run, "stronger", summary="Claims too much.", command="by hand", episodes=3)
    write_entry(replace(zoo.entries()["stronger"], score=replace(beginner.score, returns=(500.0, 500.0, 500.0))))
    return {path: path.read_bytes() for path in zoo.entry.ENTRIES.iterdir()}


@pytest.mark.parametrize(("argv", "says"), ZOO_MISTAKES, ids=[argv for argv, _ in ZOO_MISTAKES])
def test_a_mistake_with_the_zoo_ends_in_one_sentence(mistakes, run_zoo, argv, says):
    assert_one_sentence(lambda: run_zoo(*argv.split()), says)
    assert not Path("to").exists()


@pytest.mark.parametrize(("argv", "says"), TRAINING_MISTAKES, ids=[argv for argv, _ in TRAINING_MISTAKES])
def test_a_mistake_in_publishing_ends_in_one_sentence(server, mistakes, run_training, argv, says):
    assert_one_sentence(lambda: run_training(*argv.split()), says)
    assert {path: path.read_bytes() for path in zoo.entry.ENTRIES.iterdir()} == mistakes
    assert not [repo for _, repo in server.repos if not repo.startswith("stranger/")]


def assert_one_sentence(call, says):
    with pytest.raises(SystemExit) as caught:
        call()
    assert caught.value.code.startswith("error: "), "words, which a process writes to stderr before it fails"
    assert says in caught.value.code
    assert "\n" not in caught.value.code


def test_an_agent_that_is_only_on_the_hub_is_not_published_without_its_log(server, published, run_training):
    shutil.rmtree(published.directory)
    assert_one_sentence(
        lambda: run_training("publish", "beginner", "--namespace", "tester"),
        f"has no {LOG}, which tells how beginner was trained: get the zoo again",
    )
    assert zoo.entries()["beginner"] == published


# The README


def commands_of_the_readme():
    """The commands of the sections about the Hub, word by word."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for section in ("Download an agent", "Publish yours", "Host the arcade"):
        told = text.split(f"## {section}\n")[1].split("\n## ")[0]
        for block in re.findall(r"```sh\n(.*?)```", told, re.DOTALL):
            yield from (shlex.split(line, comments=True) for line in block.splitlines())


COMMANDS = [
    command for command in commands_of_the_readme() if command != ["python", "app.py"]
]  # every app test runs it


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_of_the_readme_works_as_printed(server, repository, small_run, run_zoo, run_training, command):
    server.user = "user"
    server.put("user/a3c-CartPole-v1", repository)
    shutil.copytree(small_run, "runs/CartPole-v1-seed0-1")
    python, option, module, *words = command
    assert (python, option) == ("python", "-m")
    assert {"zoo": run_zoo, "training": run_training}[module](*words)


def test_the_readme_has_such_commands():
    assert len(COMMANDS) >= 8
