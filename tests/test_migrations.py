"""What older versions wrote still reads: frozen samples of each schema version, as that version wrote them."""

import json
import shutil
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest

from a3c_core.checkpoint import RECIPE, SCHEMA_VERSION, CheckpointError, load_agent, saved_in
from a3c_core.migrations import MIGRATIONS, RECIPE_FIELDS, migrate
from a3c_core.recipe import Phase, Recipe
from training.log import LOG, read_log
from training.run import train
from training.schedule import saved_run
from zoo.entry import read_entry

SAMPLES = Path(__file__).parent / "samples"
SCHEMA1 = SAMPLES / "schema1"
ENTRIES = sorted(SAMPLES.glob("*/entries/*.json"))
RECIPES = sorted(SAMPLES.glob("*/weights/*/recipe.json"))


def sample(path):
    """A sample's name in the list of tests: schema1-pong."""
    return "-".join(part for part in path.relative_to(SAMPLES).with_suffix("").parts if part not in LAYOUT)


LAYOUT = {"entries", "weights", "recipe"}


@pytest.fixture
def old_run(tmp_path):
    """A run of CartPole that was resumed once with other numbers: 6,048 steps by one recipe, then up to 9,024."""
    return Path(shutil.copytree(SCHEMA1 / "run", tmp_path / "run"))


def test_every_field_of_the_recipe_has_a_version_that_introduced_it():
    first = json.loads(RECIPES[0].read_text())["recipe"].keys()
    added = [name for version in RECIPE_FIELDS.values() for name in version]
    assert {field.name for field in fields(Recipe)} <= first | set(added)
    assert len(added) == len(set(added))
    assert not first & set(added)


def test_every_older_version_has_a_migration():
    assert sorted(MIGRATIONS) == list(range(1, SCHEMA_VERSION))


def test_an_older_recipe_gets_what_a_field_meant_before_it_was_there():
    recipe = saved_in(SCHEMA1 / "weights" / "pong").recipe
    for added in RECIPE_FIELDS.values():
        for name in added.keys() & {field.name for field in fields(Recipe)}:
            meant = tuple(added[name]) if isinstance(added[name], list) else added[name]
            assert getattr(recipe, name) == meant


def test_a_lock_becomes_a_handover_wherever_there_is_a_recipe():
    recipe = {"lock_free": False, "schedule": [{"at": 5, "changes": {"lock_free": True, "gamma": 0.9}}]}
    new = {"handover": "lock", "schedule": [{"at": 5, "changes": {"handover": "lock-free", "gamma": 0.9}}]}
    migrated = migrate({"recipe": recipe, "training": recipe, "segments": [{"recipe": recipe}]}, 2)
    for changed in (migrated["recipe"], migrated["training"], migrated["segments"][0]["recipe"]):
        added = {"vtrace": False, "reward_ends_return": False, "sampling_temperature": 1.0}
        assert changed == new | added | {"stall_ends_return": None, "stall_earns_nothing": None}


def test_sticky_actions_become_those_of_each_worker_wherever_there_is_a_recipe():
    recipe = {"sticky_actions": 0.25, "schedule": [{"at": 5, "changes": {"sticky_actions": 0.0, "gamma": 0.9}}]}
    new = {"sticky_actions": [0.25], "schedule": [{"at": 5, "changes": {"sticky_actions": [0.0], "gamma": 0.9}}]}
    migrated = migrate({"recipe": recipe, "training": recipe, "segments": [{"recipe": recipe}]}, 5)
    for changed in (migrated["recipe"], migrated["training"], migrated["segments"][0]["recipe"]):
        assert changed == new | {"stall_ends_return": None, "stall_earns_nothing": None}


@pytest.mark.parametrize("path", ENTRIES, ids=sample)
def test_an_older_entry_reads(path):
    old = json.loads(path.read_text())
    entry = read_entry(path)
    assert (entry.name, list(entry.score.returns)) == (old["name"], old["score"]["returns"])
    assert entry.recipe == saved_in(path.parents[1] / "weights" / entry.name).in_force


@pytest.mark.parametrize("path", RECIPES, ids=sample)
def test_an_older_recipe_reads_and_keeps_its_numbers(path):
    old = json.loads(path.read_text())["recipe"]
    recipe = json.loads(json.dumps(asdict(saved_in(path.parent).recipe)))
    if "lock_free" in old:
        assert recipe["handover"] == {True: "lock-free", False: "lock"}[old.pop("lock_free")]
    for values in (old, *(phase["changes"] for phase in old.get("schedule", ()))):
        if isinstance(sticky := values.get("sticky_actions"), float):
            values["sticky_actions"] = [sticky]
    assert {name: recipe[name] for name in old} == old


def test_an_agent_of_version_1_plays():
    agent = load_agent(SCHEMA1 / "weights" / "cartpole")
    obs, _ = agent.make_env().reset(seed=0)
    assert agent.act(obs)[0] in (0, 1)


def test_a_run_of_version_1_goes_on_and_its_recipe_tells_all_that_it_went_through(old_run):
    assert [load_agent(place).steps for place in (old_run, old_run / "snapshots" / "1")] == [9024, 96]
    before = (old_run / LOG).read_text()
    whole = saved_run(old_run).recipe
    assert (whole.steps, whole.entropy_cost) == (6000, 0.03)
    assert whole.schedule == (Phase(at=6048, changes={"steps": 9000, "entropy_cost": 0.01}),)
    going_on = Recipe(**{field.name: getattr(whole.at(9024), field.name) for field in fields(Recipe)} | {"steps": 9600})
    for _ in train(going_on, old_run, resume=True):
        pass
    assert (old_run / LOG).read_text().startswith(before)
    assert read_log(old_run)[-1].steps == load_agent(old_run).steps >= 9600
    assert saved_in(old_run).recipe.schedule == (*whole.schedule, Phase(at=9024, changes={"steps": 9600}))
    assert json.loads((old_run / RECIPE).read_text())["schema_version"] == SCHEMA_VERSION


@pytest.mark.parametrize("version", ["schema2", "schema3", "schema4", "schema5", "schema6"])
def test_a_run_of_a_version_with_a_schedule_goes_on(version, tmp_path):
    run = Path(shutil.copytree(SAMPLES / version / "run", tmp_path / "run"))
    before, saved = (run / LOG).read_text(), saved_in(run)
    steps = load_agent(run).steps
    for _ in train(replace(saved.recipe, steps=steps + 96), run, resume=True):
        pass
    assert (run / LOG).read_text().startswith(before)
    assert load_agent(run).steps >= steps + 96
    assert saved_in(run).recipe.schedule[0] == saved.recipe.schedule[0]


def test_segments_of_another_run_are_refused(old_run):
    sittings = json.loads((old_run / "sittings.json").read_text())
    sittings["sittings"][0]["recipe"]["core"] = "lstm"
    (old_run / "sittings.json").write_text(json.dumps(sittings))
    with pytest.raises(CheckpointError, match=r"sittings.json does not belong to the recipe.json beside it"):
        saved_run(old_run)


@pytest.mark.parametrize(
    "record", [{}, {"recipe": 7}, {"recipe": []}, {"sittings": 7}, {"sittings": [7, {"recipe": 1}]}]
)
def test_what_is_broken_stays_so_for_the_strict_reading(record):
    before = json.dumps(record)
    assert json.dumps(migrate(record, 1)).replace("segments", "sittings") == before == json.dumps(record)
