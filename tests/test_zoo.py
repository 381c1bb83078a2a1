"""Every record of the zoo tells the truth, and every agent is a name away."""

import json
import os
import re
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
import torch

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import MODEL, RECIPE, SNAPSHOTS, CheckpointError, count_parameters, load_agent, save_agent
from a3c_core.envs import is_atari
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Recipe
from playback.episode import play
from tests import toy
from tests.test_video import told_by_ffmpeg
from tests.zoos import zoo_of
from training.log import LOG
from zoo.__main__ import main
from zoo.card import COLUMNS, description, duration, markdown_table, method_words, model_card, points, text_table
from zoo.entry import CONFIG, ENTRIES, WEIGHTS, hashes, read_entry, write_entry

ROOT = Path(__file__).parents[1]
ENTRY = pytest.mark.parametrize("entry", zoo.entries().values(), ids=zoo.entries())
QUICK, ATARI = (
    pytest.mark.parametrize(
        "entry", [e for e in zoo.entries().values() if is_atari(e.recipe.env) == atari], ids=lambda entry: entry.name
    )
    for atari in (False, True)
)


@pytest.fixture(scope="module")
def scored_once(tmp_path_factory):
    """An agent's run, a zoo of it, and one of its run with snapshots; nobody writes into them."""
    place = tmp_path_factory.mktemp("balancer")
    run = toy.run_of(place / "run", toy.balancer())
    words = {"name": "balancer", "summary": "Keeps its balance."}
    zoo_of(run, place / "balancer", **words)
    for percent in (5, 25):
        save_agent(run / SNAPSHOTS / str(percent), younger(percent), dtype=torch.bfloat16)
    zoo_of(run, place / "grown", **words)
    return place


@pytest.fixture
def balancer(empty_zoo, scored_once):
    """The record of the only agent of a small zoo."""
    shutil.copytree(scored_once / "balancer", empty_zoo, dirs_exist_ok=True)
    return zoo.entries()["balancer"]


@pytest.fixture
def grown(empty_zoo, scored_once):
    """The record of the only agent of a small zoo, which has snapshots."""
    shutil.copytree(scored_once / "grown", empty_zoo, dirs_exist_ok=True)
    return zoo.entries()["balancer"]


def younger(percent):
    """A balancer that is not yet one: its weights are fresh, and rounded as a snapshot's are."""
    agent = Agent.untrained(Recipe(head_layers=(), seed=percent))._replace(steps=10 * percent)
    agent.model.bfloat16().float()
    return agent


def weights_of(agent):
    return torch.nn.utils.parameters_to_vector(agent.model.parameters()).detach()


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
    assert entry.score.steps == agent.steps > 0
    assert entry.score.env == entry.recipe.env
    assert entry.parameters == count_parameters(agent)
    assert entry.sha256 == hashes(WEIGHTS / entry.name)
    shipped = (path for path in entry.directory.rglob("*") if path.is_file())
    assert {path.relative_to(entry.directory).as_posix() for path in shipped} == {*entry.sha256, LOG}


@ENTRY
def test_every_snapshot_opens_and_is_of_the_share_that_it_is_named_after(entry):
    assert {0, 100} <= set(entry.snapshots)
    for percent in entry.snapshots[1:-1]:
        agent = entry.open(percent)
        assert agent.recipe == entry.whole.at(agent.steps - 1)  # what the run went by until then
        share = 100 * agent.steps / entry.recipe.steps
        assert percent == (int(share) or round(share)) > 0


@QUICK
def test_a_recorded_score_repeats(entry):
    score = evaluate(zoo.load(entry.name), 20, greedy=entry.score.greedy, first_seed=entry.score.first_seed)
    if entry.recipe.env == "BipedalWalkerHardcore-v3":  # processors round differently, and the last bit decides a fall
        assert score.mean == pytest.approx(entry.score.mean, abs=3.0 * entry.score.std / 20**0.5)
        return
    tolerance = {"CartPole-v1": 0.0}.get(entry.recipe.env, 1e-2)
    assert list(score.returns) == pytest.approx(entry.score.returns[:20], rel=tolerance, abs=tolerance)


