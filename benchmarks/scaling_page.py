"""docs/scaling.md: the plan to a thousand machines, with the figures that `benchmarks.scaling` has measured."""

import math
import statistics
from collections.abc import Iterable
from pathlib import Path

from benchmarks.scaling import COMPRESSIONS, Costs, Network, Prediction, costs_of, limits, remedies, simulate
from benchmarks.text import table, where

MACHINES, CORES = (1, 4, 16, 64, 256, 1000), 8
"""Of the tables: machines, and the workers on each."""
NETWORKS = {"1 Gbit/s, 0.5 ms": Network(0.0005, 1.25e8), "10 Gbit/s, 0.1 ms": Network(0.0001, 1.25e9)}

PLAN = Path(__file__).with_name("scaling.md")
"""The text of the page."""
SETTLED_MINUTES = 10
"""After which the server's memory is to stay as it is."""
UNMEASURED = """## Figures

None yet: run `python -m benchmarks.scaling measure` on a machine where nothing else runs, which writes them here."""


def page(results: dict[str, dict]) -> str:
    """The whole page, from what the benchmarks `scaling`, `cluster`, `faults` and `cluster_memory` have measured."""
    plan = PLAN.read_text(encoding="utf-8")
    parts = {
        "cluster": cluster_sections,
        "faults": fault_sections,
        "cluster_memory": memory_sections,
        "scaling": model_sections,
    }
    sections = [section for name, told in parts.items() if name in results for section in told(results[name])]
    sections += [] if "scaling" in results else [UNMEASURED]
    return f"{plan}\n" + "\n\n".join(sections) + "\n"


def model_sections(result: dict) -> list[str]:
    """The costs of messages, and what the model makes of them."""
    return [
        "## Figures",
        f"`python -m benchmarks.scaling measure` (its first lines tell how). {where(result)}",
        "### What a message costs",
        "Milliseconds: in the process that asks; over Ray with many messages under way, which is what the server can "
        "serve; over Ray there and back for a message that is alone.",
        costs_table(result),
        "### The model and real trainings",
        "Pong on two nodes that are simulated on one machine: there are no links, and its cores are there for all. The "
        "model leaves out the core that the server takes, which shows most where workers take all of them.",
        comparison(result),
        "### How far it goes",
        f"Predicted for Pong with {CORES} workers on each machine, weights as bfloat16.",
        *(f"**{name}**\n\n{scale_table(result, network)}" for name, network in NETWORKS.items()),
        "### What helps",
        f"Predicted for Pong on {MACHINES[-1]} machines of {CORES} workers, {next(iter(NETWORKS))}.",
        remedies_table(result, next(iter(NETWORKS.values()))),
    ]


def cluster_sections(result: dict) -> list[str]:
    """What the engine of a cluster costs on this machine."""
    sections = [
        "## What a cluster costs",
        "`python -m benchmarks.cluster` (its first lines tell how). Each node has one core. All are on one machine, so "
        "there are no links. The seconds begin with the first update.",
    ]
    titles = {
        "cartpole": (
            "CartPole until the mean return of the last 100 training episodes is 475",
            engines_table,
        ),
        "speed": ("Steps per second on Pong", engines_table),
        "pong": ("Pong on the cluster until that mean is 18, three clipped passes", curves_table),
        "delays": ("Pong with a delay in each round trip, three clipped passes", curves_table),
    }
    for part, (title, told) in titles.items():
        if part in result:
            sections += [f"### {title}", where(result[part]), told(result[part]["trials"])]
    return sections


