"""Ingests events: parse, find the tables, notice. An event that cannot be parsed becomes a dead letter."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from icemirror.errors import Transient
from icemirror.processes.crash_points import crash_point
from icemirror.protocol.events import Noticed, scheduling_options
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Rows
from icemirror.stores.apply import apply
from icemirror.stores.dead_letters import DeadLetter, new_letter
from icemirror.telemetry import metric_names
from icemirror.telemetry.logs import bind, get_log
from trigger.dispatch.dispatcher import Dispatcher, count_notices, old_table_row
from trigger.sources.hints import Hint, LocationHint, NameHint, RunHint
from trigger.sources.parse_hints import parse_hints
from trigger.sources.refusal import UNREGISTERED_REASONS, EventRefused, Refusal

_REFRESH_SECONDS = 30.0
_MAX_REFRESH_SECONDS = 600.0
_CATALOG_TIMEOUT_SECONDS = 20.0

log = get_log(__name__)


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that was used: its tables, which were noticed, and its runs. An irrelevant event has neither."""

    tables: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NotStored:
    """An event that is not stored and must be delivered again."""

    error: Transient


IngestOutcome = Accepted | Refusal | NotStored
"""What became of an event. A refused event can never be used."""


@dataclass
class EventIngest:
    """Accepts events, from any number of threads. Notices are stored when `accept` returns."""

    dispatcher: Dispatcher
    clock: Callable[[], float] = time.monotonic
    _refresh_at: dict[str, float] = field(default_factory=dict)
    _unsuccessful_polls: int = 0
    _refresh_lock: threading.Lock = field(default_factory=threading.Lock)

    def accept(self, bodies: Sequence[bytes]) -> list[IngestOutcome]:
        """Return the outcome of each event. Many events of one table are one write."""
        outcomes = [self._read(body) for body in bodies]
        accepted = [outcome for outcome in outcomes if isinstance(outcome, Accepted)]
        failures = self._notice(Counter(table for event in accepted for table in event.tables))
        self._check_runs(frozenset(run for event in accepted for run in event.runs))
        return [_add_failure(outcome, failures) for outcome in outcomes]

    def keep_dead_letter(self, source: str, body: bytes, refusal: Refusal) -> None:
        """Keep a refused event as a dead letter, unless it concerns an unregistered table."""
        if refusal.reason in UNREGISTERED_REASONS:
            return
        self.dispatcher.store.put_letter(new_letter(source, refusal.message, self.dispatcher.clock(), body))
        self.dispatcher.metrics.count(metric_names.DEAD_LETTERS)
        log.warning("event refused, kept as a dead letter", source=source, reason=refusal.message)

    def redrive(self, letter: DeadLetter) -> None:
        """Accept a dead letter as if it had just arrived. Raise an error if it still cannot be used."""
        (outcome,) = self.accept([letter.body.encode()])
        match outcome:
            case Refusal(reason, message):
                raise EventRefused(reason, message)
            case NotStored(error):
                raise error

    def _read(self, body: bytes) -> IngestOutcome:
        try:
            hints = parse_hints(body)
        except EventRefused as error:
            self._count_refusal(error.refusal)
            return error.refusal
        return self._resolve(hints)

    def _resolve(self, hints: Sequence[Hint]) -> IngestOutcome:
        """Return the tables of all hints. The event is refused only if none of its hints can be used."""
        tables: set[str] = set()
        runs: set[str] = set()
        refusals: list[Refusal] = []
        for hint in hints:
            if isinstance(hint, RunHint):
                runs.add(hint.run_id)
                continue
            match self._find_tables(hint):
                case NotStored() as not_stored:
                    return not_stored
                case Refusal() as refusal:
                    refusals.append(refusal)
                case hinted_tables:
                    tables |= hinted_tables
        if refusals and not tables and not runs:
            self._count_refusal(refusals[0])
            return refusals[0]
        for refusal in refusals:
            self._count_refusal(refusal)
        return Accepted(frozenset(tables), frozenset(runs))

    def _find_tables(self, hint: LocationHint | NameHint) -> frozenset[str] | Refusal | NotStored:
        registry = self.dispatcher.registry
        tables = registry.lookup.find(hint)
        if not isinstance(tables, Refusal):
            return tables
        has_polled = self._refresh(hint)
        tables = registry.lookup.find(hint)
        if not isinstance(tables, Refusal):
            if has_polled:
                self._unsuccessful_polls = 0
            return tables
        # While a catalog does not respond, its locations stay unknown: keep polling it at the usual interval.
        if has_polled and not registry.lacks_locations:
            self._unsuccessful_polls += 1
        if isinstance(hint, LocationHint) and registry.lacks_locations:
            reason = f"{tables.message}; some catalogs have not answered yet, retrying"
            return NotStored(Transient(reason))
        return tables

    def _refresh(self, hint: LocationHint | NameHint) -> bool:
        """Discover new changelogs; for a location, poll the heads too. Return whether heads were polled.

        A recreated changelog may be in another folder, so an unknown location may be a registered table's. In a shared
        bucket most unknown locations are not: each unsuccessful poll doubles the interval. Name hints never
        trigger polls. One thread refreshes at a time; the others continue with what is known.
        """
        if self._is_due("tables", _REFRESH_SECONDS):
            self.dispatcher.registry.refresh(_CATALOG_TIMEOUT_SECONDS)
        interval = min(_REFRESH_SECONDS * 2 ** min(self._unsuccessful_polls, 10), _MAX_REFRESH_SECONDS)
        should_poll = isinstance(hint, LocationHint) and self._is_due("locations", interval)
        if should_poll:
            self.dispatcher.registry.poll_heads(_CATALOG_TIMEOUT_SECONDS)
        return should_poll

    def _is_due(self, name: str, interval_seconds: float) -> bool:
        """Return whether this refresh is due; if so, it is due again after the interval."""
        with self._refresh_lock:
            now = self.clock()
            is_due = now >= self._refresh_at.get(name, now)
            if is_due:
                self._refresh_at[name] = now + interval_seconds
        return is_due

    def _notice(self, hint_counts: Counter[str]) -> dict[str, Transient]:
        """Store one notice per table, regardless of how many hints; return the failures by table (rule 1)."""
        failures: dict[str, Transient] = {}
        registered = {table.name: table for table in self.dispatcher.registry.tables}
        for name, hint_count in sorted(hint_counts.items()):
            if name not in registered:  # its changelog was dropped in the meantime
                continue
            event = Noticed(self.dispatcher.clock(), name, scheduling_options(registered[name]))
            try:
                crash_point("notice")
                applied = apply(self.dispatcher.store, event, self.dispatcher.policy)
                crash_point("noticed")
            except Transient as error:
                failures[name] = error
                continue
            count_notices(self.dispatcher.metrics, old_table_row(applied, name), hint_count)
            with bind(table=name):
                log.info("commit noticed", hints=hint_count)
        return failures

    def _check_runs(self, runs: frozenset[str]) -> None:
        """Recover the slots of reported runs that icemirror launched, with the state that the launcher reports."""
        if not runs:
            return
        try:
            rows = self.dispatcher.store.load(ALL_ROWS)
            slots = {slot_id: slot for slot_id, slot in rows.slots.items() if _run_name(slot.run_id) in runs}
            if slots:
                self.dispatcher.recover(Rows(rows.tables, slots))
        except Transient as error:  # every sweep checks all runs again
            log.warning("reported run not checked", reason=str(error))

    def _count_refusal(self, refusal: Refusal) -> None:
        self.dispatcher.metrics.count(metric_names.REFUSED, reason=refusal.reason)


def _run_name(run_id: str | None) -> str | None:
    """Return a launcher's run id without its prefix, an application or a namespace: `application/run`."""
    return None if run_id is None else run_id.rpartition("/")[2]


def _add_failure(outcome: IngestOutcome, failures: Mapping[str, Transient]) -> IngestOutcome:
    """Return the outcome, or the failure to notice one of its tables."""
    if not isinstance(outcome, Accepted):
        return outcome
    failed_tables = sorted(outcome.tables & failures.keys())
    return NotStored(failures[failed_tables[0]]) if failed_tables else outcome
