"""A worker's heartbeat continues after invalid responses of the state."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from icemirror.protocol.events import WorkerId
from icemirror.protocol.policy import Policy
from icemirror.protocol.rows import SlotId
from spark_job.worker import heartbeat as module
from spark_job.worker.heartbeat import HeartbeatThread

ME = WorkerId(SlotId("default", 0), 1, "run")


def test_unexpected_answer_does_not_stop_the_heartbeat(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    beats: list[int] = []
    enough = threading.Event()

    def incomplete_answer(*_: Any) -> None:
        beats.append(1)
        if len(beats) == 3:
            enough.set()
        raise json.JSONDecodeError("half an answer", "", 0)

    monkeypatch.setattr(module, "apply", incomplete_answer)
    store: Any = None  # never used
    with HeartbeatThread(ME, store, Policy(lease_seconds=0.04), time.time, 3600.0) as heart:
        assert enough.wait(10.0)
    assert not heart.slot_lost
    assert "heartbeat failed" in caplog.text
