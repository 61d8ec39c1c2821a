"""State on a real Kubernetes API server, with a service account that has only the shipped permissions."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from lightkube import Client, KubeConfig
from lightkube.resources.core_v1 import ConfigMap, Secret

from icemirror.errors import Invalid
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import TableRow
from icemirror.stores.dead_letters import new_letter
from icemirror.stores.kubernetes import KubernetesStore
from tests.processes.stores.fake_kubernetes import open_kubeconfig
from tests.processes.stores.store_suite import OpenStore, StoreSuite
from tests.services.kube_apiserver import KubeApiServer, kube_apiserver

MANIFESTS = Path(__file__).parents[2] / "infra" / "kubernetes" / "base"
NAMESPACE, ACCOUNT = "icemirror", "icemirror-trigger"
VERBS = ["get", "list", "create", "update", "delete"]
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles"

pytestmark = pytest.mark.timeout(3000)  # the first run builds the server


@pytest.fixture(scope="module")
def server(start: Callable[[str, Any], KubeApiServer]) -> KubeApiServer:
    running = start("kubernetes", kube_apiserver)
    listed = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    for name in listed:
        running.apply(MANIFESTS / name)
    wait_until(running, "get", allowed=True)
    return running


def wait_until(server: KubeApiServer, verb: str, *, allowed: bool) -> None:
    """RBAC applies a changed role with a short delay."""
    end = time.monotonic() + 30
    while server.allows(ACCOUNT, NAMESPACE, verb, "configmaps") is not allowed:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def account(server: KubeApiServer) -> Path:
    """Return a kubeconfig of the trigger's account, after deleting the objects of other tests."""
    server.call("DELETE", CONFIG_MAPS)
    return server.kubeconfig(server.token(NAMESPACE, ACCOUNT))


@pytest.fixture
def store(account: Path) -> Iterator[KubernetesStore]:
    with open_kubeconfig(account) as opened:
        yield opened


class TestKubernetesStoreOnAServer(StoreSuite):
    @pytest.fixture(autouse=True)
    def _account(self, account: Path) -> None:
        self.account = account

    def opener(self) -> OpenStore:
        return partial(
            open_kubeconfig, self.account, kept_results=self.KEPT_RESULTS, kept_letters=self.KEPT_LETTERS
        )


def use_every_operation(store: KubernetesStore) -> None:
    assert store.compare_and_set(TableRow("t", dirty=1))
    seen = store.load(ALL_ROWS).tables["t"]
    assert store.compare_and_set(seen)
    assert not store.compare_and_set(seen)
    letter = new_letter("sqs", "no such table", 1.0, "event")
    store.put_letter(letter)
    store.put_letter(letter)
    assert store.remove_letter(letter.id)


def test_job_account_can_use_the_state(server: KubeApiServer, account: Path) -> None:
    with open_kubeconfig(server.kubeconfig(server.token(NAMESPACE, "icemirror-job"))) as store:
        use_every_operation(store)


@pytest.mark.parametrize("verb", VERBS)
def test_every_shipped_permission_is_required(server: KubeApiServer, account: Path, verb: str) -> None:
    role = f"{ROLES}/icemirror-state"
    shipped = server.call("GET", role)
    assert shipped["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": VERBS}]
    reduced = copy.deepcopy(shipped)
    reduced["rules"][0]["verbs"].remove(verb)
    server.call("PUT", role, reduced)
    wait_until(server, verb, allowed=False)
    try:
        with (
            open_kubeconfig(account) as store,
            pytest.raises(Invalid, match=r"cannot .*as in infra/kubernetes/base/state-role\.yaml"),
        ):
            use_every_operation(store)
    finally:
        current = server.call("GET", role)
        server.call("PUT", role, {**current, "rules": shipped["rules"]})
        wait_until(server, verb, allowed=True)


def test_trigger_account_has_no_other_permission(server: KubeApiServer, account: Path) -> None:
    with Client(KubeConfig.from_file(account), namespace=NAMESPACE, trust_env=False) as client:
        for forbidden_call in (
            lambda: list(client.list(Secret, namespace=NAMESPACE)),
            lambda: list(client.list(ConfigMap, namespace="default")),
            lambda: client.deletecollection(ConfigMap, namespace=NAMESPACE),
            lambda: client.patch(ConfigMap, "x", {"data": {}}, namespace=NAMESPACE),
        ):
            with pytest.raises(httpx2.HTTPStatusError) as caught:
                forbidden_call()
            assert caught.value.response.status_code == 403


def test_server_rejects_a_stale_resource_version(store: KubernetesStore) -> None:
    assert store.compare_and_set(TableRow("t", dirty=1))
    seen = store.load(ALL_ROWS).tables["t"]
    assert store.compare_and_set(TableRow("t", dirty=2, revision=seen.revision))
    assert not store.compare_and_set(TableRow("t", dirty=3, revision=seen.revision))
    assert store.load(ALL_ROWS).tables["t"].dirty == 2


@pytest.mark.parametrize("size", [1_100_000, 4_000_000])
def test_oversized_object_gives_a_specific_error(store: KubernetesStore, size: int) -> None:
    with pytest.raises(Invalid, match="exceeds the limit of 1 MB"):
        store.compare_and_set(TableRow("t", noticed_head="x" * size))


def test_forbidden_namespace_error_lists_the_required_permissions(account: Path) -> None:
    with (
        open_kubeconfig(account, "default") as store,
        pytest.raises(Invalid, match="grant the service account get, list"),
    ):
        store.load(ALL_ROWS)


def test_unknown_token_is_rejected(server: KubeApiServer) -> None:
    with open_kubeconfig(server.kubeconfig("stolen")) as store, pytest.raises(Invalid, match="401"):
        store.load(ALL_ROWS)


def test_missing_namespace_is_reported_with_a_remedy(server: KubeApiServer) -> None:
    with (
        open_kubeconfig(server.kubeconfig(), "nowhere") as store,
        pytest.raises(Invalid, match=r"namespace does not exist .*create it.*nowhere"),
    ):
        store.compare_and_set(TableRow("t"))


def test_table_names_become_valid_object_names(store: KubernetesStore) -> None:
    names = ("shop.orders", "Shop.Orders", "täble.with späce", "-.-", "x" * 400)
    for name in names:
        assert store.compare_and_set(TableRow(name))
    assert set(store.load(ALL_ROWS).tables) == set(names)
