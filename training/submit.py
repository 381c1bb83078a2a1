"""A training on rented machines: what it would do and cost, its start, and its way home.

offer -> the package and a private repository on the Hub -> a job for each machine (`training.rented`)
follow: the log of the first machine, then checkpoint and log from the repository into runs/
"""

import re
import secrets
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import gymnasium

from a3c_core.checkpoint import steps_of
from a3c_core.envs import is_atari, qualified
from a3c_core.recipe import Recipe
from training.local import undisturbed
from training.package import pack
from training.rented import BEGAN, ORDER, SAVE_SECONDS, Order, fetch_run, put_run, steps_there
from zoo import hub, jobs
from zoo.program import program

HEAD, PORT = "head", 6379
"""The name of the first machine in the network of its group, and where its Ray cluster listens."""
HERE = "/tmp/a3c"
"""Where a machine keeps the package and the run."""


class Offer(NamedTuple):
    """A training on rented machines that could be started."""

    order: Order
    flavor: jobs.Flavor
    attempts: int
    """How often each job is started at most, where its machine was taken away or it failed."""
    resume: Path | None
    """A run here that it goes on with."""

    @property
    def dollars_an_hour(self) -> float:
        return self.order.machines * self.flavor.dollars

    @property
    def dollars_at_most(self) -> float:
        return self.dollars_an_hour * self.order.hours * self.attempts


def offer(order: Order, flavor: str, *, attempts: int, resume: Path | None = None) -> Offer:
    """What an order comes to with machines of that flavor. Raises ValueError where it can't be, HubError."""
    known = jobs.flavors()
    if flavor not in known:
        offered = ", ".join(f"{each.name} (${each.dollars:.2f} an hour)" for each in known.values())
        raise ValueError(f"no machine is called {flavor!r}: choose --flavor from {offered}")
    if attempts < 1:
        raise ValueError("--attempts must be at least 1")
    if ":" in qualified(order.recipe.env):
        raise ValueError(
            f"{order.recipe.env} is an environment of your own, whose module a rented machine does not have: train it "
            "here, or with --cluster on machines of yours"
        )
    made = Offer(order, known[flavor], attempts, resume)
    cores = order.machines * made.flavor.cores
    if order.machines > 1 and order.recipe.workers > cores:
        raise ValueError(
            f"{order.recipe.workers} workers take a core each, and {order.machines} machines {flavor} have {cores}: "
            f"add machines, or give --workers {cores}"
        )
    return made


def described(offer: Offer) -> str:
    """What a training would do, need and cost, in a few lines."""
    order, flavor = offer.order, offer.flavor
    recipe, many = order.recipe, order.machines > 1
    goal = min(recipe.last_step, order.stop_at or recipe.last_step)
    cores = order.machines * flavor.cores
    left = cores - recipe.workers
    idle = f", {_some(left, 'core')} idle: --workers {cores} uses all" if left > 0 else ""
    begin = f" from {steps_of(offer.resume):,}" if offer.resume else ""
    machines = f"{_some(order.machines, 'machine')} {flavor.name}{', one Ray cluster' if many else ''}"
    again = f", {offer.attempts} times at most if it is taken away or fails" if offer.attempts > 1 else ""
    minutes = round(SAVE_SECONDS / 60)
    return "\n".join(
        [
            f"train {recipe.env}{begin} to {goal:,} steps with {_some(recipe.workers, 'worker')}, as {order.run}",
            f"  on     {machines} ({flavor.parts}{' each' if many else ''}){idle}",
            f"  for    {order.hours:g} h at most{again}",
            f"  costs  ${offer.dollars_an_hour:.2f} an hour, ${offer.dollars_at_most:.2f} at most",
            f"  keeps  checkpoint and log in the private repository {order.repo}, every {minutes} minutes",
            "  sends  this package without the zoo's weights, and your token of the Hub as a secret of the job",
        ]
    )


