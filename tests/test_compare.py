"""One comparison, small and whole: what is trained, what is kept of it, and that it goes on where it was."""

import json
from dataclasses import replace

import pytest

import training.__main__ as cli
from a3c_core.worker import Report
from tests import toy
from training.compare import FIXED, MARKS, Cell, Comparison, Watch, comparison_of, read_trials
from training.recipes import RECIPES
from training.search import RESULTS

STUDY = Comparison(game="cartpole", workers=(1, 2, 4), total_envs=8, seeds=2, steps=1000)


def test_one_worker_is_trained_once_for_each_seed():
    cells = STUDY.cells()
    assert len(cells) == len(set(cells)) == 2 * (1 + 2 * 4)
    assert [cell.handover for cell in cells if cell.workers == 1] == ["lock-free"] * 2
    assert {cell.seed for cell in cells[:9]} == {0}


def test_trainings_differ_in_workers_handover_and_seed_alone():
    recipe = STUDY.recipe(Cell(4, "queue", 1))
    assert (recipe.workers, recipe.envs_per_worker, recipe.handover, recipe.seed, recipe.steps) == (
        4,
        2,
        "queue",
        1,
        1000,
    )
    same = {"workers": 1, "envs_per_worker": 8, "handover": "lock-free", "seed": 0}
    assert replace(recipe, **same) == STUDY.recipe(Cell(1, "lock-free", 0))


def test_a_comparison_in_four_trainings_goes_on_and_makes_nothing_twice(tmp_path, capsys):
    """The whole command with one seed; the results of another comparison are refused."""
    command = ["compare", "cartpole", "--workers", "1,2", "--total-envs", "2", "--steps", "480", "--episodes", "1"]
    command += ["--seeds", "1", "--out", str(tmp_path), "--handover"]
    cli.main([*command, "lock-free"])
    (tmp_path / RESULTS).write_text((tmp_path / RESULTS).read_text() + '{"game": "cart')  # a kill cut it short
    cli.main([*command, "lock-free,queue,synchronous"])
    assert "2 of 4 trainings of 480 steps to run" in capsys.readouterr().out
    trials = read_trials(tmp_path)
    assert [trial.cell for trial in trials] == [
        Cell(1, "lock-free", 0), Cell(2, "lock-free", 0), Cell(2, "queue", 0), Cell(2, "synchronous", 0)
    ]  # fmt: skip
    for trial in trials:
        together = 48 if trial.handover == "synchronous" or trial.workers == 1 else 24
        assert trial.steps == trial.updates * together >= 480
        assert len(trial.returns) == len(trial.clock) == MARKS
        assert 0 < trial.score <= 500
    assert sum(trials[-1].stalest) == 2 * trials[-1].updates == trials[-1].stalest[0]
    assert [trials[place].lost for place in (0, 2, 3)] == [0, 0, 0]
    with pytest.raises(SystemExit, match="of another comparison"):
        cli.main([*command, "lock-free", "--steps", "960"])


@pytest.mark.parametrize("name", ["ablations_cartpole", "ablations_pong"])
def test_each_setting_of_an_ablation_that_ships_differs_from_the_base(name):
    study = comparison_of(f"training/studies/{name}.json", {"seeds": 1})
    base, *others = [study.recipe(cell) for cell in study.cells()]
    assert base == replace(
        RECIPES[study.game], envs_per_worker=study.total_envs // 2, steps=study.steps, handover="lock-free"
    )
    assert len(set(others) | {base}) == 1 + len(study.settings)
    assert {other.workers for other in others} == {2}


def test_settings_are_trained_beside_their_base_and_go_on_as_they_were(tmp_path):
    path, out = tmp_path / "study.json", tmp_path / "out"
    study = {"game": "cartpole", "workers": [1], "total_envs": 2, "seeds": 1, "steps": 96, "episodes": 1}
    path.write_text(json.dumps(study | {"base": {"gamma": 0.9}, "settings": {"own": {"share_statistics": False}}}))
    command = ["compare", str(path), "--out", str(out)]
    cli.main(command)
    trials = read_trials(out)
    assert [(trial.setting, trial.changes) for trial in trials] == [
        ("base", {"gamma": 0.9}),
        ("own", {"gamma": 0.9, "share_statistics": False}),
    ]
    assert [trial.lost for trial in trials] == [0, None]
    path.write_text(json.dumps(study | {"settings": {"own": {"share_statistics": False}}}))
    with pytest.raises(SystemExit, match="of another comparison"):
        cli.main(command)


@pytest.mark.parametrize(
    ("study", "says"),
    [
        ("[1]", "is no comparison"),
        ('{"game": "cartpole", "settings": {"base": {}}}', "can't be named 'base'"),
        ('{"game": "cartpole", "settings": {"odd": {"gama": 1}}}', "the setting odd: gama"),
        *(
            (json.dumps({"game": "cartpole", "base": {field: 1}}), f"the setting base changes {field}")
            for field in sorted(FIXED)
        ),
    ],
)
def test_a_study_that_cannot_be_compared_is_refused_in_a_sentence(study, says, tmp_path):
    (tmp_path / "study.json").write_text(study)
    with pytest.raises(SystemExit, match=says):
        cli.main(["compare", str(tmp_path / "study.json"), "--dry-run"])


def report(returns, *, staleness=0, norm=1.0):
    return Report(0, returns, 0.0, 0.0, 0.0, 0.0, 0.0, norm, staleness, [])


def test_what_is_kept_of_a_training():
    watch = Watch(toy.recipe(steps=400), [5.0, 9.0])
    for update in range(4):
        watch(report([2.0 * update] * 100, staleness=10 * update, norm=update), 100 * (update + 1), 1.0 + update)
    trial = watch.trial(Cell(1, "lock-free", 0), STUDY, steps=400, lost=None, score=3.0)
    assert trial.reached == {"5": (400, 4.0), "9": None}  # 2, 4 and 6 are the means of the last 100
    assert trial.returns == (0.0,) * 10 + (2.0,) * 10 + (4.0,) * 10 + (6.0,) * 10
    assert (trial.updates, trial.steps, trial.seconds, trial.steps_per_second) == (4, 400, 4.0, 100.0)
    assert (trial.gradient_norm, trial.staleness) == (1.5, 15.0)
    assert (trial.stalest[0], trial.stalest[10], trial.stalest[-1]) == (1, 1, 2)
    assert trial.variance == pytest.approx(8 / 3, abs=0.01)  # of 100 twos, 100 fours and 100 sixes


def test_a_mean_return_is_none_before_there_are_100_episodes():
    watch = Watch(toy.recipe(steps=400), [5.0])
    watch(report([9.0] * 99), 400, 1.0)
    assert watch.trial(Cell(1, "lock-free", 0), STUDY, steps=400, lost=None, score=0.0).returns == (None,) * MARKS
    assert watch.reached == {"5": None}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--workers", "3"], "8 environments can't be shared equally by 3 workers"),
        (["--handover", "post"], "'lock-free', 'lock', 'queue' or 'synchronous'"),
        (["--workers", "some"], "workers.0: Input should be a valid integer"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused_in_a_sentence(options, says, tmp_path):
    with pytest.raises(SystemExit, match=says):
        cli.main(["compare", "cartpole", *options, "--out", str(tmp_path), "--dry-run"])