@pytest.mark.slow
@ATARI
def test_a_score_in_atari_repeats_within_chance(entry):
    for score in (entry.score, entry.sticky_score):
        again = evaluate(entry.open(), 10, greedy=score.greedy, protocol=score.protocol, first_seed=10_000)
        spread = (score.std + again.std) / 10**0.5
        assert again.mean == pytest.approx(score.mean, abs=3.0 * spread + 1.0)


@ENTRY
def test_a_score_is_of_many_games(entry):
    assert len(entry.score.returns) >= 100


@ENTRY
def test_a_score_is_by_the_classic_protocol_and_for_atari_by_the_sticky_one_too(entry):
    assert entry.score.protocol == "classic"
    assert (entry.sticky_score is not None) == is_atari(entry.recipe.env)
    if entry.sticky_score:
        games = {"returns": entry.score.returns, "distinct": entry.score.distinct}
        assert replace(entry.sticky_score, protocol="classic", **games) == entry.score
        assert len(entry.sticky_score.returns) == len(entry.score.returns)


@ENTRY
def test_a_record_lies_in_the_file_of_its_name_and_tells_how_the_agent_was_made(entry):
    assert (ENTRIES / f"{entry.name}.json").is_file()
    verb = "repeat" if entry.training else "train"
    assert entry.command.startswith(f"python -m training {verb} {entry.name.split('_')[0]}")
    assert entry.whole.at(entry.score.steps - 1) == entry.recipe
    assert entry.summary
    assert entry.hours > 0.0


def test_no_weights_lie_about_without_a_record():
    assert sorted(path.name for path in WEIGHTS.iterdir() if path.is_dir()) == sorted(zoo.entries())


def test_the_readme_has_the_table_of_the_zoo():
    assert markdown_table(zoo.entries()) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_an_agent_is_loaded_by_name_and_by_directory(balancer, scored_once):
    for name in ("balancer", balancer.directory, str(scored_once / "run")):
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


def test_an_agent_is_opened_as_it_was_at_each_of_its_snapshots(grown):
    assert grown.snapshots == [0, 5, 25, 100]
    opened = {percent: grown.open(percent) for percent in grown.snapshots}
    assert {percent: agent.steps for percent, agent in opened.items()} == {0: 0, 5: 50, 25: 250, 100: 1000}
    meant = {0: Agent.untrained(grown.recipe), 5: younger(5), 25: younger(25), 100: toy.balancer()}
    for percent, agent in opened.items():
        assert torch.equal(weights_of(agent), weights_of(meant[percent]))
    assert torch.equal(weights_of(grown.open()), weights_of(zoo.load("balancer")))


def test_an_agent_without_snapshots_has_its_beginning_and_its_end(balancer):
    assert balancer.snapshots == [0, 100]
    assert [balancer.open(percent).steps for percent in (0, 100)] == [0, 1000]


@pytest.mark.parametrize("percent", [-1, 1, 6, 50, 1000])
def test_an_unknown_snapshot_is_told_which_there_are(grown, percent):
    with pytest.raises(ValueError, match=f"balancer has no snapshot {percent}: choose one of 0, 5, 25, 100$"):
        grown.open(percent)


@pytest.mark.parametrize("file", [MODEL, RECIPE])
@pytest.mark.parametrize("harm", ["changed", "missing", "exchanged"])
def test_a_damaged_snapshot_is_noticed_and_the_others_still_open(grown, file, harm):
    path = grown.directory / SNAPSHOTS / "5" / file
    if harm == "missing":
        path.unlink()
    elif harm == "changed":
        with path.open("ab") as opened:
            opened.write(b" ")
    else:
        shutil.copy(grown.directory / SNAPSHOTS / "25" / file, path)
    with pytest.raises(CheckpointError, match="Get the zoo again") as caught:
        grown.open(5)
    assert str(path) in str(caught.value)
    assert [grown.open(percent).steps for percent in (0, 25, 100)] == [0, 250, 1000]


def test_a_snapshot_that_the_record_does_not_name_is_not_opened(balancer):
    save_agent(balancer.directory / SNAPSHOTS / "5", younger(5))
    with pytest.raises(ValueError, match="no snapshot 5"):
        balancer.open(5)


