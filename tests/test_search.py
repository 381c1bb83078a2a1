"""Settings are compared by successive halving, and an interrupted search goes on."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import training.__main__ as cli
from a3c_core.checkpoint import load_agent
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Recipe
from training.recipes import RECIPES
from training.search import SEARCH_SEED, Job, Result, Study, jobs, read_results, read_study, search, survivors

STUDIES = Path(cli.__file__).parent / "studies"
SMALL = {
    "games": ["cartpole"],
    "base": {"steps": 1000, "workers": 1, "envs_per_worker": 4, "n_steps": [5], "head_layers": [8]},
    "settings": {"slow": {"learning_rate": 1e-5}, "fast": {"learning_rate": 0.003}, "faster": {"learning_rate": 0.01}},
    "seeds": [0, 1],
    "rungs": [100, 200],
    "kept": 0.34,
    "episodes": 3,
}


def study_file(path, **changes):
    path.write_text(json.dumps(SMALL | changes))
    return path


def results(rung, **means):
    """A result for each mean: of setting `name` with seeds 0, 1 and so on."""
    return [
        Result(game=game, setting=name, seed=seed, rung=rung, steps=rung, seconds=1.0, scores={"classic": mean})
        for name, games in means.items()
        for game, seeds in games.items()
        for seed, mean in enumerate(seeds)
    ]


def test_the_best_by_the_mean_over_seeds_go_on():
    study = Study(
        games=("cartpole",), settings={name: {} for name in "abcd"}, seeds=(0, 1), rungs=(10, 20, 30), kept=0.5
    )
    first = results(
        10, a={"cartpole": [90, 0]}, b={"cartpole": [50, 60]}, c={"cartpole": [1, 2]}, d={"cartpole": [46, 46]}
    )
    assert jobs(study, first[:-1]) == [Job("cartpole", "d", 1, 10)]
    assert {job.setting for job in jobs(study, first)} == {"b", "d"}
    second = results(20, b={"cartpole": [5, 5]}, d={"cartpole": [6, 6]})
    assert jobs(study, first + second) == [Job("cartpole", "d", 0, 30), Job("cartpole", "d", 1, 30)]
    assert jobs(study, first + second + results(30, d={"cartpole": [7, 7]})) == []


def test_one_recipe_for_all_games_is_chosen_by_rank_not_by_points():
    games = ("cartpole", "pendulum")
    study = Study(games=games, settings={"a": {}, "b": {}, "c": {}}, seeds=(0, 1), rungs=(10, 20), kept=0.34)
    going = dict.fromkeys(games, ("a", "b", "c"))
    scored = results(
        10,
        a={"cartpole": [500, 500], "pendulum": [-900, -900]},
        b={"cartpole": [90, 90], "pendulum": [-150, -150]},
        c={"cartpole": [80, 80], "pendulum": [-200, -200]},
    )
    assert survivors(study, going, scored) == {"cartpole": ("a",), "pendulum": ("b",)}
    assert survivors(replace(study, one_for_all=True), going, scored) == dict.fromkeys(games, ("b",))


def test_an_interrupted_search_goes_on_and_makes_nothing_twice(tmp_path):
    study, out = read_study(study_file(tmp_path / "study.json")), tmp_path / "out"
    first = next(search(study, out, stop=lambda: False))
    with (out / "results.jsonl").open("a") as file:
        file.write('{"game": "cartpole", "sett')  # a kill cut it short
    list(search(study, out, stop=iter([False] * 3 + [True] * 10**6).__next__))
    assert len(read_results(out)) < 8
    list(search(study, out, stop=lambda: False))
    found = read_results(out)
    keys = [result.key for result in found]
    assert found[0] == first
    assert len(set(keys)) == len(keys) == 3 * 2 + 1 * 2
    assert [key.rung for key in keys] == [100] * 6 + [200] * 2
    agent = load_agent(keys[-1].directory(out))
    assert (agent.steps, agent.recipe) == (200, study.recipe("cartpole", keys[-1].setting, 1))
    assert list(search(study, out, stop=lambda: False)) == []


@pytest.mark.parametrize("actions", ["greedy", "sampled"])
def test_trainings_are_scored_with_actions_chosen_as_the_study_says(tmp_path, actions):
    study = read_study(study_file(tmp_path / "study.json", rungs=[100], actions=actions))
    result = next(search(study, tmp_path / "out", stop=lambda: False))
    agent = load_agent(result.key.directory(tmp_path / "out"))
    score = evaluate(agent, study.episodes, greedy=actions == "greedy", first_seed=SEARCH_SEED)
    assert result.scores == {"classic": score.mean}


def test_the_command_prints_the_plan_and_ends_with_a_table(tmp_path, capsys):
    path = study_file(tmp_path / "study.json", rungs=[100])
    cli.main(["search", str(path), "--out", str(tmp_path / "out"), "--dry-run"])
    assert "3 settings x 1 games x 2 seeds" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    cli.main(["search", str(path), "--out", str(tmp_path / "out")])
    table = (tmp_path / "out" / "table.md").read_text()
    assert capsys.readouterr().out.endswith(table)
    assert table.count("\n| cartpole | 100 | ") == 3


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": [0]}, "seeds: Tuple should have at least 2 items"),
        ({"rungs": [200, 100]}, "more steps than the one before"),
        ({"rungs": [2000]}, "1000 steps end before the last rung"),
        ({"settings": {"odd": {"learnig_rate": 1.0}}}, "the setting odd, cartpole: learnig_rate"),
        ({"settings": {"odd": {"env": "Pendulum-v1"}}}, "neither the environment nor the schedule"),
        ({"games": ["os:system"]}, "os:system"),
    ],
)
def test_a_broken_study_ends_in_a_sentence(tmp_path, changes, says):
    path = study_file(tmp_path / "study.json", **changes)
    with pytest.raises(SystemExit, match=r"^error: .*is no study") as error:
        cli.main(["search", str(path), "--dry-run"])
    assert says in str(error.value)


@pytest.mark.parametrize("name", ["atari", "hardcore", "pong", "pong_noise", "space_invaders"])
def test_the_shipped_studies_are_sound(name):
    study = read_study(STUDIES / f"{name}.json")
    assert set(study.games) <= set(RECIPES)
    assert len(study.settings) <= 8


def test_a_setting_changes_the_recipe_of_its_game():
    study = read_study(STUDIES / "atari.json")
    common = Recipe(**asdict(RECIPES["breakout"]) | study.base | {"n_steps": (128,)})
    assert study.recipe("breakout", "residual", 1) == replace(common, encoder="residual", seed=1)
