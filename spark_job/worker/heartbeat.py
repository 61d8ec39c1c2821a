"""Renews a worker's lease from a thread while a long slice runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from icemirror.errors import IcemirrorError
from icemirror.protocol.actions import StopWorker
from icemirror.protocol.events import Heartbeat, WorkerId
from icemirror.protocol.policy import Policy
from icemirror.stores.apply import apply
from icemirror.stores.store import Store
from icemirror.telemetry.logs import bind, bound_fields, get_log

_BEATS_PER_LEASE = 4

log = get_log(__name__)


class HeartbeatThread:
    """Renews the lease while the context is open. `slot_lost`: another worker has the slot, so take nothing more.

    A slice that runs longer than `max_seconds` hangs: the heartbeat stops, the lease expires, and the trigger ends
    the run and launches another.
    """

    def __init__(
        self,
        worker_id: WorkerId,
        store: Store,
        policy: Policy,
        clock: Callable[[], float],
        max_seconds: float,
    ) -> None:
        self.slot_lost = False
        self._worker_id, self._store, self._policy, self._clock = worker_id, store, policy, clock
        self._done = threading.Event()
        self._max_seconds = max_seconds
        self._log_fields = bound_fields()
        self._thread = threading.Thread(target=self._renew_until_done, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _renew_until_done(self) -> None:
        ends_at = time.monotonic() + self._max_seconds
        with bind(table=self._log_fields.get("table"), run=self._log_fields.get("run")):
            while not self._done.wait(self._policy.lease_seconds / _BEATS_PER_LEASE):
                if time.monotonic() > ends_at:
                    log.error("slice timed out, lease no longer renewed", seconds=self._max_seconds)
                    return
                if not self._renew_lease():
                    self.slot_lost = True
                    return

    def _renew_lease(self) -> bool:
        """Renew the lease; return False if another worker has the slot.

        A failure proves nothing: the lease still runs, and the fence protects the commit.
        """
        try:
            (action,) = apply(self._store, Heartbeat(self._clock(), self._worker_id), self._policy).actions
        except IcemirrorError as error:
            log.warning("heartbeat failed", reason=str(error))
            return True
        except Exception as error:  # a dead thread would let the lease of a healthy slice expire
            log.failure("heartbeat failed unexpectedly", error)
            return True
        return not isinstance(action, StopWorker)
