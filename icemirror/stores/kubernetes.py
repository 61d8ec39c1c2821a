"""State in the ConfigMaps of one namespace: one per row, compared by `resourceVersion`.

Why ConfigMaps: docs/decisions/0009-state-rows-are-configmaps.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Self
from uuid import uuid4

from lightkube import Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.operators import in_
from lightkube.resources.core_v1 import ConfigMap

from icemirror.errors import IcemirrorError, Invalid, Transient
from icemirror.protocol.due_tables import is_waiting
from icemirror.protocol.reads import Reads
from icemirror.protocol.rows import Row, Rows, TableRow
from icemirror.settings.trigger import KubernetesState
from icemirror.stores.dead_letters import MAX_LETTERS, DeadLetter, dump_letter, load_letter
from icemirror.stores.kubernetes_api import CONFLICT, NOT_FOUND, ApiCalls, open_client
from icemirror.stores.letter_index import LetterIndex
from icemirror.stores.result_ring import append_result, dump_ring, is_newer_version, load_ring, results_after
from icemirror.stores.store import ResultPage, RunResult
from icemirror.stores.stored_json import dump_row, load_slot, load_table

LABEL = "icemirror/kind"
_TABLE, _SLOT, _LETTER, _RESULTS = "table", "slot", "letter", "results"
_LETTERS = "letters"  # one object: the index of dead letters
_CHANGES = "bell"  # one object: changes when a table has started to wait
_MAX_RESULTS_PER_TABLE = 20
_MAX_RESULT_BYTES = 64_000  # rewritten with every result, so far below the limit of an object
_MAX_SINGLE_GETS = 4
_MAX_ATTEMPTS = 50
_NAME_CHARACTERS = 80


class KubernetesStore:
    """A store in the ConfigMaps of one namespace; all reads are consistent."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        kept_results: int = _MAX_RESULTS_PER_TABLE,
        kept_letters: int = MAX_LETTERS,
        calls: ApiCalls | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._kept_results = kept_results
        self._letters = LetterIndex(
            read=lambda: self._read(_LETTERS),
            write=lambda seen, body: self._write(_LETTERS, _name(_LETTERS), seen, body),
            times=lambda: [(letter.id, letter.received_at) for letter in self.letters()],
            delete=self._delete_letter,
            max_letters=kept_letters,
        )
        self._call = calls or ApiCalls(namespace)

    def load(self, reads: Reads) -> Rows:
        """Return the requested rows that exist."""
        wanted = {
            _TABLE: None if reads.tables is None else sorted(reads.tables),
            _SLOT: None if reads.slots is None else [str(slot) for slot in sorted(reads.slots)],
        }
        listed = [kind for kind, keys in wanted.items() if keys is None or len(keys) > _MAX_SINGLE_GETS]
        found = self._list(listed) if listed else []
        for kind, keys in wanted.items():
            if kind not in listed:
                got = (self._get(_name(kind, key)) for key in keys or ())
                found += [stored for stored in got if stored is not None]
        tables = [load_table(*self._stored(stored)) for stored in found if _kind(stored) == _TABLE]
        slots = [load_slot(*self._stored(stored)) for stored in found if _kind(stored) == _SLOT]
        return Rows(
            {row.name: row for row in tables if reads.tables is None or row.name in reads.tables},
            {row.id: row for row in slots if reads.slots is None or row.id in reads.slots},
        )

    def compare_and_set(self, row: Row) -> bool:
        """Write the row if the stored one still has its revision."""
        kind, key = (_TABLE, row.name) if isinstance(row, TableRow) else (_SLOT, str(row.id))
        done = self._write(kind, _name(kind, key), row.revision, dump_row(row))
        if done and isinstance(row, TableRow) and is_waiting(row):
            self._renew_change_token()
        return done

    def change_token(self) -> str:
        """Return the token of the last time that a table started to wait."""
        return _text(self._get(_name(_CHANGES)), "write")

    def record_result(self, result: RunResult) -> None:
        """Append to the table's history and drop its oldest results."""
        for _ in range(_MAX_ATTEMPTS):
            body, revision = self._read(_RESULTS)
            if is_newer_version(body):
                return
            longer = append_result(load_ring(body), result, self._kept_results, _MAX_RESULT_BYTES)
            if self._write(_RESULTS, _name(_RESULTS), revision, dump_ring(longer)):
                return
        raise Transient(
            f"result not recorded: the state kept changing; try again. Namespace: {self._namespace}"
        )

    def results_since(self, cursor: str) -> ResultPage:
        """Return the results of all tables after the cursor."""
        return results_after(load_ring(self._read(_RESULTS)[0]), cursor)

    def last_cursor(self) -> str:
        """Return the cursor after the newest result."""
        ring = load_ring(self._read(_RESULTS)[0])
        return str(ring[-1].number) if ring else ""

    def put_letter(self, letter: DeadLetter) -> None:
        """Store a dead letter and drop those above the limits."""
        if not self._letters.admit(letter):
            return
        name = _name(_LETTER, letter.id)
        for _ in range(_MAX_ATTEMPTS):
            found = self._get(name)
            if self._write(_LETTER, name, _revision(found), dump_letter(letter)):
                return
        raise Transient(
            f"dead letter not stored: the state kept changing; try again. Namespace: {self._namespace}"
        )

    def letters(self) -> tuple[DeadLetter, ...]:
        """Return all dead letters, oldest first."""
        found = [load_letter(_letter_id(stored), _text(stored, "body")) for stored in self._list([_LETTER])]
        return tuple(sorted(found, key=lambda letter: (letter.received_at, letter.id)))

    def remove_letter(self, letter_id: str) -> bool:
        """Delete a dead letter; return whether it existed."""
        existed = self._delete_letter(letter_id)
        self._letters.forget(letter_id)
        return existed

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, kind: str, name: str, seen: str, body: str) -> bool:
        """Write an object if the stored one has the version `seen` ("": none stored); return whether it was written.

        `write` identifies this write, so that a repeated request whose first response was lost recognizes itself.
        """
        write = uuid4().hex
        new = self._new_object(kind, name, seen, {"body": body, "write": write})
        if seen:
            response = self._call(lambda: self._client.replace(new), CONFLICT, NOT_FOUND)
        else:
            response = self._call(lambda: self._client.create(new), CONFLICT)
        if not isinstance(response, int):
            return True
        found = self._get(name)
        return found is not None and _text(found, "write") == write

    def _renew_change_token(self) -> None:
        """Change the token for lingering workers. Best effort: they also poll from time to time."""
        with suppress(IcemirrorError):
            new = self._new_object(_CHANGES, _name(_CHANGES), "", {"write": uuid4().hex})
            if self._call(lambda: self._client.replace(new), NOT_FOUND) == NOT_FOUND:
                self._call(lambda: self._client.create(new), CONFLICT)

    def _new_object(self, kind: str, name: str, seen: str, data: dict[str, str]) -> ConfigMap:
        labels = {LABEL: kind, "app.kubernetes.io/managed-by": "icemirror"}
        metadata = ObjectMeta(
            name=name, namespace=self._namespace, labels=labels, resourceVersion=seen or None
        )
        return ConfigMap(metadata=metadata, data=data)

    def _get(self, name: str) -> ConfigMap | None:
        found = self._call(lambda: self._client.get(ConfigMap, name, namespace=self._namespace), NOT_FOUND)
        return None if isinstance(found, int) else found

    def _list(self, kinds: Iterable[str]) -> list[ConfigMap]:
        wanted = in_(sorted(kinds))
        found = self._call(
            lambda: list(self._client.list(ConfigMap, namespace=self._namespace, labels={LABEL: wanted}))
        )
        return [] if isinstance(found, int) else found

    def _delete_letter(self, letter_id: str) -> bool:
        name = _name(_LETTER, letter_id)
        response = self._call(
            lambda: self._client.delete(ConfigMap, name, namespace=self._namespace), NOT_FOUND
        )
        return response != NOT_FOUND

    def _read(self, kind: str) -> tuple[str, str]:
        """Return body and version of the only object of a kind; both empty if there is none."""
        found = self._get(_name(kind))
        return _text(found, "body"), _revision(found)

    def _stored(self, found: ConfigMap) -> tuple[str, str]:
        """Return body and revision of a row."""
        body, revision = _text(found, "body"), _revision(found)
        if body and revision:
            return body, revision
        name = found.metadata.name if found.metadata else "?"
        raise Invalid(
            "a ConfigMap of the state is damaged: it has no `body`. Delete it; the next sweep finds all pending "
            f"work. ConfigMap: {self._namespace}/{name}"
        )


def open_kubernetes_store(state: KubernetesState) -> KubernetesStore:
    """Open the store of these settings."""
    return KubernetesStore(open_client(state), state.namespace)


def _name(kind: str, key: str = "") -> str:
    """Return a valid object name: the readable part of the key, and a hash that makes it unique."""
    if kind in (_RESULTS, _LETTERS, _CHANGES):
        return f"icemirror-{kind}"
    legible = re.sub(r"[^a-z0-9]+", "-", key.lower())[:_NAME_CHARACTERS].strip("-")
    if kind == _LETTER:  # its key is a hash already
        return f"icemirror-letter-{legible}"
    return f"icemirror-{kind}-{legible}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _kind(found: ConfigMap) -> str | None:
    labels = found.metadata.labels if found.metadata else None
    return (labels or {}).get(LABEL)


def _revision(found: ConfigMap | None) -> str:
    return (found.metadata.resourceVersion or "") if found and found.metadata else ""


def _text(found: ConfigMap | None, name: str) -> str:
    return ((found.data or {}).get(name) or "") if found else ""


def _letter_id(found: ConfigMap) -> str:
    name = (found.metadata.name or "") if found.metadata else ""
    return name.removeprefix("icemirror-letter-")
