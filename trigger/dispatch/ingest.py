"""Ingests events: parse, find the tables, notice. An event that cannot be parsed becomes a dead letter."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from icemirror.errors import IcemirrorError, Transient
from icemirror.processes.crash_points import reach
from icemirror.protocol.events import Noticed, scheduling_options
from icemirror.protocol.reads import EVERYTHING
from icemirror.protocol.rows import Rows, TableRow
from icemirror.stores.apply import apply
from icemirror.stores.dead_letters import DeadLetter, new_letter
from icemirror.telemetry import names
from icemirror.telemetry.logs import bind, get_log
from trigger.dispatch.fleet import Fleet
from trigger.sources.hints import Hint, LocationHint, NameHint, RunHint
from trigger.sources.parse_hints import parse_hints
from trigger.sources.refusal import NOT_REGISTERED, EventRefused

_REFRESH_SECONDS = 30.0
_MAX_REFRESH_SECONDS = 600.0
_CATALOG_TIMEOUT_SECONDS = 20.0

log = get_log(__name__)


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that was used: its tables, which were noticed, and its runs. An irrelevant event has neither."""

    tables: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()


Outcome = Accepted | IcemirrorError
"""`EventRefused`: the event can never be used. `Transient`: it is not stored and must be delivered again."""


@dataclass
class Ingest:
    """Accepts events, from any number of threads. Notices are stored when `accept` returns."""

    fleet: Fleet
    clock: Callable[[], float] = time.monotonic
    _refresh_at: dict[str, float] = field(default_factory=dict)
    _unsuccessful_polls: int = 0
    _refresh_lock: threading.Lock = field(default_factory=threading.Lock)

    def accept(self, bodies: Sequence[bytes]) -> list[Outcome]:
        """Return the outcome of each event. Many events of one table are one write."""
        outcomes = [self._read(body) for body in bodies]
        accepted = [outcome for outcome in outcomes if isinstance(outcome, Accepted)]
        failed = self._notice(Counter(table for event in accepted for table in event.tables))
        self._check_runs(frozenset(run for event in accepted for run in event.runs))
        return [_with_failure(outcome, failed) for outcome in outcomes]

    def keep_dead_letter(self, source: str, body: bytes, refused: EventRefused) -> None:
        """Keep a refused event as a dead letter, unless it concerns an unregistered table."""
        if refused.reason in NOT_REGISTERED:
            return
        self.fleet.store.put_letter(new_letter(source, str(refused), self.fleet.clock(), body))
        self.fleet.metrics.count(names.DEAD_LETTERS)
        log.warning("event refused, kept as a dead letter", source=source, reason=str(refused))

    def redrive(self, letter: DeadLetter) -> None:
        """Accept a dead letter as if it had just arrived. Raise the error if it still cannot be used."""
        (outcome,) = self.accept([letter.body.encode()])
        if isinstance(outcome, IcemirrorError):
            raise outcome

    def _read(self, body: bytes) -> Outcome:
        try:
            return self._resolve(parse_hints(body))
        except EventRefused as refused:
            self._count(refused)
            return refused
        except Transient as error:
            return error

    def _resolve(self, hints: Sequence[Hint]) -> Outcome:
        """Return the tables of all hints. The event is refused only if none of its hints can be used."""
        tables: set[str] = set()
        runs: set[str] = set()
        refusals: list[EventRefused] = []
        for hint in hints:
            if isinstance(hint, RunHint):
                runs.add(hint.run_id)
                continue
            try:
                tables |= self._find(hint)
            except EventRefused as refusal:
                refusals.append(refusal)
        if refusals and not tables and not runs:
            raise refusals[0]
        for counted in refusals:
            self._count(counted)
        return Accepted(frozenset(tables), frozenset(runs))

    def _find(self, hint: LocationHint | NameHint) -> frozenset[str]:
        registry = self.fleet.registry
        with suppress(EventRefused):
            return registry.lookup.find(hint)
        polled = self._refresh(hint)
        try:
            found = registry.lookup.find(hint)
        except EventRefused as refused:
            # While a catalog does not respond, its locations stay unknown: keep polling it at the usual interval.
            self._unsuccessful_polls += polled and not registry.lacks_locations
            if isinstance(hint, LocationHint) and registry.lacks_locations:
                raise Transient(f"{refused}; some catalogs have not answered yet, retrying") from None
            raise
        if polled:
            self._unsuccessful_polls = 0
        return found

    def _refresh(self, hint: LocationHint | NameHint) -> bool:
        """Discover new changelogs; for a location, poll the heads too. Return whether heads were polled.

        A recreated changelog may be in another folder, so an unknown location may be a registered table's. In a shared
        bucket most unknown locations are not: each unsuccessful poll doubles the interval. Name hints never
        trigger polls. One thread refreshes at a time; the others continue with what is known.
        """
        if self._is_due("tables", _REFRESH_SECONDS):
            self.fleet.registry.refresh(_CATALOG_TIMEOUT_SECONDS)
        interval = min(_REFRESH_SECONDS * 2 ** min(self._unsuccessful_polls, 10), _MAX_REFRESH_SECONDS)
        polls = isinstance(hint, LocationHint) and self._is_due("locations", interval)
        if polls:
            self.fleet.registry.poll_heads(_CATALOG_TIMEOUT_SECONDS)
        return polls

    def _is_due(self, refreshed: str, interval_seconds: float) -> bool:
        with self._refresh_lock:
            now = self.clock()
            due = now >= self._refresh_at.get(refreshed, now)
            if due:
                self._refresh_at[refreshed] = now + interval_seconds
        return due

    def _notice(self, hints: Counter[str]) -> dict[str, Transient]:
        """Rule 1: Store one notice per table, regardless of how many hints. Return the tables that failed."""
        failed: dict[str, Transient] = {}
        known = {table.name: table for table in self.fleet.registry.tables}
        for name, count in sorted(hints.items()):
            if name not in known:  # its changelog was dropped in the meantime
                continue
            event = Noticed(self.fleet.clock(), name, scheduling_options(known[name]))
            try:
                reach("notice")
                applied = apply(self.fleet.store, event, self.fleet.policy)
                reach("noticed")
            except Transient as error:
                failed[name] = error
                continue
            before = applied.before if isinstance(applied.before, TableRow) else TableRow(name)
            coalesced = count if before.dirty > before.covered else count - 1
            self.fleet.metrics.count(names.NOTICES, count, table=name)
            if coalesced:
                self.fleet.metrics.count(names.COALESCED, coalesced, table=name)
            with bind(table=name):
                log.info("commit noticed", hints=count)
        return failed

    def _check_runs(self, runs: frozenset[str]) -> None:
        """Recover the slots of reported runs that are ours, with the state that the launcher reports."""
        if not runs:
            return
        try:
            rows = self.fleet.store.load(EVERYTHING)
            slots = {key: slot for key, slot in rows.slots.items() if _run_name(slot.run_id) in runs}
            if slots:
                self.fleet.recover(Rows(rows.tables, slots))
        except Transient as error:  # every sweep checks all runs again
            log.warning("reported run not checked", reason=str(error))

    def _count(self, refused: EventRefused) -> None:
        self.fleet.metrics.count(names.REFUSED, reason=refused.reason)


def _run_name(run_id: str | None) -> str | None:
    """A launcher's run id without its prefix, an application or a namespace: `application/run`."""
    return None if run_id is None else run_id.rpartition("/")[2]


def _with_failure(outcome: Outcome, failed: dict[str, Transient]) -> Outcome:
    """Return the outcome, or the failure to notice one of its tables."""
    if not isinstance(outcome, Accepted):
        return outcome
    return next((failed[table] for table in sorted(outcome.tables) if table in failed), outcome)
