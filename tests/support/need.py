"""Optional dependencies: a missing one skips the test, or fails it under CI=true."""

from __future__ import annotations

import os
from typing import NoReturn, TypeVar

import pytest

Thing = TypeVar("Thing")


def in_ci() -> bool:
    """Return whether this run requires all optional dependencies."""
    return os.environ.get("CI", "").lower() == "true"


def need(thing: Thing | None, reason: str) -> Thing:
    """Return the thing if it exists (neither None nor False)."""
    if thing is None or thing is False:
        do_without(reason)
    return thing


def do_without(reason: str) -> NoReturn:
    """Skip this test, or fail it under CI=true."""
    if in_ci():
        pytest.fail(f"{reason} (skipped where CI is not true)", pytrace=False)
    pytest.skip(reason)
