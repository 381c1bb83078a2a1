"""What programs may ask of the app by name, through gradio_client, REST or, where gradio[mcp] is installed, MCP."""

import math
import time
from html import escape
from importlib.util import find_spec
from typing import Any

import gradio as gr

import zoo
from a3c_core.evaluation import evaluate as evaluate_agent
from ui.admission import Admission, Busy, PerVisitor, TooMany
from ui.settings import refusal, whole
from ui.streaming.routes import FAILURES, LAST_SEED, answer_to, spec_of
from ui.streaming.stream import agent_of
from ui.visitors import address_of

MCP = find_spec("mcp") is not None
"""Whether agents of another kind can use these endpoints as their tools."""
MOST_GAMES, MOST_SECONDS = 20, 120.0
"""Of one evaluation."""
EACH = 2
"""Evaluations of one visitor that may be under way or waiting."""


def build() -> None:
    """Names the endpoints."""
    gr.api(agents, api_name="agents", concurrency_limit=8)
    gr.api(Evaluations().evaluate, api_name="evaluate", concurrency_limit=8)


def agents() -> list[dict[str, Any]]:
    """Lists the agents of the zoo: name, environment, what it is, snapshots, mean score and how that was measured."""
    return [
        {
            "name": entry.name,
            "env": entry.recipe.env,
            "summary": entry.summary,
            "snapshots": list(entry.snapshots),
            "mean": entry.score.mean,
            "std": entry.score.std,
            "conditions": entry.score.conditions,
        }
        for entry in zoo.entries().values()
    ]


class Evaluations:
    """Has agents of the zoo scored for who asks."""

    def __init__(self) -> None:
        self.line = Admission(at_once=1, waiting=4)
        """The others are refused at once: the page's own events stand in the same queue. It takes a core, and no turn
        of those that show a visitor's agent before and after its training."""
        self.of_one_visitor = PerVisitor(EACH, "evaluations are under way")

    def evaluate(
        self,
        agent: str,
        games: int = 10,
        first_seed: int = 0,
        protocol: str = "classic",
        request: gr.Request | None = None,
    ) -> dict[str, Any]:
        """Plays an agent of the zoo for up to 20 games, one per seed; returns each game's return, mean and deviation.

        Args:
            agent: a name that `agents` lists.
            games: how many games, 1 to 20.
            first_seed: the first game's seed; the others follow.
            protocol: classic, or sticky for Atari's games.
        """
        games = whole(games, "Games", 1, MOST_GAMES)
        first_seed = whole(first_seed, "The first seed", 0, LAST_SEED - MOST_GAMES)
        until = math.inf  # the wait for a turn does not count

        def in_time(_: int) -> None:
            if time.monotonic() > until:
                raise TimeoutError

        asked = {"agent": str(agent), "protocol": str(protocol)}
        try:
            spec = spec_of(asked)
            with self.of_one_visitor.one(address_of(request)), self.line.turn():
                until = time.monotonic() + MOST_SECONDS
                score = evaluate_agent(
                    agent_of(spec),
                    games,
                    greedy=spec.greedy,
                    protocol=spec.protocol,
                    first_seed=first_seed,
                    progress=in_time,
                )
        except TooMany as error:
            raise refusal(str(error)) from None
        except Busy:
            raise refusal("Many agents are being scored right now. Please try again in a minute.") from None
        except TimeoutError:
            raise refusal(f"That took longer than {MOST_SECONDS:.0f} seconds: ask for fewer games.") from None
        except FAILURES as failure:
            raise refusal(escape(answer_to(failure, asked).sentence)) from None
        return {"returns": list(score.returns), "mean": score.mean, "std": score.std, "conditions": score.conditions}
