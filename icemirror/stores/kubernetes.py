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
from icemirror.protocol.row_selection import RowSelection
from icemirror.protocol.rows import Row, Rows, TableRow
from icemirror.settings.trigger import KubernetesState
from icemirror.stores.dead_letters import MAX_LETTERS, DeadLetter, dump_letter, load_letter
from icemirror.stores.kubernetes_api import CONFLICT, NOT_FOUND, ApiCalls, ExpectedStatus, open_client
from icemirror.stores.letter_index import LetterIndex
from icemirror.stores.result_ring import append_result, dump_ring, is_newer_version, load_ring, results_after
from icemirror.stores.store import SLOT, TABLE, ResultPage, TurnResult, keys_by_kind, row_key
from icemirror.stores.stored_json import dump_row, load_slot, load_table

LABEL = "icemirror/kind"
_LETTER, _RESULTS = "letter", "results"
_LETTERS = "letters"  # one object: the index of dead letters
_CHANGES = "bell"  # one object (its stored name): changes when a table has started to wait
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
            read=lambda: self._read_single(_LETTERS),
            write=lambda revision, body: self._write(_LETTERS, _object_name(_LETTERS), revision, body),
            read_arrival_times=lambda: [(letter.id, letter.received_at) for letter in self.letters()],
            delete=self._delete_letter,
            max_letters=kept_letters,
        )
        self._call = calls or ApiCalls(namespace)

    def load(self, selection: RowSelection) -> Rows:
        """Return the selected rows that exist."""
        selected = keys_by_kind(selection)
        kinds_to_list = [
            kind for kind, keys in selected.items() if keys is None or len(keys) > _MAX_SINGLE_GETS
        ]
        config_maps = self._list(kinds_to_list) if kinds_to_list else []
        for kind, keys in selected.items():
            if kind not in kinds_to_list:
                single_maps = (self._get(_object_name(kind, key)) for key in keys or ())
                config_maps += [config_map for config_map in single_maps if config_map is not None]
        tables = [
            load_table(*self._read_row(config_map))
            for config_map in config_maps
            if _kind(config_map) == TABLE
        ]
        slots = [
            load_slot(*self._read_row(config_map)) for config_map in config_maps if _kind(config_map) == SLOT
        ]
        return Rows(
            {row.name: row for row in tables if selection.tables is None or row.name in selection.tables},
            {row.id: row for row in slots if selection.slots is None or row.id in selection.slots},
        )

    def compare_and_set(self, row: Row) -> bool:
        """Write the row if the stored one still has its revision."""
        kind, key = row_key(row)
        is_written = self._write(kind, _object_name(kind, key), row.revision, dump_row(row))
        if is_written and isinstance(row, TableRow) and is_waiting(row):
            self._renew_change_token()
        return is_written

    def change_token(self) -> str:
        """Return the token of the last time that a table started to wait."""
        return _text(self._get(_object_name(_CHANGES)), "write")

    def record_result(self, result: TurnResult) -> None:
        """Append to the table's history and drop its oldest results."""
        for _ in range(_MAX_ATTEMPTS):
            body, revision = self._read_single(_RESULTS)
            if is_newer_version(body):
                return
            ring = append_result(load_ring(body), result, self._kept_results, _MAX_RESULT_BYTES)
            if self._write(_RESULTS, _object_name(_RESULTS), revision, dump_ring(ring)):
                return
        raise Transient(
            f"result not recorded: the state kept changing; try again. Namespace: {self._namespace}"
        )

    def results_since(self, cursor: str) -> ResultPage:
        """Return the results of all tables after the cursor."""
        return results_after(load_ring(self._read_single(_RESULTS)[0]), cursor)

    def last_cursor(self) -> str:
        """Return the cursor after the newest result."""
        ring = load_ring(self._read_single(_RESULTS)[0])
        return str(ring[-1].number) if ring else ""

    def put_letter(self, letter: DeadLetter) -> None:
        """Store a dead letter and drop those above the limits."""
        if not self._letters.add(letter):
            return
        name = _object_name(_LETTER, letter.id)
        for _ in range(_MAX_ATTEMPTS):
            revision = _revision(self._get(name))
            if self._write(_LETTER, name, revision, dump_letter(letter)):
                return
        raise Transient(
            f"dead letter not stored: the state kept changing; try again. Namespace: {self._namespace}"
        )

    def letters(self) -> tuple[DeadLetter, ...]:
        """Return all dead letters, oldest first."""
        letters = [
            load_letter(_letter_id(config_map), _text(config_map, "body"))
            for config_map in self._list([_LETTER])
        ]
        return tuple(sorted(letters, key=lambda letter: (letter.received_at, letter.id)))

    def remove_letter(self, letter_id: str) -> bool:
        """Delete a dead letter; return whether it existed."""
        existed = self._delete_letter(letter_id)
        self._letters.remove(letter_id)
        return existed

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, kind: str, name: str, expected_revision: str, body: str) -> bool:
        """Write an object if the stored one has this revision ("": none stored); return whether it was written.

        `write` identifies this write, so that a repeated request whose first response was lost recognizes itself.
        """
        write_id = uuid4().hex
        config_map = self._new_object(kind, name, expected_revision, {"body": body, "write": write_id})
        if expected_revision:
            response = self._call(lambda: self._client.replace(config_map), CONFLICT, NOT_FOUND)
        else:
            response = self._call(lambda: self._client.create(config_map), CONFLICT)
        if not isinstance(response, ExpectedStatus):
            return True
        stored = self._get(name)
        return stored is not None and _text(stored, "write") == write_id

    def _renew_change_token(self) -> None:
        """Change the token for lingering workers. Best effort: they also poll from time to time."""
        with suppress(IcemirrorError):
            data = {"write": uuid4().hex}
            config_map = self._new_object(_CHANGES, _object_name(_CHANGES), "", data)
            response = self._call(lambda: self._client.replace(config_map), NOT_FOUND)
            if isinstance(response, ExpectedStatus):
                self._call(lambda: self._client.create(config_map), CONFLICT)

    def _new_object(self, kind: str, name: str, revision: str, data: dict[str, str]) -> ConfigMap:
        labels = {LABEL: kind, "app.kubernetes.io/managed-by": "icemirror"}
        metadata = ObjectMeta(
            name=name, namespace=self._namespace, labels=labels, resourceVersion=revision or None
        )
        return ConfigMap(metadata=metadata, data=data)

    def _get(self, name: str) -> ConfigMap | None:
        response = self._call(lambda: self._client.get(ConfigMap, name, namespace=self._namespace), NOT_FOUND)
        return None if isinstance(response, ExpectedStatus) else response

    def _list(self, kinds: Iterable[str]) -> list[ConfigMap]:
        kind_filter = in_(sorted(kinds))
        response = self._call(
            lambda: list(self._client.list(ConfigMap, namespace=self._namespace, labels={LABEL: kind_filter}))
        )
        return [] if isinstance(response, ExpectedStatus) else response

    def _delete_letter(self, letter_id: str) -> bool:
        name = _object_name(_LETTER, letter_id)
        response = self._call(
            lambda: self._client.delete(ConfigMap, name, namespace=self._namespace), NOT_FOUND
        )
        return not isinstance(response, ExpectedStatus)

    def _read_single(self, kind: str) -> tuple[str, str]:
        """Return body and revision of the only object of a kind; both empty if there is none."""
        config_map = self._get(_object_name(kind))
        return _text(config_map, "body"), _revision(config_map)

    def _read_row(self, config_map: ConfigMap) -> tuple[str, str]:
        """Return body and revision of a row."""
        body, revision = _text(config_map, "body"), _revision(config_map)
        if body and revision:
            return body, revision
        name = config_map.metadata.name if config_map.metadata else "?"
        raise Invalid(
            "a ConfigMap of the state is damaged: it has no `body`. Delete it; the next sweep finds all pending "
            f"work. ConfigMap: {self._namespace}/{name}"
        )


