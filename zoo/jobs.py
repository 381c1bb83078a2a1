"""Rented machines, which are Hugging Face Jobs. As `hub.py` it talks to the Hub, and by the same rules: nothing waits
for ever, and what went wrong is a HubError that says what to do.

A job never costs twice: where the answer to its start is lost, it is looked for before anybody tries again.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from huggingface_hub import HfApi, JobInfo, get_session, get_token

from zoo.hub import (
    BUSY,
    FETCH_SECONDS,
    STALL_SECONDS,
    HubError,
    patiently,
    reason,
    status_of,
    within,
)

IMAGE = "ghcr.io/astral-sh/uv:python3.12-bookworm"
"""Where jobs run: what the Hub's client takes by default, Debian with Python and uv."""
GROUP, ALIAS = "a3c-group", "a3c-machine"
"""Labels: the jobs of one training share the first, which names their network too, and differ in the second."""
HOURS = {"minute": 1 / 60, "hour": 1.0}
"""How long the units are that machines are paid by."""
AWAY_SECONDS = 600.0
"""How long whoever follows a job waits for a Hub that is away."""
END_SECONDS = 120.0
"""How long a job that was cancelled, or whose log has ended, may take to end."""
POLL_SECONDS = 2.0
ENDED = ("COMPLETED", "CANCELED", "ERROR", "DELETED")

Result = TypeVar("Result")


class Flavor(NamedTuple):
    """A kind of machine."""

    name: str
    cores: int
    parts: str
    """What it has, in words."""
    dollars: float
    """What an hour costs."""


class Job(NamedTuple):
    """One machine's work, as of the moment when the Hub told it."""

    id: str
    owner: str
    stage: str
    message: str
    url: str
    group: str | None
    """None where it is not ours, as `alias` is."""
    alias: str | None
    environment: dict[str, str]

    @property
    def name(self) -> str:
        """How commands name it."""
        return f"{self.owner}/{self.id}"

    @property
    def ended(self) -> bool:
        """Whether it runs no more, nor will again."""
        return self.stage in ENDED


def flavors() -> dict[str, Flavor]:
    """What can be rented and what it costs, by name. Raises HubError."""
    found = {}
    for each in _ask("ask what machines cost", HfApi().list_jobs_hardware):
        parts = [each.cpu, each.ram]
        if each.accelerator:
            parts.append(f"{each.accelerator.quantity} {each.accelerator.model}")
        cores = re.match(r"\d+", each.cpu)
        if cores and each.unit_label in HOURS:
            price = each.unit_cost_usd / HOURS[each.unit_label]
            found[each.name] = Flavor(each.name, int(cores[0]), ", ".join(parts), price)
    return found


def start(
    owner: str,
    command: str,
    *,
    flavor: str,
    hours: float,
    attempts: int,
    group: str,
    alias: str,
    network: bool,
    environment: Mapping[str, str],
    secrets: Mapping[str, str],
) -> Job:
    """Has a machine run a command of the shell; it gets the token of whoever asks as HF_TOKEN. Raises HubError.

    Where there is a `network`, the machines of its group reach this one by the `alias`.
    """
    token = get_token()
    if not token:
        raise HubError("cannot rent a machine: sign in first (on the command line: `hf auth login`, or HF_TOKEN).")
    what, labels = f"rent a machine for {owner}", {GROUP: group, ALIAS: alias}

    def run() -> JobInfo:
        return HfApi().run_job(
            image=IMAGE,
            command=["bash", "-c", command],
            flavor=flavor,
            timeout=round(3600 * hours),
            attempts=attempts,
            labels=labels,
            network_group=group if network else None,
            network_aliases=[alias] if network else None,
            env=dict(environment),
            secrets={"HF_TOKEN": token, **secrets},
            namespace=owner,
        )

    try:
        return _told(within(FETCH_SECONDS, what, run))
    except HubError as error:
        if status_of(error) not in BUSY:
            raise
        started = next((job for job in group_of(owner, group) if job.alias == alias), None)
        if started is None:
            raise
        return started


def group_of(owner: str, group: str) -> list[Job]:
    """The jobs of a group. Raises HubError."""
    found = _ask("list your jobs", lambda: list(HfApi().list_jobs(labels={GROUP: group}, namespace=owner)))
    return [_told(job) for job in found]


def look(job: str, owner: str | None = None) -> Job:
    """A job by its name, with or without its owner, as it is now. Raises HubError."""
    *before, number = job.rsplit("/", 1)
    owner = before[0] if before else owner
    return _told(_ask(f"look at job {job}", lambda: HfApi().inspect_job(job_id=number, namespace=owner)))


def cancel(owner: str, group: str, *, sparing: str = "") -> None:
    """Ends the jobs of a group, but for the one with the id `sparing`. Raises HubError."""
    for each in group_of(owner, group):
        if not each.ended and each.id != sparing:
            _ask(f"cancel job {each.name}", partial(HfApi().cancel_job, job_id=each.id, namespace=each.owner))


def end_of(job: Job) -> Job:
    """A job once it has ended, or as it is after END_SECONDS. Raises HubError."""
    until = time.monotonic() + END_SECONDS
    while not (now := look(job.name)).ended and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return now


def log(job: Job) -> Iterator[str]:
    """The lines of a job's log, from its first until the job has ended.

    Where the connection breaks it begins anew, and lines that were told already are left out. Should a token be among
    them, it is not shown. Raises HubError where the Hub stays away for AWAY_SECONDS.
    """
    get_session().timeout, token = STALL_SECONDS, get_token() or "\0"
    told: list[str] = []
    away_since = None
    follows = [True, False]  # the client's stream ends with the job, though it may have been cut just before
    while follows:
        try:
            lines = HfApi().fetch_job_logs(job_id=job.id, namespace=job.owner, follow=follows[0])
            for number, line in enumerate(lines):
                if told[number : number + 1] != [line]:  # a job that was restarted may have a log of its own
                    told[number:] = [line]
                    away_since = None
                    yield line.rstrip("\n").replace(token, "...")
            del follows[0]
        except Exception as error:
            away_since = away_since or time.monotonic()
            if status_of(error) not in BUSY or time.monotonic() - away_since > AWAY_SECONDS:
                raise HubError(f"cannot follow job {job.name}, which goes on: {reason(error)}.") from error
            time.sleep(POLL_SECONDS)


def _ask(what: str, call: Callable[[], Result]) -> Result:
    return patiently(time.monotonic() + FETCH_SECONDS, what, call)


def _told(job: JobInfo) -> Job:
    stage = getattr(job.status.stage, "value", job.status.stage)
    environment = {str(name): str(value) for name, value in (job.environment or {}).items()}
    labels = job.labels or {}
    group, alias = labels.get(GROUP), labels.get(ALIAS)
    return Job(job.id, job.owner.name, str(stage), job.status.message or "", job.url, group, alias, environment)
