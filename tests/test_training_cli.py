"""The command line: each command does its work, and each mistake ends in a sentence instead of a traceback."""

import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

import training.__main__ as cli
import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import RECIPE, load_agent, save_agent, saved_in
from a3c_core.envs import spaces_of
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Phase, Recipe
from tests import toy
from tests.processes import alive, descendants, wait_until
from training.commands.options import base_recipe
from training.commands.train import new_directory
from training.diagnostics import PATIENCE
from training.keep import keep
from training.log import Metrics, read_log
from training.recipes import RECIPES
from training.schedule import command_of

ROOT = Path(__file__).parents[1]
INVADERS = replace(RECIPES["pong"], env="ALE/SpaceInvaders-v5")
SMALL = ("--steps", "300", "--envs-per-worker", "4", "--n-steps", "5", "20", "--optimizer", "rmsprop")


def test_a_cluster_without_ray_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "training.cluster", raising=False)
    with pytest.raises(SystemExit, match=r'^error: --cluster needs Ray: pip install "a3c-arcade\[ray\]"$'):
        cli.main(["train", "cartpole", "--cluster", "local", "--out", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["--compression=bfloat16", "--max-staleness=4"])
def test_what_is_for_a_cluster_needs_one(option):
    with pytest.raises(SystemExit, match="give --cluster too"):
        cli.main(["train", "cartpole", option])


@pytest.fixture
def checkpoint(tmp_path):
    save_agent(tmp_path / "balancer", toy.balancer())
    return tmp_path / "balancer"


def parsed(monkeypatch, *argv):
    """Recipe and directory that `train` would be called with."""
    called = []

    def train(recipe, directory, *, resume, **ends):
        called.append((recipe, directory))
        yield Metrics().progress(0, goal=1, learning_rate=0.0)

    monkeypatch.setattr("training.commands.train.train", train)
    cli.main(["train", *argv])
    return called[0]


def start(*argv):
    command = [sys.executable, "-m", "training", *map(str, argv)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes)


def test_train_resume_and_evaluate(tmp_path, capsys):
    run = tmp_path / "run"
    cli.main(["train", "cartpole", *SMALL, "--out", str(run)])
    out = capsys.readouterr().out
    assert f"training CartPole-v1 in {run}" in out
    assert f"python -m training evaluate {run}" in out
    agent = load_agent(run)
    assert (agent.recipe.n_steps, agent.recipe.optimizer) == ((5, 20), "rmsprop")
    assert 300 <= agent.steps < 500

    cli.main(["train", "cartpole", "--resume", str(run), "--steps", "600"])
    resumed = load_agent(run)
    assert resumed.recipe == replace(agent.recipe, steps=600)
    assert 600 <= resumed.steps < 800
    assert read_log(run)[-1].steps == resumed.steps

    capsys.readouterr()
    cli.main(["evaluate", str(run), "--episodes", "20", "--json"])
    told = json.loads(capsys.readouterr().out)
    score = evaluate(resumed, 20)
    assert told["returns"] == list(score.returns)
    assert (told["mean"], told["std"], told["steps"]) == (score.mean, score.std, resumed.steps)
    assert (told["env"], told["episodes"], told["greedy"], told["first_seed"]) == ("CartPole-v1", 20, True, 0)
    assert (told["median"], told["best"], told["protocol"]) == (score.median, max(score.returns), "classic")


def test_evaluate_tells_the_score_in_a_line(checkpoint, capsys):
    cli.main(["evaluate", str(checkpoint), "--episodes", "3", "--first-seed", "50"])
    line = "500.00 ± 0.00 on CartPole-v1 (3 games, greedy actions, seeds 50 to 52)"
    assert capsys.readouterr().out == f"{checkpoint}: {line}\n"


def test_evaluate_can_draw_its_actions(checkpoint, capsys):
    cli.main(["evaluate", str(checkpoint), "--episodes", "3", "--actions", "sampled", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["returns"] == list(evaluate(toy.balancer(), 3, greedy=False).returns)
    assert told["greedy"] is False


def test_evaluate_can_draw_its_actions_at_another_temperature(checkpoint, capsys):
    cli.main(["evaluate", str(checkpoint), "--episodes", "3", "--actions", "sampled", "--sampling-temperature", "3"])
    score = evaluate(toy.balancer().at_temperature(3.0), 3, greedy=False)
    line = f"{score.mean:.2f} ± {score.std:.2f} on CartPole-v1 (3 games, sampled actions (temperature 3), seeds 0 to 2)"
    assert capsys.readouterr().out == f"{checkpoint}: {line}\n"


def test_evaluate_plays_as_the_agents_entry_says_unless_it_is_told_otherwise(empty_zoo, checkpoint, capsys):
    keep(toy.run_of(checkpoint, toy.balancer()), "drawn", summary=None, command="by hand", episodes=3, greedy=False)
    told = []
    for options in ([], ["--actions", "greedy"], ["--actions", "sampled"]):
        cli.main(["evaluate", "drawn", "--episodes", "3", "--json", *options])
        told.append(json.loads(capsys.readouterr().out))
    assert [score["greedy"] for score in told] == [False, True, False]
    assert told[0]["returns"] == list(zoo.entries()["drawn"].score.returns) == told[2]["returns"]


def test_evaluate_scores_an_atari_agent_by_the_protocol_it_is_told(tmp_path, capsys):
    agent = Agent.untrained(INVADERS)
    save_agent(tmp_path, agent)
    cli.main(["evaluate", str(tmp_path), "--protocol", "sticky", "--episodes", "1"])
    score = evaluate(agent, 1, protocol="sticky")
    words = "(sticky protocol, 1 games, greedy actions, seeds 0 to 0)"
    assert capsys.readouterr().out == f"{tmp_path}: {score.mean:.2f} ± 0.00 on {INVADERS.env} {words}\n"


@pytest.mark.parametrize(("recipe", "games"), [(Recipe(), 1000), (RECIPES["pong"], 100)], ids=["CartPole", "Pong"])
@pytest.mark.parametrize("sampled", [False, True])
def test_keep_scores_over_so_many_games_as_the_environment_allows(tmp_path, monkeypatch, recipe, games, sampled):
    kept = []

    def keep(run, name, **options):
        kept.append(options)
        raise ValueError("seen")

    monkeypatch.setattr("training.commands.agents.keep", keep)
    save_agent(tmp_path, Agent.untrained(recipe))
    for episodes in ([], ["--episodes", "7"]):
        with pytest.raises(SystemExit, match="seen"):
            cli.main(["keep", str(tmp_path), "--name", "mine", *episodes, *["--actions", "sampled"] * sampled])
    assert [options["episodes"] for options in kept] == [games, 7]
    assert [options["greedy"] for options in kept] == [not sampled] * 2


def test_keep_puts_a_run_into_the_zoo(empty_zoo, checkpoint, capsys):
    toy.run_of(checkpoint, toy.balancer())
    cli.main(["keep", str(checkpoint), "--name", "cartpole", "--episodes", "3"])
    assert "cartpole: 500.00 ± 0.00, kept in" in capsys.readouterr().out
    assert zoo.entries()["cartpole"].command == command_of("cartpole", toy.balancer().recipe)


def test_keep_can_give_a_run_and_its_snapshots_another_temperature(empty_zoo, checkpoint):
    toy.run_of(checkpoint, toy.balancer())
    save_agent(checkpoint / "snapshots" / "5", toy.balancer())
    keeping = ["keep", str(checkpoint), "--name", "cool", "--episodes", "3", "--actions", "sampled"]
    cli.main([*keeping, "--sampling-temperature", "0.5"])
    entry = zoo.entries()["cool"]
    assert {place.recipe.sampling_temperature for place in (entry, entry.open(), entry.open(5))} == {0.5}
    assert entry.score == evaluate(toy.balancer().at_temperature(0.5), 3, greedy=False)
    assert "--sampling-temperature 0.5" in entry.command


@pytest.mark.parametrize("name", RECIPES)
def test_a_name_alone_trains_the_shipped_recipe_in_a_new_directory(name, monkeypatch):
    recipe, directory = parsed(monkeypatch, name)
    assert recipe == RECIPES[name]
    assert directory.parent == Path("runs")
    assert not directory.exists()


def test_new_directories_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = Recipe(seed=3)
    for number in (1, 2):
        assert new_directory(recipe) == Path(f"runs/CartPole-v1-seed3-{number}")
        (tmp_path / f"runs/CartPole-v1-seed3-{number}").mkdir(parents=True)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seed": 7, "steps": 1234, "workers": 3},
        {"n_steps": (5, 20), "head_layers": ()},
        {"core": "lstm", "core_size": 16, "optimizer": "rmsprop", "learning_rate_decay": "none"},
        {"normalize_advantages": False, "share_statistics": False, "handover": "queue", "schedule": ()},
        {"reward_shift": -8.0, "reward_scale": 1 / 3, "reward_clip": 1.0, "epsilon": 1e-7},
        {"max_gradient_norm": None, "reward_clip": None, "adam_betas": (0.8, 0.99)},
        {"encoder": "nature", "layer_norm": True, "pixel_shift": -100.0, "pixel_scale": 0.01},
        {"sticky_actions": (0.0, 0.25), "full_action_space": True, "life_loss_ends_return": True},
        {"stall_ends_return": 300, "stall_earns_nothing": 200},
        {"precision": "bfloat16", "device": "cuda", "shared_device": "cuda"},
        {"precision": "float32", "encoder": "vector"},
        {"schedule": ()},
        {"schedule": (Phase(at=1000, changes={"gamma": 0.9}),)},
    ],
)
@pytest.mark.parametrize("name", RECIPES)
def test_the_command_of_a_recipe_trains_just_that_recipe(name, changes, monkeypatch):
    recipe = replace(RECIPES[name], **changes)
    command = shlex.split(command_of(name, recipe))
    assert command[:4] == ["python", "-m", "training", "train"]
    assert parsed(monkeypatch, *command[4:])[0] == recipe


def test_the_command_of_a_recipe_that_does_not_ship_must_be_given():
    with pytest.raises(ValueError, match="unknown environment 'Snake-v0'"):
        command_of("snake", Recipe(env="Snake-v0"))


@pytest.mark.parametrize("name", ["my-own", "pendulum"])
def test_an_agent_of_another_name_is_trained_by_the_recipe_of_its_environment(name):
    assert command_of(name, replace(RECIPES["cartpole"], seed=5)) == "python -m training train cartpole --seed 5"


def test_the_command_of_a_run_trains_what_it_went_through(tmp_path, monkeypatch, empty_zoo):
    run = tmp_path / "run"
    cli.main(["train", "cartpole", "--steps", "96", "--workers", "1", "--n-steps", "3", "--out", str(run)])
    for changes in (["--steps", "192", "--gamma", "0.9", "--handover", "queue"], []):  # going on is no other phase
        cli.main(["train", "--resume", str(run), "cartpole", *changes])
    whole = saved_in(run).recipe
    assert whole.schedule == (Phase(at=96, changes={"steps": 192, "gamma": 0.9, "handover": "queue"}),)
    command = shlex.split(command_of("mine", whole))
    cli.main(["keep", str(run), "--name", "mine", "--episodes", "1"])
    assert zoo.entries()["mine"].command == "python -m training repeat mine"
    assert parsed(monkeypatch, *command[4:])[0] == whole


def test_a_run_stops_early_with_its_learning_rate_as_if_it_went_on(tmp_path, capsys):
    short = ["train", "cartpole", "--steps", "960", "--workers", "1", "--n-steps", "3", "--out", str(tmp_path)]
    cli.main([*short, "--stop-at", "480"])
    first = read_log(tmp_path)[-1]
    assert (first.steps, first.learning_rate) == (480, RECIPES["cartpole"].learning_rate / 2)
    cli.main(["train", "--resume", str(tmp_path), "cartpole"])
    assert (read_log(tmp_path)[-1].steps, saved_in(tmp_path).recipe.schedule) == (960, ())


@pytest.mark.parametrize("name", zoo.entries())
def test_a_training_of_the_zoo_is_planned_from_its_first_step_to_its_last(name, capsys):
    cli.main(["repeat", name, "--dry-run"])
    head, *lines = capsys.readouterr().out.splitlines()
    entry = zoo.entries()[name]
    assert head.startswith(entry.recipe.env)
    spans = [re.match(r"  steps ([\d,]+) to ([\d,]+), learning rate ", line).groups() for line in lines]
    assert len(spans) == len(entry.whole.schedule) + 1
    assert [start for start, _ in spans] == ["0", *(end for _, end in spans[:-1])]
    assert int(spans[-1][1].replace(",", "")) == min(entry.score.steps, entry.recipe.steps)
    changed = {change for phase in entry.whole.schedule for change in phase.changes}
    assert all(f"{change}=" in "".join(lines[1:]) for change in changed)


def test_a_run_is_repeated_from_nothing_by_its_schedule(tmp_path, capsys):
    phase = '[{"at": 48, "changes": {"gamma": 0.9}}, {"at": 500, "changes": {"gamma": 0.8}}]'
    sizes = ["--steps", "960", "--workers", "1", "--n-steps", "3", "--schedule", phase, "--stop-at", "96"]
    cli.main(["train", "cartpole", *sizes, "--out", str(tmp_path / "run")])
    cli.main(["repeat", str(tmp_path / "run"), "--seed", "3", "--out", str(tmp_path / "again")])
    first, again = (saved_in(tmp_path / place) for place in ("run", "again"))
    assert again == first._replace(recipe=replace(first.recipe, seed=3))
    assert (again.steps, again.phase) == (96, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_run_of_a_gpu_is_repeated_where_there_is_none(tmp_path):
    phase = '[{"at": 48, "changes": {"shared_device": "cpu"}}]'
    sizes = ["--steps", "96", "--workers", "1", "--n-steps", "3", "--schedule", phase]
    cli.main(["train", "cartpole", *sizes, "--out", str(tmp_path / "run")])
    path = tmp_path / "run" / RECIPE
    path.write_text(path.read_text().replace('device": "cpu"', 'device": "cuda"'))
    assert saved_in(tmp_path / "run").recipe.schedule[0].changes == {"shared_device": "cuda"}
    cli.main(["repeat", str(tmp_path / "run"), "--out", str(tmp_path / "again")])
    again = saved_in(tmp_path / "again").recipe
    assert (again.device, again.shared_device, again.schedule[0].changes) == ("cpu", "cpu", {"shared_device": "cpu"})


@pytest.mark.parametrize(
    "schedule", ["{}", "[", '[{"at": 5, "changes": {"env": "x"}}]', '[{"at": "5", "changes": {}}]']
)
def test_a_wrong_schedule_is_refused(schedule, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", "cartpole", "--schedule", schedule, "--out", str(tmp_path / "run")])
    assert ended.value.code != 0
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_goes_on_in_its_own_directory(checkpoint, tmp_path):
    with pytest.raises(SystemExit, match="not both"):
        cli.main(["train", "--resume", str(checkpoint), "--out", str(tmp_path / "other"), "cartpole"])


def test_resuming_takes_the_runs_own_recipe(tmp_path, monkeypatch):
    recipe = Recipe(head_layers=(8,), gamma=0.5, handover="lock")
    save_agent(tmp_path, Agent.untrained(recipe))
    assert parsed(monkeypatch, "cartpole", "--resume", str(tmp_path)) == (recipe, tmp_path)
    changed, _ = parsed(monkeypatch, "cartpole", "--resume", str(tmp_path), "--gamma", "0.9", "--steps", "10")
    assert changed == replace(recipe, gamma=0.9, steps=10)


def test_resuming_with_an_equals_sign_takes_the_runs_own_recipe_too(checkpoint, monkeypatch):
    assert parsed(monkeypatch, "cartpole", f"--resume={checkpoint}")[0] == toy.balancer().recipe


def ill(seconds, **changes):
    """A moment of a run whose gradient is zero."""
    moment = Metrics(seconds=seconds).progress(1000, goal=2000, learning_rate=1e-3)
    return replace(moment, seconds=seconds, **{"updates": 10, "gradient_norm": 0.0} | changes)


@pytest.mark.parametrize(
    ("moments", "warnings"),
    [
        ([ill(0.0), ill(PATIENCE), ill(2 * PATIENCE)], 1),
        ([ill(0.0, gradient_norm=1.0), ill(PATIENCE, gradient_norm=1.0)], 0),
    ],
    ids=["ill", "well"],
)
def test_a_run_that_learns_nothing_is_warned_of_once_and_goes_on(tmp_path, monkeypatch, capsys, moments, warnings):
    monkeypatch.setattr(
        "training.commands.train.train", lambda recipe, directory, *, resume, **ends: (moment for moment in moments)
    )
    cli.main(["train", "cartpole", "--out", str(tmp_path)])
    told = capsys.readouterr()
    assert told.err.count("WARNING: at 1,000 steps the gradient is zero") == told.err.count("WARNING") == warnings
    assert "score it:" in told.out


def test_what_a_run_logs_has_a_line_of_its_own_beside_the_progress_bar(tmp_path, monkeypatch, capsys):
    def moments(recipe, directory, *, resume, **ends):
        yield ill(0.0, gradient_norm=1.0)
        logging.getLogger("training.cluster").warning("worker 0 was lost")

    monkeypatch.setattr("training.commands.train.train", moments)
    cli.main(["train", "cartpole", "--out", str(tmp_path)])
    assert "worker 0 was lost" in re.split("[\r\n]", capsys.readouterr().err)


@pytest.mark.parametrize(("precision", "words"), [("float32", "the encoder in float32"), ("bfloat16", "bfloat16")])
def test_training_tells_what_its_encoder_computes_with(precision, words, monkeypatch, capsys):
    parsed(monkeypatch, "pong", "--precision", precision)
    assert words in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize("name", RECIPES)
def test_help_explains_every_number_of_the_recipe(name, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["train", name, "--help"])
    assert caught.value.code == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for field in fields(Recipe):
        assert field.name.replace("_", "-") in told
    assert "Discount of a reward that comes one step later." in told
    assert "continue the run in this directory" in told


@pytest.mark.parametrize("command", ["train", "evaluate", "keep"])
def test_help_names_every_command(command, capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert command in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["train", "cartpole", "--gamma", "high"], "--gamma"),
        (["train", "cartpole", "--core", "gru"], "--core"),
        (["train", "cartpole", "--gama", "0.9"], "--gama"),
        (["evaluate", "cartpole", "--protocol", "strict"], "--protocol"),
        (["tetris"], "train, submit, repeat, search, compare, widen, evaluate, keep"),
        (["evaluate"], "required"),
        (["evaluate", "cartpole", "--episodes", "many"], "--episodes"),
    ],
)
def test_a_wrong_option_is_named(argv, says, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert caught.value.code == 2
    assert says in told
    assert "Traceback" not in told


def test_mistakes_end_in_one_sentence(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "recipe.json").write_text("{")
    for argv, says in {
        "train": f"name a recipe ({', '.join(RECIPES)}), an environment (--env ID)",
        "train tetris": f"unknown recipe 'tetris': choose one of {', '.join(RECIPES)}",
        "train cartpole --gamma 1.5": "gamma: Input should be less than or equal to 1",
        "train pong --no-normalize-advantages --gamma 1.5": "gamma: Input should be less than or equal to 1",
        "train cartpole --passes 2": "recipe: more than one pass over a rollout needs a clip_ratio",
        "train pong --pixel-shift 1": "pixel_shift: Input should be less than or equal to 0",
        "train pong --encoder resnet --out new": "unknown encoder 'resnet': choose one of vector, a3c",
        "train --env Nothing-v0": "unknown environment 'Nothing-v0'",
        "train --env no_module:Nothing-v0": "cannot import 'no_module'",
        "train pong --resume balancer": "plays CartPole-v1, not ALE/Pong-v5: leave the name out",
        "evaluate nobody": "no agent and no directory 'nobody'",
        "evaluate empty": "empty is no checkpoint: it has no recipe.json",
        "evaluate broken": "recipe.json is not valid JSON",
        "evaluate balancer --episodes 0": "episodes must be at least 1",
        "evaluate balancer --protocol sticky": "CartPole-v1 knows the classic protocol only",
        "evaluate balancer --sampling-temperature 0.5": "add --actions sampled",
        "evaluate balancer --first-seed 1000000000": "seeds must be between 0 and 999999999",
        "train cartpole --resume nowhere": "nowhere is no checkpoint",
        "train cartpole --resume balancer --head-layers 8": "A resumed run keeps its network",
        f"train pong --resume {zoo.entry.WEIGHTS / 'pong'}": "belongs to the zoo",
        "widen balancer --out wide": "only the encoder a3c has a wider one, not vector",
        "train cartpole --out balancer": "balancer holds a run already",
        "train cartpole --out balancer/recipe.json": "recipe.json",
        "keep empty --name cartpole": "empty is no checkpoint",
        "keep balancer --name snake": "balancer has no log.jsonl",
        "keep balancer --name snake --sampling-temperature 0": "sampling_temperature: Input should be greater",
        f"keep {zoo.entry.WEIGHTS / 'pong'} --name mine --sampling-temperature 0.5": "belongs to the zoo: copy it",
    }.items():
        with pytest.raises(SystemExit) as caught:
            cli.main(shlex.split(argv))
        assert str(caught.value.code).startswith("error: ")
        assert says in caught.value.code
        assert "\n" not in caught.value.code


def test_a_training_without_ale_py_fails_before_it_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "a3c_core.atari", raising=False)
    monkeypatch.setitem(sys.modules, "ale_py", None)
    monkeypatch.setitem(sys.modules, "ale_py.vector_env", None)
    spaces_of.cache_clear()
    with pytest.raises(SystemExit, match=r"needs ale-py, which is not installed: pip install"):
        cli.main(["train", "pong", "--out", str(tmp_path / "run")])
    assert "training" not in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("called", "says"),
    [("/usr/bin/a3c-arcade", "a3c-arcade"), ("a3c_arcade.py", "a3c-arcade"), ("__main__.py", "python -m training")],
)
def test_a_hint_is_called_as_the_command_was(called, says, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", [called])
    parsed(monkeypatch, "cartpole", "--out", str(tmp_path))
    assert f"score it:  {says} evaluate {tmp_path}\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert f"usage: {says} " in capsys.readouterr().out


def test_a_mistake_shows_no_traceback_and_fails(tmp_path):
    ended = start("evaluate", tmp_path)
    out, err = ended.communicate(timeout=100)
    assert ended.returncode == 1
    assert out == ""
    assert err.splitlines()[-1].startswith(f"error: {tmp_path} is no checkpoint")
    assert "Traceback" not in err


def test_ctrl_c_keeps_what_was_learnt_and_leaves_nobody_behind(tmp_path):
    run = tmp_path / "run"
    process = start("train", "cartpole", "--steps", 10**8, "--out", run)
    try:
        assert wait_until(lambda: any(moment.updates for moment in read_log(run)), 60.0)
        below = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # a terminal tells the whole group
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"stopped: the checkpoint is in {run}, continue with --resume {run}" in err
    assert "Traceback" not in out + err
    assert wait_until(lambda: not any(map(alive, below)), 5.0)
    assert load_agent(run).steps >= read_log(run)[-1].steps > 0


def test_ctrl_c_ends_any_command_in_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr("training.commands.agents.evaluate", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    with pytest.raises(SystemExit) as ended:
        cli.main(["evaluate", "cartpole"])
    assert ended.value.code == 130
    sentence = "stopped: run the same command again to start over; `search` and `compare` continue"
    assert capsys.readouterr().err.strip() == sentence


@pytest.mark.parametrize(
    "options",
    [
        "--evaluate-every 5 pong",
        "--stop-at 5 pong",
        "pong --help",
        "--env ALE/Pong-v5 --help",
        "pong --passes 2",
        "pong --core lstm --minibatches 32",
    ],
)
def test_what_a_training_begins_with_is_found_beside_any_option(options):
    assert base_recipe(options.split()) == RECIPES["pong"]


def test_the_averaged_weights_of_a_run_are_scored(tmp_path, capsys):
    run = tmp_path / "run"
    cli.main(["train", "cartpole", *SMALL, "--average-decay", "0.9", "--out", str(run)])
    capsys.readouterr()
    cli.main(["evaluate", str(run), "--average", "--episodes", "3", "--json"])
    assert json.loads(capsys.readouterr().out)["returns"] == list(evaluate(load_agent(run / "average"), 3).returns)
    with pytest.raises(SystemExit, match="keeps no averaged weights"):
        cli.main(["evaluate", "pong", "--average"])
