"""A run's log: what it counts, and that it reads as it was written."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from a3c_core.worker import Report
from training.log import LOG, Log, Metrics, Progress, read_log

OLD = {
    "steps": 400,
    "seconds": 1.5,
    "steps_per_second": 250.0,
    "seconds_left": None,
    "episodes": 20,
    "mean_return": 2.5,
    "updates": 20,
    "learning_rate": 0.001,
    "policy_loss": 0.1,
    "value_loss": 0.2,
    "entropy": 0.3,
    "explained_variance": 0.4,
    "gradient_norm": 0.5,
    "staleness": 0.0,
}
"""A line of a run from before there were encoders."""


def report(*active, **changes):
    """One update's report, with a mask per ReLU layer."""
    numbers = {
        "policy_loss": 0.0,
        "value_loss": 0.0,
        "entropy": 0.0,
        "explained_variance": 0.0,
        "gradient_norm": 1.0,
        "clipped": 0.0,
    }
    masks = [np.array(mask, dtype=bool) for mask in active]
    return Report(**{"rank": 0, "returns": [], **numbers, "staleness": 0, "active": masks} | changes)


def moment_of(*reports, steps=100, encoder="float32"):
    metrics = Metrics()
    for each in reports:
        metrics.add(each)
    return metrics.progress(steps, goal=1000, learning_rate=1e-3, encoder=encoder)


def test_a_unit_is_active_if_it_was_in_any_report_of_the_moment():
    moment = moment_of(report([1, 0, 0, 0], [1, 1]), report([0, 1, 0, 0], [0, 0]), report([1, 1, 0, 0], [0, 1]))
    assert moment.active == (0.5, 1.0)


def test_shares_of_active_units_are_of_one_moment_alone():
    metrics = Metrics()
    metrics.add(report([1, 1]))
    assert metrics.progress(1, goal=9, learning_rate=0.1).active == (1.0,)
    metrics.add(report([1, 0]))
    assert metrics.progress(2, goal=9, learning_rate=0.1).active == (0.5,)
    assert metrics.progress(3, goal=9, learning_rate=0.1).active is None


@pytest.mark.parametrize("reports", [(), (report(), report())], ids=["no update", "no ReLU"])
def test_without_updates_or_relus_no_shares_are_told(reports):
    assert moment_of(*reports).active is None


def test_numbers_of_updates_are_means_over_the_moment():
    moment = moment_of(report([1], entropy=1.0, returns=[3.0]), report([0], entropy=2.0, returns=[5.0, 7.0]))
    assert (moment.updates, moment.entropy, moment.episodes, moment.mean_return) == (2, 1.5, 3, 5.0)


def test_the_log_reads_as_it_was_written(tmp_path):
    written = [
        moment_of(report([1, 0], [1, 1, 0, 1]), steps=100, encoder="bfloat16"),
        moment_of(steps=100),
        moment_of(report([1, 1], [1, 1, 1, 1]), steps=200),
    ]
    log = Log(tmp_path)
    for moment in written:
        log.write(moment)
    log.close()
    assert read_log(tmp_path) == written
    events = EventAccumulator(str(tmp_path)).Reload()
    for layer, shares in {"active/layer1": [0.5, 1.0], "active/layer2": [0.75, 1.0]}.items():
        assert [(scalar.step, scalar.value) for scalar in events.Scalars(layer)] == [
            (100, pytest.approx(shares[0])),
            (200, pytest.approx(shares[1])),
        ]
    named = set(events.Tags()["scalars"])
    assert {"train/entropy", "train/learning_rate"} <= named
    assert not named & {"train/active", "train/encoder", "train/steps", "active/layer0", "active/layer3"}


def test_a_line_of_an_older_run_still_reads(tmp_path):
    (tmp_path / LOG).write_text(json.dumps(OLD) + "\n")
    (moment,) = read_log(tmp_path)
    assert moment == Progress(**OLD)
    assert (moment.steps, moment.encoder, moment.active) == (400, "float32", None)
    assert asdict(moment).items() >= OLD.items()


def test_an_older_run_goes_on_in_the_same_log(tmp_path):
    (tmp_path / LOG).write_text(json.dumps(OLD) + "\n")
    log = Log(tmp_path, after=400)
    log.write(moment_of(report([1, 0]), steps=500))
    log.close()
    assert [(moment.steps, moment.active is None) for moment in read_log(tmp_path)] == [(400, True), (500, False)]


FOREIGN = [
    "",
    "[]",
    '{"steps": 1}',
    '{"note": "moved to another machine"}',
    json.dumps(OLD | {"steps": 300, "colour": "red"}),
    json.dumps(OLD, indent=None, separators=(",", ":")),
    "not JSON",
]


def test_a_line_that_is_no_progress_is_left_out_and_so_is_an_unknown_field(tmp_path):
    (tmp_path / LOG).write_text("\n".join([*FOREIGN, '{"steps": 5']))
    assert read_log(tmp_path) == [Progress(**OLD | {"steps": 300}), Progress(**OLD)]


@pytest.mark.parametrize("cut", ["", '{"steps": 5', json.dumps(OLD | {"steps": 500}) + "\n"])
def test_a_resumed_run_keeps_every_line_up_to_its_checkpoint_to_the_letter(tmp_path, cut):
    kept = "".join(line + "\n" for line in FOREIGN)
    (tmp_path / LOG).write_text(kept + cut)
    log = Log(tmp_path, after=400)
    log.write(moment_of(report([1, 0]), steps=500))
    log.close()
    text = (tmp_path / LOG).read_text()
    assert text.startswith(kept)
    assert text.count("\n") == len(FOREIGN) + 1


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path):
    (tmp_path / LOG).write_text(json.dumps(OLD))
    Log(tmp_path, after=400).close()
    assert (tmp_path / LOG).read_text() == json.dumps(OLD) + "\n"


def test_where_there_is_no_log_there_are_no_moments(tmp_path):
    assert read_log(tmp_path) == []