def _some(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def new_name(recipe: Recipe) -> str:
    """A name for a run that no other has."""
    stem = re.sub(r"[^\w.-]", "-", recipe.env.removeprefix("ALE/"))
    return f"{stem}-seed{recipe.seed}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def start(offer: Offer) -> jobs.Job:
    """Rents the machines; returns the job of the first. Raises HubError, ValueError, and then none is left running."""
    order = offer.order
    hub.open_private(order.repo)
    if offer.resume:
        if (there := steps_there(order.repo, order.run)) > (here := steps_of(offer.resume)):
            raise ValueError(
                f"{order.run} has gone on to {there:,} steps on the Hub, and {offer.resume} has {here:,}: bring it "
                "home with submit --follow, or resume a copy by another name"
            )
        put_run(order.repo, order.run, offer.resume)
    with tempfile.TemporaryDirectory() as scratch:
        package = hub.put_file(pack(Path(scratch)), order.repo, "packages")
    group = f"a3c-{secrets.token_hex(6)}"
    hidden = {"RAY_AUTH_TOKEN": secrets.token_hex(32)} if order.machines > 1 else {}
    try:
        with undisturbed():  # or a job whose start is under way would stay unknown, and cost
            first, *_ = [_rent(offer, number, package, group, hidden) for number in range(order.machines)]
    except (hub.HubError, KeyboardInterrupt):
        jobs.cancel(order.owner, group)
        raise
    return first


def _rent(offer: Offer, number: int, package: str, group: str, hidden: dict[str, str]) -> jobs.Job:
    """Rents one of the machines. Raises HubError."""
    order = offer.order
    role = f"join ${{HF_NETWORK_GROUP_PREFIX}}{HEAD}:{PORT}" if number else f"lead {PORT}"
    return jobs.start(
        order.owner,
        _command(order, package, role),
        flavor=offer.flavor.name,
        hours=order.hours,
        attempts=offer.attempts,
        group=group,
        alias=f"machine{number}" if number else HEAD,
        network=order.machines > 1,
        environment={ORDER: order.written()} | ({"RAY_AUTH_MODE": "token"} if hidden else {}),
        secrets=hidden,
    )


def _command(order: Order, package: str, role: str) -> str:
    """What a machine does, as lines of its shell: uv and Python are in its image, this package is not."""
    extras = ["hub"]
    extras += ["atari"] if is_atari(order.recipe.env) else []
    extras += ["box2d"] if not extras[1:] and "box2d" in str(gymnasium.spec(order.recipe.env).entry_point) else []
    extras += ["ray"] if order.machines > 1 else []
    repo, there = shlex.quote(order.repo), shlex.quote(f"{HERE}/{package}[{','.join(extras)}]")
    return "\n".join(
        [
            "set -e",
            f"export {BEGAN}=$(date +%s)",
            f"uvx --from huggingface_hub hf download {repo} {package} --local-dir {HERE} --quiet >/dev/null",
            f"uv pip install --system --quiet --torch-backend auto {there}",
            f"cd {HERE}",
            f"exec python -m training.rented {role}",
        ]
    )


def order_of(job: jobs.Job) -> Order:
    """What was ordered with a job. Raises ValueError for a job that is none of ours."""
    with suppress(ValueError):
        return Order.read(job.environment.get(ORDER, ""))
    raise ValueError(f"job {job.name} is no training that this version knows: name one that `submit` has started")


def cancel(job: jobs.Job) -> None:
    """Cancels a job with all machines of its training. Raises ValueError, HubError."""
    order_of(job)
    jobs.cancel(job.owner, job.group)


def attend(job: jobs.Job, runs: Path, *, asked: Callable[[str], bool]) -> None:
    """Tells a job's log until it has ended, and brings its run home; Ctrl-C leaves it running or cancels it.

    Raises ValueError, HubError or CheckpointError, SystemExit where the job has not ended well or still runs.
    """
    order, call = order_of(job), f"{program('training')} submit"
    try:
        for line in jobs.log(job):
            print(line, flush=True)
    except KeyboardInterrupt:
        if not asked(f"\njob {job.name} goes on, and costs. Cancel it?"):
            print(f"it goes on; follow it:  {call} --follow {job.name}", file=sys.stderr)
            raise SystemExit(130) from None
        cancel(job)
    job, directory = jobs.end_of(job), runs / order.run
    told = f"job {job.name} has ended as {job.stage}{job.message and ': '}{job.message}"
    if not fetch_run(order.repo, order.run, directory):
        raise SystemExit(f"error: {told}, before anything was learnt")
    print(f"{directory} holds the run:  {program('training')} train --resume {directory}")
    if job.stage != "COMPLETED":
        raise SystemExit(f"error: {told}")
