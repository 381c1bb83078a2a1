"""Every record of the zoo tells the truth, and every agent is a name away."""

import json
import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import MODEL, RECIPE, CheckpointError, count_parameters, load_agent, save_agent
from a3c_core.play import evaluate, play
from a3c_core.recipe import Recipe
from tests import toy
from tests.test_video import told_by_ffmpeg
from training.keep import keep
from zoo.__main__ import main
from zoo.card import COLUMNS, description, duration, markdown_table, points, text_table
from zoo.entry import ENTRIES, WEIGHTS, hashes, read_entry, write_entry

ROOT = Path(__file__).parents[1]
ENTRY = pytest.mark.parametrize("entry", zoo.entries().values(), ids=zoo.entries())


@pytest.fixture
def balancer(empty_zoo, tmp_path):
    """The record of the only agent of a small zoo."""
    return keep(
        toy.run_of(tmp_path / "run", toy.balancer()),
        "balancer",
        summary="Keeps its balance.",
        command="by hand",
        episodes=3,
    )


def run_zoo(monkeypatch, *argv):
    monkeypatch.setattr(sys, "argv", ["zoo", *map(str, argv)])
    main()


@pytest.mark.parametrize("name", ["cartpole", "pendulum"])
def test_the_small_agents_are_in_the_zoo(name):
    assert name in zoo.entries()


@ENTRY
def test_a_record_is_about_the_checkpoint_that_ships_with_it(entry):
    agent = load_agent(entry.directory)
    assert entry.recipe == agent.recipe
    assert entry.score.steps == agent.steps >= entry.recipe.steps
    assert entry.score.env == entry.recipe.env
    assert entry.parameters == count_parameters(agent)
    assert entry.sha256 == hashes(WEIGHTS / entry.name)
    assert set(entry.sha256) == {MODEL, RECIPE}


@ENTRY
def test_a_recorded_score_repeats(entry):
    score = evaluate(zoo.load(entry.name), 20, greedy=entry.score.greedy, first_seed=entry.score.first_seed)
    tolerance = {"CartPole-v1": 0.0}.get(entry.recipe.env, 1e-2)
    assert list(score.returns) == pytest.approx(entry.score.returns[:20], rel=tolerance, abs=tolerance)


@ENTRY
def test_a_score_is_of_many_games(entry):
    assert len(entry.score.returns) >= 100


@ENTRY
def test_a_record_lies_in_the_file_of_its_name_and_tells_how_the_agent_was_made(entry):
    assert (ENTRIES / f"{entry.name}.json").is_file()
    assert entry.command.startswith("python -m training train ")
    assert entry.summary
    assert entry.hours > 0.0


def test_no_weights_lie_about_without_a_record():
    assert sorted(path.name for path in WEIGHTS.iterdir() if path.is_dir()) == sorted(zoo.entries())


def test_the_readme_has_the_table_of_the_zoo():
    assert markdown_table(zoo.entries()) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_an_agent_is_loaded_by_name_and_by_directory(balancer, tmp_path):
    for name in ("balancer", balancer.directory, str(tmp_path / "run")):
        agent = zoo.load(name)
        assert (agent.recipe, agent.steps) == (balancer.recipe, 1000)
        assert agent.act(np.array([0.0, 0.0, 0.1, 0.0], dtype=np.float32))[0] == 1
        assert agent.act(np.array([0.0, 0.0, -0.1, 0.0], dtype=np.float32))[0] == 0


@pytest.mark.parametrize(("name", "hint"), [("balancr", "Did you mean balancer"), ("chess", "zoo: balancer")])
def test_an_unknown_name_is_told_which_there_are(balancer, name, hint):
    with pytest.raises(zoo.UnknownAgent, match=rf"no agent and no directory '{name}'.*{hint}"):
        zoo.load(name)


@pytest.mark.parametrize("file", [MODEL, RECIPE])
@pytest.mark.parametrize("harm", ["changed", "missing"])
def test_a_damaged_copy_is_noticed(balancer, file, harm):
    path = balancer.directory / file
    if harm == "missing":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[-9] ^= 1
        path.write_bytes(data)
    with pytest.raises(CheckpointError, match="Get the zoo again") as caught:
        zoo.load("balancer")
    assert str(path) in str(caught.value)


@ENTRY
def test_a_damaged_copy_of_the_real_weights_is_noticed(entry, empty_zoo):
    shutil.copytree(WEIGHTS / entry.name, empty_zoo / "weights" / entry.name)
    shutil.copy(ENTRIES / f"{entry.name}.json", empty_zoo / "entries")
    assert zoo.load(entry.name).recipe == entry.recipe
    with (empty_zoo / "weights" / entry.name / MODEL).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(CheckpointError, match="sha256"):
        zoo.load(entry.name)


