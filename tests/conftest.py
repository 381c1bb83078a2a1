"""How the tests are run: what they share is in `tests/fixtures.py`."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Loads the fixtures, except where tests are only handed out to other processes: they take seconds to import."""
    hands_out = config.getoption("numprocesses", 0) and not hasattr(config, "workerinput")
    if not hands_out:
        config.pluginmanager.import_plugin("tests.fixtures")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what meets the served arcade, as its visitors do, or the static one: over half of the tests' time."""
    for item in items:
        if {"app", "apps", "browser", "static_site"}.intersection(item.fixturenames):
            item.add_marker(pytest.mark.arcade)