def test_who_plays_its_likeliest_actions_is_told_by_the_record(balancer, scored_once, tmp_path):
    drawn = write_entry(replace(balancer, name="drawn", score=replace(balancer.score, greedy=False)))
    run = shutil.copytree(scored_once / "run", tmp_path / "run")
    assert [zoo.is_greedy(name) for name in ("balancer", "drawn", run)] == [True, False, True]
    shutil.copyfile(drawn, run / CONFIG)  # where a download has it
    assert not zoo.is_greedy(run)
    with pytest.raises(zoo.UnknownAgent, match="no agent and no directory 'nobody'"):
        zoo.is_greedy("nobody")


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
        ({"score": {"protocol": "strict"}}, r"score\.protocol: Input should be 'classic' or 'sticky'"),
        ({"sticky_score": {}}, r"sticky_score\.returns: Field required"),
        ({"recipe": {"gamma": 2}}, r"recipe\.gamma"),
    ],
)
def test_a_broken_record_is_refused_with_its_file_and_field(balancer, empty_zoo, changes, says):
    path = empty_zoo / "entries" / "balancer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert zoo.entries() == {}
    assert str(path) in str(zoo.broken_entries()["balancer"])
    for ask in (zoo.load, zoo.find, zoo.entry_of):
        with pytest.raises(CheckpointError, match=says):
            ask("balancer")


def test_one_broken_record_leaves_the_other_agents(balancer, empty_zoo, monkeypatch, capsys):
    write_entry(replace(balancer, name="another"))
    (empty_zoo / "entries" / "balancer.json").write_text("{")
    run_zoo(monkeypatch, "list")
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["Agent", "another"]
    assert err.startswith(f"left out: {empty_zoo / 'entries' / 'balancer.json'} is not valid JSON")


@pytest.mark.parametrize("file", [MODEL, RECIPE])
def test_a_named_pipe_is_refused_at_once(balancer, empty_zoo, file):
    place = empty_zoo / "weights" / "balancer" / file
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(CheckpointError, match="is no regular file"):
        zoo.load("balancer")


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
        "| Agent | Environment | Score | Sticky | Conditions | Steps | Trained in | Weights |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| balancer | CartPole-v1 | 500.0 ± 0.0 |  | 3 games, greedy actions, seeds 0 to 2 | 1,000 | 30 min | 15 |",
    ]


def with_sticky_score(entry):
    """`entry` as if its games were Pong's."""
    shared = {"env": "ALE/Pong-v5", "greedy": False}
    score = replace(entry.score, **shared, returns=(20.0, 21.0, 13.0))
    return replace(entry, score=score, sticky_score=replace(score, protocol="sticky", returns=(1.0, 2.0, 3.0)))


def test_the_table_has_the_score_by_each_protocol(balancer, monkeypatch, capsys):
    write_entry(with_sticky_score(balancer))
    run_zoo(monkeypatch, "list", "--markdown")
    cells = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert cells[2:5] == ["18.0 ± 3.6", "2.0 ± 0.8", "classic protocol, 3 games, sampled actions, seeds 0 to 2"]


def test_info_tells_the_score_by_each_protocol(balancer, monkeypatch, capsys):
    write_entry(with_sticky_score(balancer))
    run_zoo(monkeypatch, "info", "balancer")
    told = capsys.readouterr().out
    for words in (
        "18.0 ± 3.6, median 20.0, best 21.0 (classic protocol, 3 games, sampled actions",
        "2.0 ± 0.8, median 2.0, best 3.0 (sticky protocol, 3 games, sampled actions",
    ):
        assert told.count(words) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"n_steps": (5, 20)},
            "2 asynchronous workers, each with 16 environments; one pass over each rollout of 5 or 20 steps",
        ),
        (
            {"workers": 1, "envs_per_worker": 1},
            "one worker with 1 environment, which is advantage actor-critic (A2C); "
            "one pass over each rollout of 32 steps",
        ),
        (
            {"passes": 3, "minibatches": 4, "clip_ratio": 0.1, "vtrace": True},
            "2 asynchronous workers, each with 16 environments; 3 passes over each rollout of 32 steps "
            "in 4 minibatches, clipped at a ratio of 1 ± 0.1, corrected by V-trace",
        ),
    ],
    ids=["A3C", "A2C", "clipped passes"],
)
def test_a_card_says_by_what_method_its_agent_learnt(balancer, changes, words):
    entry = replace(balancer, recipe=Recipe(**changes))
    assert method_words(entry.recipe) == words
    assert f"1602.01783): {words}." in model_card(entry, "user/a")
    assert ("does not clip" in model_card(entry, "user/a")) == ("passes" in changes)
    assert f"  method       {words}\n" in description(entry)


