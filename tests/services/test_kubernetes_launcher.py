"""Launches on a real Kubernetes API server, with the operators' definitions and the shipped permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube import Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource

from icemirror.errors import Invalid
from icemirror.protocol.events import RunState
from tests.services.custom_resources import DEFINITIONS, is_served, wait_for
from tests.services.kube_apiserver import KubeApiServer, kube_apiserver
from tests.services.spark_operator import apache_definition, kubeflow_definition
from tests.unit.trigger.launchers.launcher_settings import KUBERNETES, for_kubernetes
from tests.unit.trigger.launchers.launcher_suite import REQUEST, LauncherSuite, Platform
from trigger.launchers.kubernetes import KubernetesLauncher
from trigger.launchers.spark_application import spark_application

MANIFESTS = Path(__file__).parents[2] / "infra" / "kubernetes" / "base"
NAMESPACE, ACCOUNT, JOB_ACCOUNT = "icemirror", "icemirror-trigger", "icemirror-job"
KUBEFLOW, APACHE = "sparkoperator.k8s.io/v1beta2", "spark.apache.org/v1"
TEMPLATE = "template: {spec: {driver: {cores: 2}}}"
ROUNDS = 50

pytestmark = pytest.mark.timeout(3000)  # the first run builds the server


@pytest.fixture(scope="module")
def server(start: Callable[[str, Any], KubeApiServer]) -> KubeApiServer:
    running = start("kubernetes", kube_apiserver)
    for name in yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]:
        running.apply(MANIFESTS / name)
    for definition in (kubeflow_definition(), apache_definition()):
        running.call("POST", DEFINITIONS, definition)
        wait_for(partial(is_served, running, definition["metadata"]["name"]))
    wait_for(lambda: running.allows(ACCOUNT, NAMESPACE, "create", "sparkapplications", "spark.apache.org"))
    return running


class ServerPlatform(Platform):
    """A platform on a real API server; the test writes the status in place of an operator."""

    def __init__(self, server: KubeApiServer, folder: Path, api_version: str) -> None:
        self.server, self.api_version = server, api_version
        self.path = f"/apis/{api_version}/namespaces/{NAMESPACE}/sparkapplications"
        given = KUBERNETES.replace("namespace: jobs", f"namespace: {NAMESPACE}, api_version: {api_version}")
        given = given if api_version == KUBEFLOW else given.replace(TEMPLATE, "template: {}")
        self.settings, self.job = for_kubernetes(folder, given)
        self.account = server.kubeconfig(server.token(NAMESPACE, ACCOUNT))
        self.clients: list[Client] = []

    def launcher(self) -> KubernetesLauncher:
        group, _, version = self.api_version.partition("/")
        resource = create_namespaced_resource(group, version, "SparkApplication", "sparkapplications")
        self.clients.append(Client(config=KubeConfig.from_file(self.account), trust_env=False))
        return KubernetesLauncher(self.clients[-1], resource, self.settings, self.job)

    def started(self) -> list[list[str]]:
        key = "arguments" if self.api_version == KUBEFLOW else "driverArgs"
        return [found["spec"][key] for found in self.server.call("GET", self.path)["items"]]

    def start(self, run_id: str) -> None:
        self._write(run_id, "RUNNING", "RunningHealthy")

    def end(self, run_id: str) -> None:
        self._write(run_id, "COMPLETED", "Succeeded")

    def kill(self, run_id: str) -> None:
        self.server.call("DELETE", f"{self.path}/{run_id}")

    def wait_for(self, condition: Callable[[], bool]) -> None:
        wait_for(condition)

    def _write(self, run_id: str, kubeflow: str, apache: str) -> None:
        found = self.server.call("GET", f"{self.path}/{run_id}")
        if self.api_version == KUBEFLOW:
            found["status"] = {"applicationState": {"state": kubeflow}, "driverInfo": {}}
        else:
            found["status"] = {"currentState": {"currentStateSummary": apache}}
        self.server.call("PUT", f"{self.path}/{run_id}/status", found)


Make = Callable[[str], ServerPlatform]


@pytest.fixture
def make(server: KubeApiServer, tmp_path: Path) -> Iterator[Make]:
    """Return platforms by API version; connections are closed at the end."""
    platforms: list[ServerPlatform] = []

    def make_platform(api_version: str) -> ServerPlatform:
        platforms.append(ServerPlatform(server, tmp_path, api_version))
        return platforms[-1]

    yield make_platform
    for platform in platforms:
        for client in platform.clients:
            client.close()


@pytest.fixture(params=[KUBEFLOW, APACHE])
def platform(make: Make, request: pytest.FixtureRequest) -> ServerPlatform:
    platform = make(request.param)
    platform.server.call("DELETE", platform.path)
    return platform


class TestKubernetesLauncher(LauncherSuite):
    """The conformance suite, with the trigger's account."""


