"""The trigger protocol, explored exhaustively within bounds; and the planted bugs that it must detect."""

from __future__ import annotations

import os

import pytest

from tests.sim.protocol.bounds import DEEP, SMALL
from tests.sim.protocol.bugs import BUGS
from tests.sim.protocol.model import Model
from tests.sim.protocol.search import check

deep = DEEP if os.environ.get("ICEMIRROR_DEEP_MODEL") else {}


@pytest.mark.parametrize("name", [*SMALL, *deep])
def test_protocol_is_safe_and_every_path_ends(name: str) -> None:
    verdict = check(Model(**{**SMALL, **DEEP}[name]))
    assert verdict.why == "", " | ".join(verdict.trace)


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_detected(name: str) -> None:
    bug = BUGS[name]
    verdict = check(bug.model(name))
    assert verdict.why == bug.why, " | ".join(verdict.trace)
    assert verdict.trace