def test_info_tells_score_recipe_and_command(balancer, monkeypatch, capsys):
    run_zoo(monkeypatch, "info", "balancer")
    told = capsys.readouterr().out
    assert told == description(balancer) + "\n"
    for words in (
        "Keeps its balance.",
        "500.0 ± 0.0, median 500.0, best 500.0 (3 games",
        "by hand",
        "gamma=0.99",
        "licence MIT",
    ):
        assert words in told


@pytest.mark.parametrize("argv", [("info", "balancr"), ("play", "balancr")])
def test_an_unknown_agent_ends_a_command_in_one_sentence(balancer, monkeypatch, argv):
    with pytest.raises(SystemExit, match=r"^error: no agent .* Did you mean balancer") as caught:
        run_zoo(monkeypatch, *argv)
    assert "\n" not in caught.value.code


def test_play_keeps_a_game_as_a_video(monkeypatch, capsys, tmp_path):
    agent = Agent.untrained(Recipe())
    save_agent(tmp_path / "beginner", agent)
    steps = int(play(agent, 7).total)
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


def steps_played(monkeypatch, capsys, tmp_path, *options):
    """How many steps `zoo play` says that the game took, which it keeps as a video."""
    video = tmp_path / "game.mp4"
    run_zoo(monkeypatch, "play", *options, "--out", video)
    assert video.stat().st_size > 0
    return int(re.search(r"seed \d+, (\d+) steps", capsys.readouterr().out)[1])


def test_play_shows_a_snapshot(grown, monkeypatch, capsys, tmp_path):
    played = [steps_played(monkeypatch, capsys, tmp_path, "balancer", "--snapshot", percent) for percent in (0, 5)]
    assert played == [len(play(agent, 0).actions) for agent in (Agent.untrained(grown.recipe), younger(5))]
    assert max(played) < 500


def test_play_takes_the_actions_that_the_record_says_unless_it_is_told_otherwise(
    balancer, monkeypatch, capsys, tmp_path
):
    write_entry(replace(balancer, score=replace(balancer.score, greedy=False)))
    seed = next(seed for seed in range(100) if len(play(toy.balancer(), seed, greedy=False).actions) < 400)
    drawn = len(play(toy.balancer(), seed, greedy=False).actions)
    played = [
        steps_played(monkeypatch, capsys, tmp_path, "balancer", "--seed", seed, *options)
        for options in ([], ["--actions", "greedy"], ["--actions", "sampled"])
    ]
    assert played == [drawn, 500, drawn]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["balancer", "--snapshot", 7], "balancer has no snapshot 7: choose one of 0, 5, 25, 100"),
        (["balancr", "--snapshot", 5], "no agent and no directory 'balancr'. Did you mean balancer"),
        (["balancer", "--protocol", "sticky"], "CartPole-v1 knows the classic protocol only"),
    ],
)
def test_what_cannot_be_played_ends_in_one_sentence(grown, monkeypatch, tmp_path, options, says):
    with pytest.raises(SystemExit, match=f"^error: {re.escape(says)}") as caught:
        run_zoo(monkeypatch, "play", *options, "--out", tmp_path / "game.mp4")
    assert "\n" not in caught.value.code
    assert not (tmp_path / "game.mp4").exists()


def test_a_directory_plays_as_its_snapshots_too(scored_once, monkeypatch, tmp_path, capsys):
    run = scored_once / "run"
    run_zoo(monkeypatch, "play", run, "--snapshot", 5, "--out", tmp_path / "game.mp4")
    steps = len(play(zoo.load(run, 5), 0).actions)
    assert f"{steps} steps" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"error: .*7 is no checkpoint"):
        run_zoo(monkeypatch, "play", run, "--snapshot", 7, "--out", tmp_path / "game.mp4")


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
    _, code, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(code, names)
    assert names["total"] == 500.0
