"""Campaigns without real work, for tests of the soak; worker processes import them from this module."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace

from tests.soak.campaign import Campaign


def run(seed: int, defect: str | None = None) -> Counter[str]:
    """Fail every tenth seed, and any seed with a planted defect."""
    if defect == "dies":
        os._exit(7)
    if defect == "hangs":
        time.sleep(60)
    if defect == "fails" or seed % 10 == 9:
        raise AssertionError(f"the story of {seed}")
    time.sleep(0.01)
    return Counter(["odd" if seed % 2 else "even"])


def refuse() -> None:
    """Fail as if a server were missing."""
    raise RuntimeError("no such server")


TOY = Campaign("toy", "nothing", run, "python -m toy", processes=2, patience_seconds=2)
UNREADY = replace(TOY, prepare=refuse)
