"""The heart of a worker beats on, whatever the state answers."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from icemirror.state.events import Holder
from icemirror.state.policy import Policy
from icemirror.state.rows import SlotId
from spark_job.worker import heartbeat as module
from spark_job.worker.heartbeat import Heartbeat

ME = Holder(SlotId("default", 0), 1, "run")


def test_an_answer_that_nobody_foresaw_does_not_stop_the_heart(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    beats: list[int] = []
    enough = threading.Event()

    def half_an_answer(*_: Any) -> None:
        beats.append(1)
        if len(beats) == 3:
            enough.set()
        raise json.JSONDecodeError("half an answer", "", 0)

    monkeypatch.setattr(module, "apply", half_an_answer)
    store: Any = None  # never asked
    with Heartbeat(ME, store, Policy(lease_seconds=0.04), time.time, 3600.0) as heart:
        assert enough.wait(10.0)
    assert not heart.lost
    assert "heartbeat failed" in caplog.text
