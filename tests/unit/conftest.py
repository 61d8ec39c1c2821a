"""Unit tests start nothing: the guard is armed while modules are imported and tests run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext

import pytest
import urllib3.util.connection  # noqa: F401 -- binds a socket when it is imported, to detect IPv6

from tests.unit.guard import guard


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Import modules with the guard."""
    with guard.armed():
        report = yield
        if report.failed:  # with the guard's reason
            guard.refused.clear()
        return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Run fixtures with the guard."""
    with guard.armed():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Run tests with the guard."""
    with guard.armed():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Tear fixtures down with the guard, except after the last test, when the servers of other folders stop."""
    with guard.armed() if nextitem is not None else nullcontext():
        yield
