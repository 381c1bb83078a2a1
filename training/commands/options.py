"""What commands have in common: options of several, and with which recipe `train` and `submit` begin."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args, get_origin

import tyro
from pydantic import TypeAdapter
from tyro.conf import Positional

from a3c_core.envs import register_env, register_module
from a3c_core.recipe import Phase, Recipe
from training.defaults import recipe_for
from training.engine import Compression
from training.recipes import RECIPES
from training.schedule import saved_run, schedule_json

RUNS = Path("runs")
CONFIG = (tyro.conf.CascadeSubcommandArgs, tyro.conf.OmitArgPrefixes)

Name = Annotated[str | None, tyro.conf.arg(metavar="{" + ",".join(RECIPES) + "}")]
Import = Annotated[str | None, tyro.conf.arg(name="import")]
Actions = Literal["greedy", "sampled"]

SCHEDULES = tyro.constructors.ConstructorRegistry()
"""How the command line reads a schedule: as JSON, like recipe.json has it."""


@SCHEDULES.primitive_rule
def _schedule(
    kind: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[tuple[Phase, ...]] | None:
    if get_origin(kind.type) is not tuple or get_args(kind.type) != (Phase, ...):  # tyro may make it a typing.Tuple
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda words: TypeAdapter(tuple[Phase, ...]).validate_json(words[0], strict=True),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda schedule: [schedule_json(schedule)],
    )


class Rent(NamedTuple):
    """What is rented, and how."""

    flavor: str = "cpu-upgrade"
    """the kind of machine; a wrong name lists all, with their prices."""
    machines: int = 1
    """how many; several are a Ray cluster, whose first machine holds the shared weights."""
    hours: float = 1.0
    """after which the machines are taken away. The run ends just before, and can be resumed."""
    attempts: int = 2
    """how often a job is started at most, where its machine is taken away or it fails. It goes on from the last
    checkpoint on the Hub."""
    namespace: str | None = None
    """the user or organization that pays; by default you."""
    repo: str | None = None
    """the private repository for checkpoint and log; by default NAMESPACE/a3c-runs."""
    dry_run: bool = False
    """tell what it would do and cost, and rent nothing."""
    yes: bool = False
    """rent without asking."""
    follow: str | None = None
    """follow a job that was started before, by its id, and bring its run home."""
    cancel: str | None = None
    """cancel a job by its id, with all machines of its training, and bring its run home."""


ALLOWS_ALL = Recipe(env="", clip_ratio=0.1, envs_per_worker=4096)
"""With this recipe each option alone is valid. The command checks the recipe that all options make."""


class Base(NamedTuple):
    """The options of `train_command` and `submit_command`, for a first look at which recipe they begin with."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    names: Positional[tuple[str, ...]] = ()
    """At most one. tyro reads an optional one as "[]" where an option follows that it does not know, as --help."""
    out: Path | None = None
    resume: Path | None = None
    stop_at: int | None = None
    evaluate_every: int | None = None
    evaluate_actions: Actions = "greedy"
    cluster: str | None = None
    compression: Compression = "float32"
    max_staleness: int | None = None
    import_: Import = None
    rent: Annotated[Rent, tyro.conf.arg(name="")] = Rent()


def base_recipe(argv: list[str]) -> Recipe:
    """The recipe whose numbers are the defaults of the options: the named one, that of a run to resume or of an
    environment.

    Raises ValueError where the options name none of them.
    """
    nothing = Base(ALLOWS_ALL)
    given, _ = tyro.cli(
        Base, args=argv, default=nothing, add_help=False, return_unknown_args=True, config=CONFIG, registry=SCHEDULES
    )
    name = given.names[0] if given.names else None
    if name not in (None, *RECIPES):
        raise ValueError(f"unknown recipe {name!r}: choose one of {', '.join(RECIPES)}, or give --env ID")
    if given.import_:
        register_module(given.import_)
    if given.resume:
        saved = saved_run(given.resume)
        resumed = dataclasses.replace(saved.in_force, schedule=saved.recipe.schedule[saved.phase :])
        if name and RECIPES[name].env != resumed.env:
            raise ValueError(f"{given.resume} plays {resumed.env}, not {RECIPES[name].env}: leave the name out")
        return resumed
    if name:
        return RECIPES[name]
    if given.rent.follow or given.rent.cancel:
        return Recipe()
    if given.recipe.env:
        return recipe_for(plain_id(given.recipe.env))
    if {"-h", "--help"} & set(argv):
        return Recipe()
    raise ValueError(f"name a recipe ({', '.join(RECIPES)}), an environment (--env ID) or a run (--resume RUN)")


def plain_id(env: str) -> str:
    """The id of an environment that --env names; module:id imports and registers it."""
    return register_env(env) if ":" in env else env
