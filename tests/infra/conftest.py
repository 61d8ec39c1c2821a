"""Servers are started as those of the services' tests are."""

from tests.services.conftest import pytest_runtest_makereport, start

__all__ = ["pytest_runtest_makereport", "start"]