def test_kubeflow_definition_contains_every_field_of_the_application(
    server: KubeApiServer, make: Make
) -> None:
    platform = make(KUBEFLOW)
    server.call("DELETE", platform.path)
    wanted = spark_application(platform.settings, platform.job, REQUEST)
    strict_path = f"{platform.path}?fieldValidation=Strict&dryRun=All"
    created = server.call("POST", strict_path, wanted)
    assert created["spec"]["arguments"] == wanted["spec"]["arguments"]
    wanted["spec"]["driver"]["serviceAcount"] = "a typing error"
    with pytest.raises(AssertionError, match="serviceAcount"):
        server.call("POST", strict_path, wanted)


def test_template_that_the_definition_rejects_gives_a_specific_error(
    server: KubeApiServer, make: Make
) -> None:
    platform = make(KUBEFLOW)
    wrong = {"spec": {"type": "Cobol"}}
    platform.settings = platform.settings.model_copy(update={"template": wrong})
    with pytest.raises(Invalid, match=r"Cobol.*trigger\.launcher\.template"):
        platform.launcher().launch(REQUEST)


def test_two_triggers_that_launch_the_same_request_create_one_object(platform: ServerPlatform) -> None:
    first, second = platform.launcher(), platform.launcher()
    for gen in range(ROUNDS):
        request = REQUEST.model_copy(update={"gen": REQUEST.gen + gen})
        assert first.launch(request) == second.launch(request)
    assert len(platform.started()) == ROUNDS


def test_accounts_have_only_the_required_permissions(server: KubeApiServer) -> None:
    group = "sparkoperator.k8s.io"
    verbs = ("get", "create", "delete", "list", "watch", "update", "patch", "deletecollection")
    allowed = {verb for verb in verbs if server.allows(ACCOUNT, NAMESPACE, verb, "sparkapplications", group)}
    assert allowed == {"get", "create", "delete"}
    assert not server.allows(ACCOUNT, NAMESPACE, "create", "pods")
    assert not server.allows(ACCOUNT, NAMESPACE, "get", "secrets")
    assert server.allows(JOB_ACCOUNT, NAMESPACE, "create", "pods")
    assert not server.allows(JOB_ACCOUNT, NAMESPACE, "create", "sparkapplications", group)
    assert not server.allows(JOB_ACCOUNT, NAMESPACE, "get", "secrets")


def test_launch_without_the_role_gives_a_specific_error(server: KubeApiServer, make: Make) -> None:
    platform = make(KUBEFLOW)
    platform.account = server.kubeconfig(server.token(NAMESPACE, JOB_ACCOUNT))
    with pytest.raises(Invalid, match="infra/kubernetes/base"):
        platform.launcher().launch(REQUEST)
    with pytest.raises(Invalid, match="infra/kubernetes/base"):
        platform.launcher().poll("any")


def test_cluster_without_the_operator_gives_a_specific_error(make: Make) -> None:
    platform = make("operator.test/v1")
    platform.account = platform.server.kubeconfig()  # an account with all permissions
    with pytest.raises(Invalid, match="install the Spark operator"):
        platform.launcher().launch(REQUEST)


def test_launch_in_another_namespace_gives_a_specific_error(server: KubeApiServer, make: Make) -> None:
    platform = make(KUBEFLOW)
    platform.settings = platform.settings.model_copy(update={"namespace": "default"})
    with pytest.raises(Invalid, match="in the namespace default"):
        platform.launcher().launch(REQUEST)


def test_run_is_queued_until_the_operator_writes_a_status(platform: ServerPlatform) -> None:
    run_id = platform.launcher().launch(REQUEST)
    assert platform.poll(run_id) is RunState.QUEUED
