"""Takes events in: normalise, find the tables, notice. What cannot be understood becomes a dead letter."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from icemirror.crash import reach
from icemirror.errors import IcemirrorError, Transient
from icemirror.state.apply import apply
from icemirror.state.events import Noticed
from icemirror.state.letters import Letter, write_letter
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import Rows, TableRow
from icemirror.state.terms import terms_of
from icemirror.telemetry import names
from icemirror.telemetry.logs import bind, get_log
from trigger.fleet import Fleet
from trigger.sources.hints import Hint, LocationHint, NameHint, RunHint
from trigger.sources.normalise import normalise
from trigger.sources.refused import NOT_OURS, Refused

_LEARN_SECONDS = 30.0
_MOST_LEARN_SECONDS = 600.0
_PATIENCE_SECONDS = 20.0

log = get_log(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """An event that was used: the tables that were noticed, none where it was of no interest."""

    tables: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()


Outcome = Taken | IcemirrorError
"""`Refused`: never to be used. `Transient`: not stored, let it come again."""


@dataclass
class Intake:
    """Any number of threads may call it. When `take` returns, the notices of what it says was taken are stored."""

    fleet: Fleet
    clock: Callable[[], float] = time.monotonic
    _learn_at: dict[str, float] = field(default_factory=dict)
    _vain_looks: int = 0
    _learning: threading.Lock = field(default_factory=threading.Lock)

    def take(self, bodies: Sequence[bytes]) -> list[Outcome]:
        """What became of each event. Many events for one table are one write."""
        outcomes = [self._read(body) for body in bodies]
        taken = [outcome for outcome in outcomes if isinstance(outcome, Taken)]
        failed = self._notice(Counter(table for one in taken for table in one.tables))
        self._look_after(frozenset(run for one in taken for run in one.runs))
        return [_after(outcome, failed) for outcome in outcomes]

    def bury(self, source: str, body: bytes, refused: Refused) -> None:
        """Keeps an event that cannot be understood as a dead letter. One about other people's tables is none."""
        if refused.reason in NOT_OURS:
            return
        self.fleet.store.put_letter(write_letter(source, str(refused), self.fleet.clock(), body))
        self.fleet.metrics.count(names.DEAD_LETTERS)
        log.warning("event refused, kept as a dead letter", source=source, reason=str(refused))

    def redrive(self, letter: Letter) -> None:
        """Takes a dead letter as its source would now; the error says why it still cannot be used."""
        (outcome,) = self.take([letter.body.encode()])
        if isinstance(outcome, IcemirrorError):
            raise outcome

    def _read(self, body: bytes) -> Outcome:
        try:
            return self._resolve(normalise(body))
        except Refused as refused:
            self._count(refused)
            return refused
        except Transient as error:
            return error

    def _resolve(self, hints: Sequence[Hint]) -> Outcome:
        """The tables of all hints; refused only where not one of them is ours."""
        tables: set[str] = set()
        runs: set[str] = set()
        refusals: list[Refused] = []
        for hint in hints:
            if isinstance(hint, RunHint):
                runs.add(hint.run_id)
                continue
            try:
                tables |= self._find(hint)
            except Refused as refused:
                refusals.append(refused)
        if refusals and not tables and not runs:
            raise refusals[0]
        for other in refusals:
            self._count(other)
        return Taken(frozenset(tables), frozenset(runs))

    def _find(self, hint: LocationHint | NameHint) -> frozenset[str]:
        registry = self.fleet.registry
        with suppress(Refused):
            return registry.directory.find(hint)
        looked = self._learn(hint)
        try:
            found = registry.directory.find(hint)
        except Refused as refused:
            # A catalog that is away tells of no place: it is asked again as soon as ever.
            self._vain_looks += looked and not registry.lacks_places
            if isinstance(hint, LocationHint) and registry.lacks_places:
                raise Transient(f"{refused}; but not all places are known yet") from None
            raise
        if looked:
            self._vain_looks = 0
        return found

    def _learn(self, hint: LocationHint | NameHint) -> bool:
        """Looks for new changelogs, and for a place at the heads: a changelog made anew may lie in another folder.

        One thread at a time, the others go on with what is known. Names have no part in how often places are looked
        up, nor may anybody's events have them looked up more often: where others write to the same bucket, mirrors
        among them, most places are nobody's, and the looks become fewer.
        """
        if self._is_time("tables", _LEARN_SECONDS):
            self.fleet.registry.refresh(_PATIENCE_SECONDS)
        wait = min(_LEARN_SECONDS * 2 ** min(self._vain_looks, 10), _MOST_LEARN_SECONDS)
        looks = isinstance(hint, LocationHint) and self._is_time("places", wait)
        if looks:
            self.fleet.registry.heads(_PATIENCE_SECONDS)
        return looks

    def _is_time(self, what: str, wait_seconds: float) -> bool:
        with self._learning:
            now = self.clock()
            due = now >= self._learn_at.get(what, now)
            if due:
                self._learn_at[what] = now + wait_seconds
        return due

    def _notice(self, hints: Counter[str]) -> dict[str, Transient]:
        """1. One notice for each table, however many hints; the tables whose notice could not be stored."""
        failed: dict[str, Transient] = {}
        known = {table.name: table for table in self.fleet.registry.tables}
        for name, count in sorted(hints.items()):
            if name not in known:  # its changelog was dropped just now
                continue
            event = Noticed(self.fleet.clock(), name, terms_of(known[name]))
            try:
                reach("notice")
                applied = apply(self.fleet.store, event, self.fleet.policy)
                reach("noticed")
            except Transient as error:
                failed[name] = error
                continue
            before = applied.before if isinstance(applied.before, TableRow) else TableRow(name)
            joined = count if before.dirty > before.covered else count - 1
            self.fleet.metrics.count(names.NOTICES, count, table=name)
            if joined:
                self.fleet.metrics.count(names.COALESCED, joined, table=name)
            with bind(table=name):
                log.info("told of a commit", hints=count)
        return failed

    def _look_after(self, runs: frozenset[str]) -> None:
        """Asks the launcher about runs that are ours; what becomes of them is `step`'s to say."""
        if not runs:
            return
        try:
            rows = self.fleet.store.load(EVERYTHING)
            ours = {key: slot for key, slot in rows.slots.items() if _run_name(slot.run_id) in runs}
            if ours:
                self.fleet.recover(Rows(rows.tables, ours))
        except Transient as error:  # runs are asked after from time to time anyway
            log.warning("could not check on a reported run", reason=str(error))

    def _count(self, refused: Refused) -> None:
        self.fleet.metrics.count(names.REFUSED, reason=refused.reason)


def _run_name(run_id: str | None) -> str | None:
    """A launcher's run id may begin with an application or a namespace: `application/run`."""
    return None if run_id is None else run_id.rpartition("/")[2]


def _after(outcome: Outcome, failed: dict[str, Transient]) -> Outcome:
    """The outcome, unless one of its tables could not be noticed."""
    if not isinstance(outcome, Taken):
        return outcome
    return next((failed[table] for table in sorted(outcome.tables) if table in failed), outcome)
