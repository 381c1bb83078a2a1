"""Train A3C agents, score them, keep the good ones in the zoo and publish them."""

import sys
from functools import partial

import tyro
from pydantic import ValidationError

from a3c_core.recipe import Recipe, mistakes
from training.commands.agents import evaluate_command, keep_command, publish_command, widen_command
from training.commands.interrupt import handle_signals
from training.commands.options import CONFIG, SCHEDULES, Rent, base_recipe
from training.commands.studies import compare_command, search_command
from training.commands.submit import submit_command
from training.commands.train import repeat_command, train_command
from training.engine import WorkerDied
from zoo.program import program


def main(argv: list[str]) -> None:
    """Parses the command line; known errors end in one sentence."""
    handle_signals()
    try:
        recipe = base_recipe(argv[1:]) if argv[:1] in (["train"], ["submit"]) else Recipe()
        commands = {
            "train": partial(train_command, recipe=recipe),
            "submit": partial(submit_command, recipe=recipe, rent=Rent()),
            "repeat": repeat_command,
            "search": search_command,
            "compare": compare_command,
            "widen": widen_command,
            "evaluate": evaluate_command,
            "keep": keep_command,
            "publish": publish_command,
        }
        tyro.extras.subcommand_cli_from_dict(
            commands, prog=program("training"), description=__doc__, args=argv, config=CONFIG, registry=SCHEDULES
        )
    except ValidationError as error:
        raise SystemExit(f"error: {mistakes(error, 'recipe')}") from None
    except (ValueError, OSError, ImportError, WorkerDied) as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        print("stopped: run the same command again to start over; `search` and `compare` continue", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main(sys.argv[1:])
