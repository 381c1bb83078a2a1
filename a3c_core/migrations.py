"""Files of older schema versions, brought to the newest one when they are read: pure functions on the JSON's dicts.

A new version is a new line in MIGRATIONS, from the version before it. A new field of Recipe is a new line in
RECIPE_FIELDS, with the value that means what every run had before there was the field.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

SCHEMA_VERSION = 7

RECIPE_FIELDS: dict[int, dict[str, Any]] = {
    2: {
        "passes": 1,
        "minibatches": 1,
        "clip_ratio": None,
        "normalize_observations": False,
        "normalize_rewards": False,
        "average_decay": None,
        "schedule": [],
    },
    3: {"vtrace": False, "handover": "lock-free"},
    4: {"reward_ends_return": False},
    5: {"sampling_temperature": 1.0},
    6: {"stall_ends_return": None},
    7: {"stall_earns_nothing": None},
}
"""The recipe's fields by the schema version that introduced them, each with what older recipes meant."""


def migrate(record: dict[str, Any], version: int) -> dict[str, Any]:
    """A record of that schema version as the newest one has it. The record itself is left alone.

    What a field holds is not checked here: a record that was broken stays so, for the strict reading that follows.
    """
    for older in range(version, SCHEMA_VERSION):
        record = MIGRATIONS[older](record)
    return record


def _from_1(record: dict[str, Any]) -> dict[str, Any]:
    """Version 1 called the parts of a run its sittings, and recipes had fewer fields."""
    if "sittings" in record:
        record = {("segments" if name == "sittings" else name): value for name, value in record.items()}
    return with_recipe_fields(record, RECIPE_FIELDS[2])


def _from_2(record: dict[str, Any]) -> dict[str, Any]:
    """Version 2 knew two ways to hand gradients over, lock_free or not."""
    return with_recipe_fields(with_values(record, _with_handover), RECIPE_FIELDS[3])


def _with_handover(values: dict[str, Any]) -> dict[str, Any]:
    """The recipe's values with `handover` in place of `lock_free`."""
    ways = {True: "lock-free", False: "lock"}
    changed = dict(values)
    if isinstance(lock_free := values.get("lock_free"), bool):
        del changed["lock_free"]
        changed["handover"] = ways[lock_free]
    return changed


def _from_5(record: dict[str, Any]) -> dict[str, Any]:
    """Version 5 knew one probability of sticky actions, which held for all workers."""
    return with_recipe_fields(with_values(record, _with_sticky_actions_of_each_worker), RECIPE_FIELDS[6])


def _with_sticky_actions_of_each_worker(values: dict[str, Any]) -> dict[str, Any]:
    sticky = values.get("sticky_actions")
    return values | {"sticky_actions": [sticky]} if isinstance(sticky, int | float) else values


def with_recipe_fields(record: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """The record with the added fields in each recipe that it holds."""
    return with_recipes(record, lambda recipe: added | recipe)


def with_values(record: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The record with the values of each recipe that it holds changed, in its schedule too."""

    def changed(recipe: dict[str, Any]) -> dict[str, Any]:
        schedule = recipe.get("schedule")
        if not isinstance(schedule, list):
            return change(recipe)
        phases = [
            phase | {"changes": change(phase["changes"])}
            if isinstance(phase, dict) and isinstance(phase.get("changes"), dict)
            else phase
            for phase in schedule
        ]
        return change(recipe) | {"schedule": phases}

    return with_recipes(record, changed)


def with_recipes(record: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The record with each recipe that it holds changed: its own, the whole training's, and those of its segments."""
    changed = dict(record)
    for name in ("recipe", "training"):
        if isinstance(recipe := record.get(name), dict):
            changed[name] = change(recipe)
    if isinstance(segments := record.get("segments"), list):
        changed["segments"] = [
            with_recipes(segment, change) if isinstance(segment, dict) else segment for segment in segments
        ]
    return changed


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _from_1,
    2: _from_2,
    3: partial(with_recipe_fields, added=RECIPE_FIELDS[4]),
    4: partial(with_recipe_fields, added=RECIPE_FIELDS[5]),
    5: _from_5,
    6: partial(with_recipe_fields, added=RECIPE_FIELDS[7]),
}
"""What makes a record of a version one of the next."""
