"""The trigger protocol, explored exhaustively within bounds; and the planted defects that it must detect."""

from __future__ import annotations

import os

import pytest

from tests.sim.protocol.bounds import DEEP, SMALL
from tests.sim.protocol.model import Model
from tests.sim.protocol.planted_defects import PLANTED
from tests.sim.protocol.search import check

deep = DEEP if os.environ.get("ICEMIRROR_DEEP_MODEL") else {}


@pytest.mark.parametrize("name", [*SMALL, *deep])
def test_protocol_is_safe_and_every_path_ends(name: str) -> None:
    verdict = check(Model(**{**SMALL, **DEEP}[name]))
    assert verdict.why == "", " | ".join(verdict.trace)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_defect_is_detected(name: str) -> None:
    defect = PLANTED[name]
    verdict = check(defect.model(name))
    assert verdict.why == defect.why, " | ".join(verdict.trace)
    assert verdict.trace