def fault_sections(result: dict) -> list[str]:
    """What the loss of a part costs."""
    rows = []
    for part in dict.fromkeys(fault["part"] for fault in result["faults"]):
        faults = [fault for fault in result["faults"] if fault["part"] == part]
        seconds = [longest(fault[key] for fault in faults) for key in ("told_seconds", "on_seconds")]
        lost = [fault["lost_steps"] for fault in faults if fault["lost_steps"] is not None]
        whole = f"{sum(fault['whole'] for fault in faults)} of {len(faults)}"
        most = f"{max(lost):,}" if lost else ""
        left = sum(fault["left"] for fault in faults)
        rows.append((part, len(faults), *seconds, most, left, whole, faults[0]["said"]))
    head = ("killed", "times", "told after, s", "goes on after, s", "steps lost, most", "processes left", "files whole")
    return [
        "## When a part is lost",
        "`python -m benchmarks.faults` (its first lines tell how). Seconds are median and longest; where the driver "
        "was killed, the run *goes on* once somebody resumes it, and they count from that command. *Steps lost* are "
        "those beyond the checkpoint that the run goes on from, which is at most 5 seconds old here and a minute by "
        "default. *Processes left* are those that were there 5 seconds after the run's end. This is no measurement of "
        "speed: other work may have run beside.",
        where(result),
        table((*head, "says, for example"), rows),
    ]


def longest(seconds: Iterable[float | None]) -> str:
    """Median and longest."""
    known = [each for each in seconds if each is not None]
    return f"{statistics.median(known):.1f}, {max(known):.1f}" if known else ""


def memory_sections(result: dict) -> list[str]:
    """What the server takes as time goes by."""
    samples = result["samples"]
    chosen = [*samples[1::10], *samples[-1:]]
    rows = [
        (f"{each['minutes']:.0f}", f"{each['messages']:,}", f"{each['own_mb']:.1f}", f"{each['shared_mb']:.1f}")
        for each in chosen
    ]
    return [
        "## The server's memory",
        f"`python -m benchmarks.cluster_memory` (its first lines tell how): CartPole with {result['workers']} workers, "
        f"each of which waits {1000 * result['delay']:.0f} ms for each message. Other work may have run beside.",
        where(result),
        table(("minutes", "messages", "its own, MB", "shared with others, MB"), rows),
        *growth(samples[SETTLED_MINUTES:]),
    ]


def growth(samples: list[dict]) -> list[str]:
    """How fast the server's own memory grows, where there is more than a moment to tell it from."""
    if len(samples) < 2:
        return []
    minutes, sizes = ([sample[key] for sample in samples] for key in ("minutes", "own_mb"))
    slope = 60 * statistics.linear_regression(minutes, sizes).slope
    return [
        f"From minute {minutes[0]:.0f} to {minutes[-1]:.0f} its own memory grows by {slope:.1f} MB per hour (a line "
        "fitted by least squares)."
    ]


def engines_table(trials: list[dict]) -> str:
    """One row per engine and type of its messages: medians over its trials, and the ratio to the local one."""
    rows, local = [], None
    for engine, compression in dict.fromkeys((trial["engine"], trial["compression"]) for trial in trials):
        ours = [trial for trial in trials if (trial["engine"], trial["compression"]) == (engine, compression)]
        solved = [trial["seconds"] if trial["solved"] else math.inf for trial in ours]
        cells = [f"{sum(trial['solved'] for trial in ours)} of {len(ours)}", f"{statistics.median(solved):.1f}"]
        if not any(trial["solved"] for trial in ours):  # a stretch that was to last so long
            cells = ["", ""]
        rates = [trial["steps"] / trial["seconds"] for trial in ours]
        starts = statistics.median(trial["start_seconds"] for trial in ours)
        local = local or (statistics.median(solved), statistics.median(rates))
        longer = f"{statistics.median(solved) / local[0]:.2f}" if cells[0] else ""
        faster = f"{statistics.median(rates) / local[1]:.0%}"
        speed = (f"{statistics.median(rates):,.0f}", faster, f"{min(rates):,.0f} to {max(rates):,.0f}")
        name = engine if engine == "local" else f"{engine}, {compression}"
        rows.append((name, *cells, longer, *speed, f"{starts:.1f}"))
    head = ("engine", "solved", "seconds", "times local", "steps/s", "of local", "slowest to fastest", "start, s")
    return table(head, rows)


