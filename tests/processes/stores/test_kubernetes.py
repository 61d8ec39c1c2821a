"""The Kubernetes store: conformance on a fake API server, and the errors of its failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.protocol.row_selection import ALL_ROWS, NO_SLOTS, RowSelection
from icemirror.protocol.rows import SlotRow, TableRow
from icemirror.result import TableResult
from icemirror.settings.trigger import KubernetesState
from icemirror.stores.dead_letters import new_letter
from icemirror.stores.kubernetes import KubernetesStore, open_kubernetes_store
from icemirror.stores.kubernetes_api import ApiCalls
from icemirror.stores.store import TurnResult
from tests.processes.stores.fake_kubernetes import (
    Answer,
    FakeCluster,
    fake_kubernetes,
    open_kubeconfig,
    refusal,
    write_kubeconfig,
)
from tests.processes.stores.store_suite import OpenStore, StoreSuite
from tests.unit.icemirror.protocol.samples import SLOT
from tests.unit.icemirror.stores.stored_rows import SLOT_ROW, STORED, TABLE


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, FakeCluster]]:
    with fake_kubernetes(tmp_path) as running:
        yield running


@pytest.fixture
def cluster(server: tuple[Path, FakeCluster]) -> FakeCluster:
    return server[1]


@pytest.fixture
def store(server: tuple[Path, FakeCluster]) -> Iterator[KubernetesStore]:
    with open_kubeconfig(server[0]) as opened:
        yield opened


class TestKubernetesStore(StoreSuite):
    NOTICES = 15

    @pytest.fixture(autouse=True)
    def _server(self, server: tuple[Path, FakeCluster]) -> None:
        self.kubeconfig = server[0]

    def opener(self) -> OpenStore:
        return partial(
            open_kubeconfig, self.kubeconfig, kept_results=self.KEPT_RESULTS, kept_letters=self.KEPT_LETTERS
        )


def test_rows_have_readable_object_names(store: KubernetesStore, cluster: FakeCluster) -> None:
    store.compare_and_set(TableRow("Shop.Order_Items"))
    store.compare_and_set(SlotRow(SLOT))
    names = sorted(name for _, name in cluster.objects)
    assert names[0].startswith("icemirror-slot-default-0-")
    assert names[1].startswith("icemirror-table-shop-order-items-")
    labels = cluster.objects["icemirror", names[1]]["metadata"]["labels"]
    assert labels == {"icemirror/kind": "table", "app.kubernetes.io/managed-by": "icemirror"}


def test_tables_with_similar_names_are_two_rows(store: KubernetesStore) -> None:
    for name in ("shop.a_b", "shop.a-b", "Shop.a.b", "täble", "x" * 300):
        assert store.compare_and_set(TableRow(name))
    assert len(store.load(ALL_ROWS).tables) == 5


def test_many_rows_are_loaded_with_one_request(store: KubernetesStore, cluster: FakeCluster) -> None:
    names = frozenset(f"t{number}" for number in range(20))
    for name in (*names, "other"):
        store.compare_and_set(TableRow(name))
    cluster.requests.clear()
    assert set(store.load(RowSelection(names, NO_SLOTS)).tables) == names
    assert cluster.requests == ["GET"]


def test_rows_that_version_1_wrote_still_load(store: KubernetesStore, cluster: FakeCluster) -> None:
    store.compare_and_set(TableRow(TABLE.name))
    (written,) = (name for _, name in cluster.objects)
    cluster.put(written, "table", body=json.dumps(STORED["table"]))
    cluster.put("any-slot", "slot", body=json.dumps(STORED["slot"]))
    rows = store.load(ALL_ROWS)
    assert (rows.tables, rows.slots) == ({TABLE.name: TABLE}, {SLOT: SLOT_ROW})
    assert store.compare_and_set(rows.tables[TABLE.name])


def test_row_of_a_newer_version_is_refused_with_a_remedy(
    store: KubernetesStore, cluster: FakeCluster
) -> None:
    cluster.put("it", "table", body='{"version": 2, "name": "t"}')
    with pytest.raises(Invalid, match=r"version 2.*Upgrade"):
        store.load(ALL_ROWS)


def test_object_without_a_row_is_reported(store: KubernetesStore, cluster: FakeCluster) -> None:
    cluster.put("hollow", "table", other="x")
    with pytest.raises(Invalid, match=r"damaged.*Delete it.*hollow"):
        store.load(ALL_ROWS)


def test_object_with_an_invalid_row_is_reported(store: KubernetesStore, cluster: FakeCluster) -> None:
    cluster.put("torn", "slot", body="{")
    with pytest.raises(Invalid, match=r"damaged.*Delete the row"):
        store.load(ALL_ROWS)


def test_deleted_row_cannot_be_replaced(store: KubernetesStore, cluster: FakeCluster) -> None:
    store.compare_and_set(TableRow("t", dirty=1))
    seen = store.load(ALL_ROWS).tables["t"]
    cluster.objects.clear()
    assert not store.compare_and_set(seen)
    assert store.compare_and_set(TableRow("t", dirty=1))


def test_retried_write_with_a_lost_response_counts_as_written(
    store: KubernetesStore, cluster: FakeCluster
) -> None:
    lost: list[str] = []

    def lose_first_write(method: str, answer: Callable[[], Answer]) -> Answer | None:
        if method in ("POST", "PUT") and method not in lost:
            lost.append(method)
            answer()
            return None
        return answer()

    cluster.fault = lose_first_write
    assert store.compare_and_set(TableRow("t", covered=1))
    found = store.load(ALL_ROWS).tables["t"]
    assert lost == ["POST"]
    assert store.compare_and_set(TableRow("t", covered=2, revision=found.revision))
    assert lost == ["POST", "PUT"]
    assert not store.compare_and_set(TableRow("t", covered=3, revision=found.revision))


def refuse(code: int, message: str, times: int) -> Callable[[str, Callable[[], Answer]], Answer]:
    left = [times]

    def fault(method: str, answer: Callable[[], Answer]) -> Answer:
        if left[0] == 0:
            return answer()
        left[0] -= 1
        return refusal(code, message)

    return fault


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_transient_failure_is_retried_until_it_succeeds(
    store: KubernetesStore, cluster: FakeCluster, code: int
) -> None:
    cluster.fault = refuse(code, "later", 1)
    assert store.compare_and_set(TableRow("t"))


@pytest.mark.parametrize(
    ("code", "message", "kind", "words"),
    [
        (429, "too many requests", Transient, "try again"),
        (503, "apiserver is shutting down", Transient, "try again"),
        (401, "Unauthorized", Invalid, "get, list, create, update and delete of configmaps"),
        (403, "configmaps is forbidden", Invalid, r"as in infra/kubernetes/base/state-role\.yaml"),
        (413, "Request entity too large", Invalid, "exceeds the limit of 1 MB"),
        (500, "etcdserver: request is too large", Invalid, "exceeds the limit of 1 MB"),
        (422, "metadata.name: Invalid value", Invalid, "refused a request"),
    ],
)
def test_failures_have_a_remedy(
    store: KubernetesStore, cluster: FakeCluster, code: int, message: str, kind: type[Exception], words: str
) -> None:
    cluster.fault = refuse(code, message, -1)
    with pytest.raises(kind, match=words):
        store.load(ALL_ROWS)


def test_invalid_response_is_transient(server: tuple[Path, FakeCluster]) -> None:
    server[1].fault = lambda method, answer: None
    with open_kubeconfig(server[0], attempts=2) as store, pytest.raises(Transient, match="did not respond"):
        store.load(ALL_ROWS)


def test_incomplete_response_is_transient() -> None:
    calls: list[int] = []

    def incomplete_response() -> object:
        calls.append(1)
        return httpx2.Response(200, content=b'{"kind": "ConfigMap", "data": {"bo').json()

    with pytest.raises(Transient, match="did not respond"):
        ApiCalls("icemirror", attempts=3, sleep=lambda _: None)(incomplete_response)
    assert len(calls) == 3


def test_row_that_is_too_large_is_reported(store: KubernetesStore) -> None:
    with pytest.raises(Invalid, match="exceeds the limit of 1 MB"):
        store.compare_and_set(TableRow("t", noticed_head="x" * 1_100_000))


def test_missing_namespace_is_reported_with_a_remedy(server: tuple[Path, FakeCluster]) -> None:
    with (
        open_kubeconfig(server[0], "nowhere") as store,
        pytest.raises(Invalid, match=r"namespace does not exist .*create it.*nowhere"),
    ):
        store.compare_and_set(TableRow("t"))


def test_unreachable_server_is_transient(tmp_path: Path) -> None:
    unreachable = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    with (
        open_kubeconfig(unreachable, attempts=2) as store,
        pytest.raises(Transient, match=r"did not respond.*Connect"),
    ):
        store.load(ALL_ROWS)


def test_new_letter_is_stored_without_reading_others(
    store: KubernetesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_letter(new_letter("sqs", "r", 0.0, "the first one makes the index"))
    with monkeypatch.context() as patch:
        patch.setattr(store, "_list", lambda kinds: pytest.fail(f"{kinds} are read"))
        for at in range(8):
            store.put_letter(new_letter("sqs", "r", float(at), f"event {at}"))
    assert [letter.received_at for letter in store.letters()] == [4.0, 5.0, 6.0, 7.0]


def test_unreadable_results_are_ignored(store: KubernetesStore, cluster: FakeCluster) -> None:
    cluster.put("icemirror-results", "results", body="{")
    assert store.results_since("").results == ()
    assert store.last_cursor() == ""


def test_results_of_a_newer_release_are_not_changed(store: KubernetesStore, cluster: FakeCluster) -> None:
    newer = '{"version": 2, "rings": []}'
    cluster.put("icemirror-results", "results", body=newer)
    store.record_result(TurnResult("r", 1.0, TableResult(table="t", outcome="merged", seconds=1.0)))
    assert cluster.objects["icemirror", "icemirror-results"]["data"]["body"] == newer
    assert store.results_since("").results == ()


def test_unreadable_letter_can_be_removed(store: KubernetesStore, cluster: FakeCluster) -> None:
    cluster.put("icemirror-letter-abc", "letter", body="{")
    (letter,) = store.letters()
    assert "unreadable letter" in letter.reason
    assert store.remove_letter(letter.id)
    assert store.letters() == ()


def test_letter_id_cannot_address_another_object(store: KubernetesStore, cluster: FakeCluster) -> None:
    cluster.put("victim", "table", body="{}")
    assert not store.remove_letter("x/../victim")
    assert ("icemirror", "victim") in cluster.objects


def test_missing_cluster_is_a_configuration_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(BadConfig, match="set KUBECONFIG"):
        open_kubernetes_store(KubernetesState(type="kubernetes", namespace="icemirror"))


def test_store_is_opened_from_the_configuration(
    server: tuple[Path, FakeCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from icemirror.config_file.load import load_settings
    from icemirror.stores.from_settings import open_store, read_rows

    monkeypatch.setenv("KUBECONFIG", str(server[0]))
    (tmp_path / "icemirror.yaml").write_text(
        "iceberg: {catalog: {type: sql, uri: 'sqlite:////x.db', warehouse: 'file:///x'}}\n"
        "tables: [{changelog: shop.t_changelog, mirror: shop.t}]\n"
        "trigger: {state: {type: kubernetes, namespace: icemirror}}\n"
    )
    settings = load_settings(tmp_path / "icemirror.yaml", {})
    with open_store(settings) as opened:
        assert opened.compare_and_set(TableRow("t", dirty=1))
        opened.put_letter(new_letter("sqs", "r", 1.0, "event"))
    assert read_rows(settings).tables["t"].dirty == 1