def open_kubernetes_store(state: KubernetesState) -> KubernetesStore:
    """Open the store of these settings."""
    return KubernetesStore(open_client(state), state.namespace)


def _object_name(kind: str, key: str = "") -> str:
    """Return a valid object name: the readable part of the key, and a hash that makes it unique."""
    if kind in (_RESULTS, _LETTERS, _CHANGES):
        return f"icemirror-{kind}"
    slug = re.sub(r"[^a-z0-9]+", "-", key.lower())[:_NAME_CHARACTERS].strip("-")
    if kind == _LETTER:  # its key is a hash already
        return f"icemirror-letter-{slug}"
    return f"icemirror-{kind}-{slug}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _kind(config_map: ConfigMap) -> str | None:
    labels = config_map.metadata.labels if config_map.metadata else None
    return (labels or {}).get(LABEL)


def _revision(config_map: ConfigMap | None) -> str:
    return (config_map.metadata.resourceVersion or "") if config_map and config_map.metadata else ""


def _text(config_map: ConfigMap | None, name: str) -> str:
    return ((config_map.data or {}).get(name) or "") if config_map else ""


def _letter_id(config_map: ConfigMap) -> str:
    name = (config_map.metadata.name or "") if config_map.metadata else ""
    return name.removeprefix("icemirror-letter-")
