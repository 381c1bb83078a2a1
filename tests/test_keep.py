"""An agent comes into the zoo with a fresh score, and leaves it only for a better one."""

import pytest
import torch

import zoo
from a3c_core.agent import Agent
from a3c_core.checkpoint import AVERAGE, MODEL, RECIPE, SNAPSHOTS, CheckpointError, save_agent
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Recipe
from tests import toy
from training.keep import beats, better_weights, keep
from training.log import LOG
from zoo.card import description, model_card

WORDS = {"summary": "Keeps its balance.", "command": "python -m training train cartpole", "episodes": 5}


@pytest.fixture
def good(tmp_path):
    return toy.run_of(tmp_path / "good", toy.balancer())


@pytest.fixture
def bad(tmp_path):
    return toy.run_of(tmp_path / "bad", Agent.untrained(Recipe(head_layers=(8,))))


def files_of(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_kept_agent_is_in_the_zoo_with_its_weights_score_and_story(empty_zoo, good):
    entry = keep(good, "balancer", **WORDS)
    assert zoo.entries() == {"balancer": entry}
    assert (entry.summary, entry.command) == (WORDS["summary"], WORDS["command"])
    assert entry.recipe == Recipe(head_layers=())
    assert entry.score == evaluate(toy.balancer(), 5)
    assert entry.score.returns == (500.0,) * 5
    assert entry.hours == pytest.approx(0.5, abs=1e-3)
    assert entry.parameters == 4 * 2 + 2 + 4 + 1
    for file in (MODEL, RECIPE, LOG):
        assert (empty_zoo / "weights" / "balancer" / file).read_bytes() == (good / file).read_bytes()
    assert zoo.load("balancer").steps == 1000


def test_what_an_agent_does_badly_is_told_wherever_it_is_described(empty_zoo, good):
    entry = keep(good, "balancer", **WORDS, limits="It <b>never</b> rests.")
    assert zoo.entries()["balancer"].limits == "It <b>never</b> rests."
    assert "\n\nIt <b>never</b> rests.\n\n" in model_card(entry, "tester/balancer")
    assert "  limits       It <b>never</b> rests.\n" in description(entry)
    assert not keep(good, "balancer", **WORDS, force=True).limits  # those were of other weights


def test_an_agent_that_is_no_better_is_not_kept(empty_zoo, good, bad):
    keep(good, "balancer", **WORDS)
    before = files_of(empty_zoo)
    with pytest.raises(CheckpointError, match=r"the balancer now in the zoo 500\.00 in the same.*not kept.*--force"):
        keep(bad, "balancer", **WORDS)
    with pytest.raises(CheckpointError, match=r"scores 500\.00.*not kept"):
        keep(good, "balancer", **WORDS)
    assert files_of(empty_zoo) == before


@pytest.mark.parametrize(
    ("classic", "sticky", "better"), [(21, 9, False), (21, 10, True), (22, 8, False), (20, 20, False), (22, 9, True)]
)
def test_an_agent_takes_a_place_that_it_beats_by_both_protocols(classic, sticky, better):
    assert beats({"classic": classic, "sticky": sticky}, {"classic": 21, "sticky": 9}) == better


def test_a_better_agent_takes_the_place_and_the_summary_of_the_old_one(empty_zoo, good, bad):
    keep(bad, "balancer", **WORDS)
    entry = keep(good, "balancer", **WORDS | {"summary": None})
    assert zoo.entries()["balancer"] == entry
    assert (entry.score.mean, entry.summary) == (500.0, "Keeps its balance.")
    assert zoo.load("balancer").recipe.head_layers == ()


def test_averaged_weights_are_kept_only_where_they_score_better(empty_zoo, good, bad):
    save_agent(bad / AVERAGE, toy.balancer())
    assert better_weights(bad, 5) == bad / AVERAGE
    assert keep(better_weights(bad, 5), "balancer", **WORDS).score.mean == 500.0
    with pytest.raises(CheckpointError, match="keeps no averaged weights"):
        better_weights(good, 5)
    save_agent(good / AVERAGE, Agent.untrained(Recipe(head_layers=(8,))))
    assert better_weights(good, 5) == good


def test_the_zoos_own_agent_is_not_kept_again(empty_zoo, good):
    entry = keep(with_snapshots(good, 5), "balancer", **WORDS)
    before = files_of(empty_zoo)
    with pytest.raises(CheckpointError, match="is the zoo's own balancer already"):
        keep(entry.directory, "balancer", **WORDS, force=True)
    assert files_of(empty_zoo) == before


def test_force_takes_the_worse_agent(empty_zoo, good, bad):
    keep(good, "balancer", **WORDS)
    entry = keep(bad, "balancer", **WORDS, force=True)
    assert entry.score.mean < 500.0
    assert zoo.load("balancer").recipe.head_layers == (8,)


def test_agents_of_other_names_are_left_alone(empty_zoo, good, bad):
    keep(good, "balancer", **WORDS)
    keep(bad, "beginner", **WORDS)
    assert list(zoo.entries()) == ["balancer", "beginner"]
    assert zoo.load("balancer").recipe.head_layers == ()


def test_an_agent_of_the_users_own_is_kept_beside_the_zoo_that_ships(empty_zoo, good, bad, tmp_path, monkeypatch):
    keep(bad, "balancer", **WORDS)
    keep(bad, "beginner", **WORDS)
    before = files_of(empty_zoo)
    monkeypatch.setenv("A3C_ZOO", str(tmp_path / "own"))
    monkeypatch.setattr(zoo.entry, "IN_CHECKOUT", False)
    entry = keep(good, "balancer", **WORDS)
    assert files_of(empty_zoo) == before
    assert entry.directory == tmp_path / "own" / "weights" / "balancer"
    assert (list(zoo.entries()), zoo.entries()["balancer"]) == (["balancer", "beginner"], entry)
    assert zoo.load("balancer").recipe.head_layers == ()
    assert zoo.load("beginner").recipe.head_layers == (8,)


def test_an_installed_zoo_does_not_change(empty_zoo, good, monkeypatch):
    monkeypatch.setattr(zoo.entry, "IN_CHECKOUT", False)
    with pytest.raises(ValueError, match="an installed zoo does not change: set A3C_ZOO to a directory for your own"):
        keep(good, "balancer", **WORDS)
    assert files_of(empty_zoo) == {}


def test_what_is_no_run_is_not_kept(empty_zoo, tmp_path):
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        keep(tmp_path, "balancer", **WORDS)
    assert files_of(empty_zoo) == {}


def with_snapshots(run, *percents):
    """Gives `run` snapshots of CartPole agents, as training keeps them."""
    for percent in percents:
        agent = Agent.untrained(Recipe(head_layers=(), seed=percent))._replace(steps=10 * percent)
        save_agent(run / SNAPSHOTS / str(percent), agent, dtype=torch.bfloat16)
    return run


def test_snapshots_go_into_the_zoo_with_their_agent(empty_zoo, good):
    entry = keep(with_snapshots(good, 1, 5, 25), "balancer", **WORDS)
    assert entry.snapshots == [0, 1, 5, 25, 100]
    assert sorted(entry.learning) == entry.snapshots
    assert entry.learning[100] == evaluate(toy.balancer(), 5, greedy=False).mean
    assert entry.learning[0] == pytest.approx(evaluate(Agent.untrained(entry.recipe), 5, greedy=False).mean)
    kept = files_of(entry.directory)
    assert {path.relative_to(entry.directory): data for path, data in kept.items()} == {
        path.relative_to(good): data for path, data in files_of(good).items()
    }
    assert {path.relative_to(entry.directory).as_posix() for path in kept} == {*entry.sha256, LOG}


def test_a_kept_agent_has_no_snapshots_of_the_one_before(empty_zoo, good, bad):
    keep(with_snapshots(bad, 1, 5), "balancer", **WORDS)
    entry = keep(with_snapshots(good, 25), "balancer", **WORDS)
    assert entry.snapshots == [0, 25, 100]
    assert [path.name for path in (entry.directory / SNAPSHOTS).iterdir()] == ["25"]
    assert keep(bad, "balancer", **WORDS, force=True).snapshots == [0, 1, 5, 100]


def test_a_run_that_is_not_kept_leaves_the_snapshots_alone(empty_zoo, good, bad):
    keep(with_snapshots(good, 25), "balancer", **WORDS)
    before = files_of(empty_zoo)
    with pytest.raises(CheckpointError, match="not kept"):
        keep(with_snapshots(bad, 1), "balancer", **WORDS)
    assert files_of(empty_zoo) == before


def test_resume_files_and_tensorboard_events_stay_out_of_the_zoo(empty_zoo, good):
    for stray in ("resume.safetensors", "events.out.tfevents.1", f"{SNAPSHOTS}/notes.txt"):
        (good / stray).parent.mkdir(exist_ok=True)
        (good / stray).touch()
    entry = keep(good, "balancer", **WORDS)
    assert sorted(path.name for path in files_of(entry.directory)) == sorted([LOG, MODEL, RECIPE])


def test_an_agent_is_scored_with_drawn_actions_where_that_is_asked_for(empty_zoo, good):
    entry = keep(good, "balancer", **WORDS, greedy=False)
    assert entry.score == evaluate(toy.balancer(), 5, greedy=False)
    assert not zoo.is_greedy("balancer")
    assert zoo.entries()["balancer"].score.mean < 500.0  # its likeliest actions would earn that


def test_a_cartpole_has_no_sticky_score(empty_zoo, good):
    assert keep(good, "balancer", **WORDS).sticky_score is None


def test_an_atari_agent_is_scored_by_both_protocols(empty_zoo, tmp_path, cut_short):
    cut_short(150)
    recipe = Recipe(env="ALE/SpaceInvaders-v5", encoder="a3c", head_layers=())
    agent, finished = Agent.untrained(recipe)._replace(steps=40), []
    run = toy.run_of(tmp_path / "run", agent)
    save_agent(run / SNAPSHOTS / "5", agent._replace(steps=2), dtype=torch.bfloat16)
    entry = keep(run, "invader", **WORDS | {"episodes": 1}, progress=finished.append)
    assert zoo.entries() == {"invader": entry}
    assert (entry.score.protocol, entry.sticky_score.protocol) == ("classic", "sticky")
    assert [len(score.returns) for score in (entry.score, entry.sticky_score)] == [1, 1]
    assert entry.sticky_score == evaluate(agent, 1, protocol="sticky")
    assert "classic protocol" in entry.score.conditions
    assert "sticky protocol" in entry.sticky_score.conditions
    assert finished.count(1) >= 2  # both went to their ends
    assert [entry.open(percent).steps for percent in entry.snapshots] == [0, 2, 40]


@pytest.mark.parametrize("name", ["../escape", "Upper", "", "a/b"])
def test_a_strange_name_is_refused_before_anything_is_written(empty_zoo, good, name):
    with pytest.raises(ValueError, match="name"):
        keep(good, name, **WORDS)
    assert files_of(empty_zoo) == {}


def test_a_run_without_a_log_does_not_break_the_agent_that_is_kept(empty_zoo, good, bad):
    keep(bad, "balancer", **WORDS)
    (good / LOG).unlink()
    with pytest.raises(CheckpointError, match=LOG):
        keep(good, "balancer", **WORDS)
    assert zoo.load("balancer").recipe == zoo.entries()["balancer"].recipe