def test_a_record_comes_back_from_its_file(balancer, empty_zoo):
    assert read_entry(write_entry(balancer)) == balancer


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "../x"}, "name"),
        ({"colour": "red"}, "colour"),
        ({"parameters": "many"}, "parameters"),
        ({"score": {"env": "CartPole-v1"}}, r"score\.greedy: Field required"),
        ({"recipe": {"gamma": 2}}, r"recipe\.gamma"),
    ],
)
def test_a_broken_record_is_refused_with_its_file_and_field(balancer, empty_zoo, changes, says):
    path = empty_zoo / "entries" / "balancer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(CheckpointError, match=says) as caught:
        zoo.entries()
    assert str(path) in str(caught.value)


def test_list_prints_a_line_for_each_agent(balancer, monkeypatch, capsys):
    run_zoo(monkeypatch, "list")
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == " ".join(COLUMNS).split()
    assert row.split()[:5] == ["balancer", "CartPole-v1", "500.0", "±", "0.0"]
    assert row == text_table(zoo.entries()).splitlines()[1]


def test_list_prints_the_records_as_json(balancer, monkeypatch, capsys):
    run_zoo(monkeypatch, "list", "--json")
    assert json.loads(capsys.readouterr().out) == {"balancer": json.loads(json.dumps(asdict(balancer)))}


def test_list_prints_the_readmes_table(balancer, monkeypatch, capsys):
    run_zoo(monkeypatch, "list", "--markdown")
    assert capsys.readouterr().out.splitlines() == [
        "| Agent | Environment | Score | Protocol | Steps | Trained in | Weights |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| balancer | CartPole-v1 | 500.0 ± 0.0 | 3 games, greedy actions, seeds 0 to 2 | 1,000 | 30 min | 15 |",
    ]


def test_info_tells_score_recipe_and_command(balancer, monkeypatch, capsys):
    run_zoo(monkeypatch, "info", "balancer")
    told = capsys.readouterr().out
    assert told == description(balancer) + "\n"
    for words in ("Keeps its balance.", "500.0 ± 0.0 (3 games", "by hand", "gamma=0.99", "licence MIT"):
        assert words in told


@pytest.mark.parametrize("argv", [("info", "balancr"), ("play", "balancr")])
def test_an_unknown_agent_ends_a_command_in_one_sentence(balancer, monkeypatch, argv):
    with pytest.raises(SystemExit, match=r"^error: no agent .* Did you mean balancer") as caught:
        run_zoo(monkeypatch, *argv)
    assert "\n" not in caught.value.code


def test_play_keeps_a_game_as_a_video(monkeypatch, capsys, tmp_path):
    agent = Agent.untrained(Recipe())
    save_agent(tmp_path / "beginner", agent)
    steps = int(play(agent, 7, render=False).total)
    run_zoo(monkeypatch, "play", tmp_path / "beginner", "--seed", 7, "--out", tmp_path / "game.mp4")
    assert capsys.readouterr().out == f"{tmp_path / 'game.mp4'}: seed 7, {steps} steps, return {steps}\n"
    about = iio.immeta(tmp_path / "game.mp4", plugin="FFMPEG")
    assert about["codec"] == "h264"
    assert about["pix_fmt"].startswith("yuv420p")
    frames = iio.imread(tmp_path / "game.mp4", plugin="FFMPEG")
    assert len(frames) == steps + 1
    assert np.abs(frames[0].astype(int) - frames[-1]).max() > 50
    told = told_by_ffmpeg(tmp_path / "game.mp4")
    assert "title           : A3C Arcade: beginner" in told
    assert f"seed 7, return {steps}" in told


@pytest.mark.parametrize("seed", [-1, 10**9])
def test_play_refuses_a_training_seed(balancer, monkeypatch, tmp_path, seed):
    with pytest.raises(SystemExit, match="error: seeds must be between"):
        run_zoo(monkeypatch, "play", "balancer", "--seed", seed, "--out", tmp_path / "game.mp4")


@pytest.mark.parametrize(
    ("hours", "words"), [(0.004, "14 s"), (0.0333, "120 s"), (0.034, "2 min"), (0.5, "30 min"), (1.25, "1.2 h")]
)
def test_durations_read_well(hours, words):
    assert duration(hours) == words


def test_points_have_one_decimal():
    assert points(12345.678) == "12,345.7"


def test_the_readmes_python_runs_as_printed():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(code, names)
    assert names["total"] == 500.0