def curves_table(trials: list[dict]) -> str:
    """One row per trial: its speed, its messages, and the mean return by steps."""
    curves = [by_steps(trial["curve"]) for trial in trials]
    points = sorted(set().union(*curves))
    rows = []
    for trial, curve in zip(trials, curves, strict=True):
        seconds = trial["seconds"]
        row = (trial["workers"], f"{1000 * trial['delay']:.0f} ms", trial["compression"], trial["seed"])
        rates = (f"{trial['steps'] / seconds:,.0f}", f"{trial['staleness']:.2f}")
        sent = (f"{trial['messages'] / seconds:.1f}", f"{trial['megabytes'] / seconds:.1f}")
        reached = f"{seconds:.0f} s, {trial['steps'] / 1e6:.2f}M" if trial["solved"] else f"not in {seconds:.0f} s"
        rows.append((*row, *rates, *sent, reached, *(curve.get(point, "") for point in points)))
    head = (
        "workers",
        "delay",
        "type",
        "seed",
        "steps/s",
        "staleness",
        "messages/s",
        "MB/s",
        "mean of 18 after (steps)",
    )
    return table((*head, *(f"{point / 1e6:.1f}M" for point in points)), rows)


def by_steps(curve: Iterable[tuple[int, float]]) -> dict[int, float]:
    """The points of a curve that are near to whole hundreds of thousands of steps, by these."""
    return {round(steps, -5): score for steps, score in curve if abs(steps - round(steps, -5)) < 25_000}


def costs_table(result: dict) -> str:
    """One row per recipe and type."""
    rows = []
    for each in result["messages"]:
        costs = costs_of(result, each["recipe"], each["compression"])
        times = [f"{1000 * each[key]:.2f}" for key in ("here", "served", "alone")]
        rollout = (f"{1000 * costs.rollout:.1f}", f"{costs.steps:,}")
        rows.append((each["recipe"], each["compression"], f"{each['bytes'] / 1e6:.2f}", *times, *rollout))
    head = ("recipe", "type", "MB each way", "in process", "served", "alone", "rollout, ms", "steps of a rollout")
    return table(head, rows)


def comparison(result: dict) -> str:
    """One row per real training, the model's figures beside it."""
    costs = costs_of(result, "pong", "float32")
    told = next(each for each in result["messages"] if (each["recipe"], each["compression"]) == ("pong", "float32"))
    around = max(0.0, told["alone"] - told["served"])  # what a message takes besides its service
    here = Costs(costs.rollout + around, costs.steps, costs.service, costs.size)
    rows = []
    for run in result["runs"]:
        found = simulate(here, Network(0.0, 1.0), workers=run["workers"], cores=result["machine"]["cores"])
        real = run["steps"] / run["seconds"]
        ratio = f"{found.steps_per_second / real:.2f}"
        speeds = (f"{real:,.0f}", f"{found.steps_per_second:,.0f}", ratio)
        rows.append((run["workers"], *speeds, f"{run['staleness']:.2f}", f"{found.staleness:.2f}"))
    return table(("workers", "steps/s", "predicted", "ratio", "staleness", "predicted"), rows)


def scale_table(result: dict, network: Network) -> str:
    """One row per number of machines."""
    costs = costs_of(result, "pong", COMPRESSIONS[-1])
    alone = simulate(costs, network, workers=CORES).steps_per_second
    rows = []
    for machines in MACHINES:
        found = simulate(costs, network, workers=CORES * machines, machines=machines)
        rows.append((machines, *predicted(found), f"{found.steps_per_second / alone / machines:.0%}"))
    most = ", ".join(f"{what} {steps:,.0f}" for what, steps in limits(costs, network).items())
    head = ("machines", "steps/s", "staleness", "server busy", "link busy", "of proportional")
    return f"{table(head, rows)}\n\nThe most steps/s from other machines: {most}."


def remedies_table(result: dict, network: Network) -> str:
    """One row per change."""
    full, half = (costs_of(result, "pong", compression) for compression in COMPRESSIONS)
    rows = []
    for name, (costs, together) in remedies(full, half, workers_of_machine=CORES).items():
        workers = CORES * MACHINES[-1] // together
        found = simulate(costs, network, workers=workers, machines=MACHINES[-1])
        rows.append((name, *predicted(found)))
    return table(("", "steps/s", "staleness", "server busy", "link busy"), rows)


def predicted(found: Prediction) -> tuple[str, ...]:
    """A prediction as cells."""
    speed, busy = f"{found.steps_per_second:,.0f}", (f"{found.server:.0%}", f"{found.link:.0%}")
    return speed, f"{found.staleness:,.0f}", *busy
