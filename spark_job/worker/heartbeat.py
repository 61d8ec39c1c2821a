"""Renews a worker's lease while a long slice runs, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from icemirror.errors import IcemirrorError
from icemirror.state.actions import Exit
from icemirror.state.apply import apply
from icemirror.state.events import Beat, Holder
from icemirror.state.policy import Policy
from icemirror.state.store import Store
from icemirror.telemetry.logs import bind, bound, get_log

_BEATS_A_LEASE = 4

log = get_log(__name__)


class Heartbeat:
    """A context. `lost` says that the slot has become another's, so that nothing more may be taken.

    A slice that runs longer than `longest_seconds` hangs: its heart stops, the lease ends, and the trigger ends
    the run and launches another.
    """

    def __init__(
        self, me: Holder, store: Store, policy: Policy, clock: Callable[[], float], longest_seconds: float
    ) -> None:
        self.lost = False
        self._me, self._store, self._policy, self._clock = me, store, policy, clock
        self._done = threading.Event()
        self._longest_seconds = longest_seconds
        self._labels = bound()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _beat(self) -> None:
        ends_at = time.monotonic() + self._longest_seconds
        with bind(table=self._labels.get("table"), run=self._labels.get("run")):
            while not self._done.wait(self._policy.lease_seconds / _BEATS_A_LEASE):
                if time.monotonic() > ends_at:
                    log.error("the slice takes too long: giving up the slot", seconds=self._longest_seconds)
                    return
                if not self._is_mine():
                    self.lost = True
                    return

    def _is_mine(self) -> bool:
        """No answer is no verdict: the lease still runs, and the commit is fenced anyway."""
        try:
            (answer,) = apply(self._store, Beat(self._clock(), self._me), self._policy).actions
        except IcemirrorError as error:
            log.warning("heartbeat failed", reason=str(error))
            return True
        except Exception as error:  # a thread that ended would let the lease of a sound slice run out
            log.failure("heartbeat failed unexpectedly", error)
            return True
        return not isinstance(answer, Exit)
