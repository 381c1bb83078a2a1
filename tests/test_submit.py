"""Rented machines: the real client meets a Jobs API here, whose jobs do what a test says, or really train."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest

from a3c_core import envs
from a3c_core.checkpoint import MODEL, RECIPE, RESUME, steps_of
from a3c_core.recipe import Recipe
from tests import toy
from tests.loopback_hub import RESET, TRUNCATED, Job, environment
from tests.processes import wait_until
from training import rented, submit
from training.__main__ import main
from training.log import LOG, read_log
from training.rented import ORDER, Order
from zoo import hub, jobs

REPO = "tester/a3c-runs"
STARTING = "POST /api/jobs/tester$"
LOGS = "GET .*/logs"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A directory to work in, since commands write into runs/."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def run(capsys):
    """Runs `submit` and returns what it printed."""

    def run(*argv):
        main(["submit", *map(str, argv)])
        return capsys.readouterr().out

    return run


def at_a_terminal(monkeypatch, *answers):
    """Has somebody answer the questions; returns these."""
    asked, left = [], list(answers)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or left.pop(0))
    return asked


def saved(server, directory, name):
    """Has the Hub keep a run as a machine would, in the private repository."""
    server.put(REPO, {f"{name}/{path.name}": path.read_bytes() for path in directory.iterdir() if path.is_file()})
    server.repos["model", REPO].private = True


def order_of(job):
    return Order.read(job.wish["environment"][ORDER])


def keeping(server, directory):
    """A work that leaves the files of that run on the Hub."""

    def work(job):
        job.lines += ["1,000 steps", "2,000 steps"]
        saved(server, directory, order_of(job).run)
        return 0

    return work


# Before anything is paid


def test_a_dry_run_tells_what_would_be_done_and_paid_and_rents_nothing(server, run):
    words = "pong --flavor cpu-upgrade --machines 2 --workers 12 --hours 3 --attempts 2 --stop-at 2000000 --dry-run"
    told = re.sub(r"-\d{8}-\d{6}-[0-9a-f]{4}", "-DATE", run(*words.split()))
    assert told.splitlines() == [
        "train ALE/Pong-v5 to 2,000,000 steps with 12 workers, as Pong-v5-seed0-DATE",
        "  on     2 machines cpu-upgrade, one Ray cluster (8 vCPU, 32 GB each), 4 cores idle: --workers 16 uses all",
        "  for    3 h at most, 2 times at most if it is taken away or fails",
        "  costs  $0.06 an hour, $0.36 at most",
        "  keeps  checkpoint and log in the private repository tester/a3c-runs, every 10 minutes",
        "  sends  this package without the zoo's weights, and your token of the Hub as a secret of the job",
    ]
    assert (server.jobs, server.repos) == ([], {})


def test_options_of_machines_may_come_before_the_name(server, run):
    told = run("--flavor", "t4-small", "--workers", 1, "cartpole", "--dry-run")
    assert "400,000 steps with 1 worker, as" in told
    assert "1 machine t4-small (4 vCPU, 15 GB, 1 T4), 3 cores idle: --workers 4 uses all\n" in told


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            "cartpole --flavor mainframe",
            r"no machine is called 'mainframe': choose --flavor from cpu-basic \(\$0.01",
        ),
        ("cartpole --machines 0", "machines: Input should be greater than or equal to 1"),
        ("cartpole --hours 0.05", "hours: Input should be greater than or equal to 0.1"),
        ("cartpole --hours nan", "hours: Input should be a finite number"),
        ("cartpole --attempts 0", "--attempts must be at least 1"),
        ("cartpole --repo nobody's --yes", "the Hub has no such names"),
        ("cartpole --machines 2 --workers 17", "17 workers take a core each, and 2 machines cpu-upgrade have 16: add"),
        ("cartpole", "^nothing was rented: add --yes, or answer at a terminal$"),
        ("--resume nowhere", "nowhere is no checkpoint"),
        ("--follow 123", "^error: cannot look at job 123: the Hub has no such .* job"),
    ],
)
def test_what_cannot_be_rented_is_told_in_one_sentence(server, run, words, error):
    with pytest.raises(SystemExit, match=error) as raised:
        run(*words.split())
    assert "\n" not in str(raised.value)
    assert (server.jobs, server.repos) == ([], {})


def test_without_a_token_there_is_a_way_to_one(server, run, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(SystemExit, match=r"^error: cannot tell who you are: sign in again \(on the command line: `hf"):
        run("cartpole", "--dry-run")


def test_an_environment_of_the_users_own_is_refused(server, run, monkeypatch, tmp_path):
    place = "gymnasium.envs.classic_control:CartPoleEnv"
    (tmp_path / "poles.py").write_text(f'import gymnasium\n\ngymnasium.register("Pole-v0", entry_point="{place}")\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(envs, "REGISTERED", {})
    with pytest.raises(SystemExit, match="Pole-v0 is an environment of your own, whose module a rented machine does"):
        run("--env", "poles:Pole-v0", "--yes")
    gymnasium.registry.pop("Pole-v0")
    assert server.jobs == []


# Starting


def test_a_no_rents_nothing(server, run, monkeypatch):
    asked = at_a_terminal(monkeypatch, "n")
    with pytest.raises(SystemExit, match=r"^nothing was rented$"):
        run("cartpole")
    assert asked == ["rent it? [y/N] "]
    assert (server.jobs, server.repos) == ([], {})


def test_secrets_travel_as_secrets_alone(server, run, small_run, monkeypatch):
    def tells_all(job):
        job.lines.append(f"the token is {server.token}.")
        return keeping(server, small_run)(job)

    server.work = tells_all
    monkeypatch.setattr("training.rented.hub.put", lambda *_, **__: None)
    told = run("cartpole", "--machines", 2, "--yes")
    assert "the token is ....\n" in told
    ray = {job.wish["secrets"].pop("RAY_AUTH_TOKEN") for job in server.jobs}
    assert len(ray) == 1
    for job in server.jobs:
        assert job.wish.pop("secrets") == {"HF_TOKEN": server.token}
        everything = json.dumps(job.wish) + told + str(server.files(REPO))
        assert server.token not in everything
        assert not any(secret in everything for secret in ray)


def test_the_machines_of_a_training_are_one_network(server, run, small_run):
    server.work = keeping(server, small_run)
    run("cartpole", "--machines", 3, "--hours", 0.5, "--attempts", 4, "--namespace", "tester", "--yes")
    wishes = [job.wish for job in server.jobs]
    assert {(each["flavor"], each["timeoutSeconds"], each["attempts"]) for each in wishes} == {("cpu-upgrade", 1800, 4)}
    assert len({each["network"]["group"] for each in wishes}) == 1
    assert [each["network"]["aliases"] for each in wishes] == [["head"], ["machine1"], ["machine2"]]
    ends = [each["command"][-1].splitlines()[-1].removeprefix("exec python -m training.rented ") for each in wishes]
    assert ends == ["lead 6379", *2 * ["join ${HF_NETWORK_GROUP_PREFIX}head:6379"]]


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (402, r"rented machines a positive credit balance \(huggingface.co/settings/billing\)"),
        (401, "the Hub does not accept the token: sign in again"),
        (403, "start Jobs to rent machines"),
    ],
)
def test_a_refusal_says_what_to_do(server, run, status, advice):
    server.fail(STARTING, status)
    with pytest.raises(SystemExit, match=f"^error: cannot rent a machine for tester: .*{advice}"):
        run("cartpole", "--yes")
    assert server.jobs == []


def test_where_one_machine_is_refused_none_is_left_running(server, run):
    server.work = lambda job: job.cancelled.wait(10.0) and 1
    place = jobs.start

    def second_refused(*words, alias, **how):
        if alias != "head":
            server.fail(STARTING, 402)
        return place(*words, alias=alias, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "start", second_refused)
        with pytest.raises(SystemExit, match="positive credit balance"):
            run("cartpole", "--machines", 2, "--yes")
    assert [job.cancelled.is_set() for job in server.jobs] == [True]


@pytest.mark.parametrize("fault", [RESET, TRUNCATED])
def test_a_job_whose_start_was_not_answered_is_not_started_twice(server, run, small_run, fault):
    server.work = keeping(server, small_run)
    server.fail(STARTING, fault)
    assert "2,000 steps" in run("cartpole", "--yes")
    assert len(server.jobs) == 1


# Following


def submitted(server, run, small_run, *more):
    server.work = keeping(server, small_run)
    return run("cartpole", "--yes", *more)


def test_the_log_is_told_and_the_run_comes_home(server, run, small_run, tmp_path):
    told = submitted(server, run, small_run).splitlines()
    (job,) = server.jobs
    name = order_of(job).run
    assert told[-4:] == [
        f"job tester/{job.id} is started: {server.url}/jobs/tester/{job.id}",
        "1,000 steps",
        "2,000 steps",
        f"runs/{name} holds the run:  python -m training train --resume runs/{name}",
    ]
    assert (Path("runs", name) / LOG).read_bytes() == (small_run / LOG).read_bytes()
    assert steps_of(Path("runs", name)) == steps_of(small_run)
    assert any(Path("runs", name).glob("events.out.*"))
    assert server.repos["model", REPO].private


@pytest.mark.parametrize("fault", [TRUNCATED, RESET, 503])
def test_a_log_that_is_cut_is_told_once(server, run, small_run, fault):
    server.fail(LOGS, fault, times=2)
    told = submitted(server, run, small_run)
    assert re.findall(r"^\d,000 steps$", told, re.MULTILINE) == ["1,000 steps", "2,000 steps"]


def test_a_hub_that_is_away_for_a_while_is_waited_for(server, run, small_run):
    server.fail(r"GET /api/jobs/tester/\w+", 502, times=6)
    assert "2,000 steps" in submitted(server, run, small_run)


def test_a_hub_that_stays_away_is_told_and_the_job_goes_on(server, run, small_run, monkeypatch, capsys):
    monkeypatch.setattr(jobs, "AWAY_SECONDS", 0.1)
    server.fail(LOGS, RESET, times=None)
    with pytest.raises(SystemExit, match=r"^error: cannot follow job tester/\w+, which goes on: the Hub cannot be"):
        submitted(server, run, small_run)
    server.clear_faults()
    capsys.readouterr()
    assert server.jobs[0].stage == "COMPLETED"
    told = run("--follow", f"tester/{server.jobs[0].id}")
    assert told.startswith("1,000 steps\n2,000 steps\nruns/")
    assert told == run("--follow", server.jobs[0].id)


def test_a_job_that_fails_says_so_and_what_it_has_learnt_comes_home(server, run, small_run):
    def fails(job):
        job.lines.append("error: the pole fell off")
        if order_of(job).recipe.seed:
            saved(server, small_run, order_of(job).run)
        return 7

    server.work = fails
    for seed, learnt in ((0, r", before anything was learnt"), (1, "")):
        with pytest.raises(SystemExit, match=rf"has ended as ERROR: Job failed with exit code: 7{learnt}$"):
            run("cartpole", "--seed", seed, "--attempts", 1, "--yes")
        assert [path.name for path in Path("runs").glob("*")] == seed * [order_of(server.jobs[-1]).run]


def goes_on(server):
    """A work that is interrupted here as soon as it has told a line, and ends when it is cancelled."""

    def work(job):
        job.lines.append("1,000 steps")
        first = job is server.jobs[0]
        if first and wait_until(lambda: any(path.endswith("/logs") for _, path in server.requests), 10.0):
            os.kill(os.getpid(), signal.SIGINT)
        job.cancelled.wait(10.0)
        return 1

    server.work = work


def test_ctrl_c_while_machines_are_rented_leaves_none_running(server, run):
    def work(job):
        os.kill(os.getpid(), signal.SIGINT)
        job.cancelled.wait(10.0)
        return 1

    server.work = work
    with pytest.raises(SystemExit):
        run("cartpole", "--yes")
    assert [job.cancelled.is_set() for job in server.jobs] == [True]


def test_ctrl_c_can_leave_a_job_running(server, run, monkeypatch, capsys):
    goes_on(server)
    at_a_terminal(monkeypatch, "")
    with pytest.raises(SystemExit) as raised:
        run("cartpole", "--yes")
    assert raised.value.code == 130
    (job,) = server.jobs
    assert f"follow it:  python -m training submit --follow tester/{job.id}" in capsys.readouterr().err
    assert not job.cancelled.is_set()
    job.cancelled.set()


def test_ctrl_c_can_cancel_all_machines(server, run, monkeypatch, small_run):
    goes_on(server)
    asked = at_a_terminal(monkeypatch, "y")
    with pytest.raises(SystemExit, match="has ended as CANCELED"):
        run("cartpole", "--machines", 2, "--yes")
    assert "goes on, and costs. Cancel it?" in asked[0]
    assert len(server.jobs) == 2
    assert all(job.cancelled.is_set() for job in server.jobs)


def test_a_job_is_cancelled_by_its_id_and_its_run_comes_home(server, run, small_run, monkeypatch):
    def work(job):
        saved(server, small_run, order_of(job).run)
        job.cancelled.wait(10.0)
        return 1

    server.work = work
    offer = submit.offer(an_order(run="mine"), "cpu-basic", attempts=1)
    job = submit.start(offer)
    with pytest.raises(SystemExit, match="has ended as CANCELED"):
        run("--cancel", job.id)
    assert server.jobs[0].stage == "CANCELED"
    assert steps_of(Path("runs", "mine")) == steps_of(small_run)


def test_a_job_that_is_none_of_ours_is_left_alone(server, run):
    server.work = lambda job: job.cancelled.wait(0.2) and 1
    server.jobs.append(Job("f" * 24, "tester", {"command": ["sleep"], "environment": {}, "labels": {}}))
    for option in ("--follow", "--cancel"):
        with pytest.raises(SystemExit, match=r"is no training that this version knows"):
            run(option, "f" * 24)
    assert not server.jobs[0].cancelled.is_set()


# Bringing runs home and back


def an_order(**fields):
    recipe = Recipe(steps=4000, workers=1, envs_per_worker=4, head_layers=(8,))
    usual = {"owner": "tester", "repo": REPO, "run": "mine", "recipe": recipe, "machines": 1, "hours": 1.0}
    return Order(**(usual | fields))


def test_a_run_that_has_gone_on_here_is_not_overwritten(server, small_run, tmp_path):
    toy.run_of(tmp_path / "mine", toy.beginner(steps=2000))
    before = {path: path.read_bytes() for path in (tmp_path / "mine").iterdir() if path.is_file()}
    saved(server, small_run, "mine")
    with pytest.raises(ValueError, match="has gone on to 2,000 steps, the Hub's copy has 1,000: it was kept"):
        rented.fetch_run(REPO, "mine", tmp_path / "mine")
    assert before == {path: path.read_bytes() for path in (tmp_path / "mine").iterdir() if path.is_file()}


def test_a_run_that_has_gone_on_there_is_not_overwritten_either(server, run, small_run, tmp_path):
    saved(server, toy.run_of(tmp_path / "further", toy.beginner(steps=2000)), small_run.name)
    before = server.files(REPO)
    with pytest.raises(SystemExit, match=r"has gone on to 2,000 steps on the Hub, and .* has 1,000: bring it home"):
        run("--resume", small_run, "--yes")
    assert (server.jobs, server.files(REPO)) == ([], before)


def test_files_that_are_none_of_a_run_stay_on_the_hub(server, small_run, tmp_path):
    saved(server, small_run, "mine")
    server.put(
        REPO, {"mine/run.sh": b"rm -rf", "mine/.netrc": b"", "mine/a/b/c/d/deep.json": b"{}", "other/x.json": b"{}"}
    )
    assert rented.fetch_run(REPO, "mine", tmp_path / "mine")
    assert {path.name for path in (tmp_path / "mine").rglob("*") if path.is_file()} - {
        path.name for path in small_run.rglob("*")
    } <= {"events.out.tfevents.0.training"}


def test_a_public_repository_gets_nothing(server, run):
    server.put(REPO, {})
    with pytest.raises(SystemExit, match="tester/a3c-runs is public: make it private on the Hub first"):
        run("cartpole", "--yes")
    assert server.jobs == []


# What a machine does


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """This process as a rented machine, at work in a directory of its own."""
    (tmp_path / "machine").mkdir()
    monkeypatch.chdir(tmp_path / "machine")
    monkeypatch.setenv(rented.BEGAN, "1e12")
    monkeypatch.setattr(rented, "SAVE_SECONDS", 0.0)
    hub.open_private(REPO)


def after(steps, act):
    """Has something happen once a training has made so many steps."""
    draw = rented._draw

    def drawn(moments, saver):
        def watched():
            for moment in moments:
                yield moment
                if moment.steps >= steps:
                    act()

        draw(watched(), saver)

    return drawn


def test_a_machine_that_is_taken_away_saves_its_run_and_the_next_goes_on(server, machine, monkeypatch, capsys):
    order = an_order(recipe=replace(an_order().recipe, steps=30_000))
    with monkeypatch.context() as patch:
        patch.setattr(rented, "_draw", after(1, lambda: os.kill(os.getpid(), signal.SIGTERM)))
        with pytest.raises(SystemExit) as raised:
            rented.lead(order, 0)
    assert raised.value.code == 143
    there = rented.steps_there(REPO, "mine")
    assert 0 < there < 30_000
    assert capsys.readouterr().out.startswith("training CartPole-v1 as mine\n")
    Path("mine").rename("lost")
    rented.lead(order, 0)
    assert capsys.readouterr().out.startswith("going on with CartPole-v1 as mine\n")
    assert rented.steps_there(REPO, "mine") == steps_of(Path("mine")) >= 30_000
    assert read_log(Path("mine"))[0].steps <= there


def test_a_run_ends_before_its_time_is_up(server, machine, monkeypatch, capsys):
    monkeypatch.setenv(rented.BEGAN, "0")
    rented.lead(an_order(), 0)
    assert "the 1 hours are over: go on with submit --resume mine" in capsys.readouterr().out
    assert rented.steps_there(REPO, "mine") < 4000


def test_a_training_whose_files_cannot_be_saved_ends_at_once(server, machine):
    server.fail("POST .*/commit/", 403, times=None)
    with pytest.raises(hub.HubError, match="cannot upload to tester/a3c-runs: the token may not do that"):
        rented.lead(an_order(recipe=Recipe(steps=10**9, workers=1)), 0)


def test_later_a_hub_that_is_away_is_told_and_the_last_files_are_offered_until_it_is_back(
    server, machine, monkeypatch, capsys
):
    monkeypatch.setattr(rented, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(rented, "_draw", after(1, lambda: server.fail("POST .*/commit/", 500, times=9)))
    rented.lead(an_order(recipe=replace(an_order().recipe, steps=30_000)), 0)
    assert "WARNING: cannot upload to tester/a3c-runs: the Hub has trouble" in capsys.readouterr().out
    assert rented.steps_there(REPO, "mine") >= 30_000


# All of it


@pytest.fixture
def rented_here(server, tmp_path):
    """Jobs are really done, each in a directory of its own, by what was sent. Nothing is downloaded from elsewhere,
    since all that the package needs is here, and the names of a network become this machine's address."""
    (tmp_path / "bin").mkdir()
    here = Path(sys.executable).parent
    for name, does in {
        "uvx": f'shift 2; program=$1; shift; exec "{here}/$program" "$@"',
        "uv": 'package="${7%%\\[*}"; exec tar xzf "$package" -C "$PACKAGES"',
        "python": f'PYTHONPATH=$(echo "$PACKAGES"/a3c_arcade-*) exec "{sys.executable}" "$@"',
    }.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def start(job):
        home = tmp_path / f"machine-{job.id}"
        home.mkdir(exist_ok=True)
        given = environment(server.url, home) | job.wish["environment"] | job.wish["secrets"]
        given |= {"JOB_ID": job.id, "PACKAGES": str(home), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        command = job.wish["command"][-1].replace(submit.HERE, str(home / "a3c"))
        command = command.replace(f"${{HF_NETWORK_GROUP_PREFIX}}{submit.HEAD}", "127.0.0.1")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
        return subprocess.Popen(["bash", "-c", command], env=os.environ | given, **pipes)

    return start


def test_a_training_whose_machine_is_lost_is_done_by_the_next_and_goes_on_here(server, run, rented_here):
    machines = []

    def saved_once():
        return server.repos["model", REPO].at("main").title.endswith(" steps")

    def work(job):
        with rented_here(job) as machine:
            machines.append(machine)
            if len(machines) == 1 and wait_until(saved_once, 60.0):
                os.killpg(machine.pid, signal.SIGKILL)
            job.lines += machine.stdout
        return machine.returncode

    server.work = work
    told = run(*["cartpole", "--workers", "1", "--steps", "20000", "--flavor", "cpu-basic", "--yes"])
    assert [machine.returncode for machine in machines] == [-signal.SIGKILL, 0], told
    name = order_of(server.jobs[0]).run
    assert f"training CartPole-v1 as {name}\n" in told
    before = told.split(f"going on with CartPole-v1 as {name}\n")[0]
    assert "\n20," not in before  # steps, which the next machine has made
    directory = Path("runs", name)
    assert steps_of(directory) >= 20000
    assert {MODEL, RECIPE, RESUME, LOG} <= {path.name for path in directory.iterdir()}
    main(["train", "--resume", str(directory), "--steps", "24000"])
    assert steps_of(directory) >= 24000


@pytest.mark.slow
@pytest.mark.cluster
def test_two_machines_are_one_cluster(server, run, rented_here, monkeypatch):
    with socket.create_server(("", 0)) as free:
        monkeypatch.setattr(submit, "PORT", free.getsockname()[1])

    def work(job):
        with rented_here(job) as machine:
            threading.Thread(target=lambda: job.cancelled.wait(60.0) and machine.terminate(), daemon=True).start()
            job.lines += machine.stdout
        return machine.returncode

    server.work = work
    cores = os.cpu_count()
    told = run(*f"cartpole --machines 2 --workers {cores + 1} --steps 20000 --compression bfloat16 --yes".split())
    directory = Path("runs", order_of(server.jobs[0]).run)
    assert steps_of(directory) >= 20000, told
    assert sum(line.messages or 0 for line in read_log(directory)) > 0
    assert wait_until(lambda: all(job.ended for job in server.jobs), 30.0)
    assert [job.stage for job in server.jobs] == ["COMPLETED", "CANCELED"]
    server.jobs[0].cancelled.set()  # which somebody still waits for
