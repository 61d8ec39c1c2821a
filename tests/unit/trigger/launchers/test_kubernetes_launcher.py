"""Kubernetes: the suite on a fake API server with the client of lightkube, for both operators."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from lightkube.generic_resource import create_namespaced_resource

from icemirror.config_file.packing import unpack_arguments
from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.protocol.events import RunState
from spark_job.worker.run_arguments import read_arguments
from tests.platforms.fake_kubernetes import NAMESPACE, FakeKubernetes, Fault
from tests.unit.trigger.launchers.launcher_settings import ENVIRON, KUBERNETES, for_kubernetes, load
from tests.unit.trigger.launchers.launcher_suite import REQUEST, RemotePlatform, RemoteSuite
from tests.unit.trigger.launchers.spark_applications import APACHE, KUBEFLOW, make_application
from trigger.launchers.kubernetes import KubernetesLauncher, open_kubernetes_launcher
from trigger.launchers.spark_application import merge_mappings, run_state
from trigger.wiring import open_launcher

STATES = {KUBEFLOW: ("RUNNING", "COMPLETED", "FAILED"), APACHE: ("RunningHealthy", "Succeeded", "Failed")}


class KubernetesPlatform(RemotePlatform):
    """A namespace with a Spark operator, and launchers that use it."""

    def __init__(self, folder: Path, api_version: str = KUBEFLOW) -> None:
        self.now = 1_763_330_000.0
        self.api = FakeKubernetes(lambda: self.now, api_version)
        self.settings, self.job = for_kubernetes(
            folder, KUBERNETES.replace("image:", f"api_version: {api_version}, image:")
        )
        self.running, self.completed, self.failed = STATES[api_version]

    def launcher(self) -> KubernetesLauncher:
        group, _, version = self.api.api_version.partition("/")
        resource = create_namespaced_resource(group, version, "SparkApplication", "sparkapplications")
        return KubernetesLauncher(self.api.client(), resource, self.settings, self.job, lambda: self.now)

    def started(self) -> list[list[str]]:
        key = "driverArgs" if self.api.api_version == APACHE else "arguments"
        return [created["spec"][key] for created in self.api.created]

    def start(self, run_id: str) -> None:
        self.api.set_state(run_id, self.running)

    def end(self, run_id: str) -> None:
        self.api.set_state(run_id, self.completed)

    def kill(self, run_id: str) -> None:
        if "status" in self.api.objects[run_id]:
            del self.api.objects[run_id]  # by a user
        else:
            self.api.set_state(run_id, self.failed)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        assert condition()

    def lose_response(self) -> None:
        self.api.faults.append(Fault(0))

    def throttle(self) -> None:
        self.api.faults.append(Fault(429, "too many requests"))

    def forbid(self) -> None:
        self.api.faults.append(Fault(403, "cannot create resource"))

    def wait_in_queue(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(params=[KUBEFLOW, APACHE])
def platform(request: pytest.FixtureRequest, tmp_path: Path) -> KubernetesPlatform:
    return KubernetesPlatform(tmp_path, request.param)


class TestKubernetes(RemoteSuite):
    """The suite, with each operator."""


def test_application_for_the_operator_of_kubeflow(tmp_path: Path) -> None:
    application = make_application(tmp_path)
    spec = application["spec"]
    assert (application["apiVersion"], application["kind"]) == (KUBEFLOW, "SparkApplication")
    assert application["metadata"]["namespace"] == NAMESPACE
    assert spec["image"] == "registry.test/icemirror:1"
    assert spec["mainApplicationFile"] == "local:///opt/icemirror/icemirror_job.py"
    assert (spec["restartPolicy"], spec["timeToLiveSeconds"]) == ({"type": "Never"}, 86400)
    assert spec["driver"]["serviceAccount"] == "spark"
    assert spec["driver"]["cores"] == 2, "from the template"
    assert spec["driver"]["securityContext"]["runAsNonRoot"] is True
    assert spec["executor"]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["sparkConf"] == {
        "spark.driver.memory": "2g",
        "spark.executor.memory": "4g",
        "spark.kubernetes.driver.secretKeyRef.CATALOG_TOKEN": "catalog:token",
    }


def test_application_for_the_operator_of_apache(tmp_path: Path) -> None:
    application = make_application(
        tmp_path, KUBERNETES.replace("image:", f"api_version: {APACHE}, keep: 1h, image:")
    )
    spec = application["spec"]
    assert application["apiVersion"] == APACHE
    assert spec["pyFiles"] == "local:///opt/icemirror/icemirror_job.py"
    assert spec["driverArgs"][0] == "--request"
    assert spec["sparkConf"]["spark.kubernetes.container.image"] == "registry.test/icemirror:1"
    assert spec["sparkConf"]["spark.kubernetes.authenticate.driver.serviceAccountName"] == "spark"
    tolerations = spec["applicationTolerations"]
    assert tolerations["restartConfig"]["restartPolicy"] == "Never"
    assert tolerations["ttlAfterStopMillis"] == 3_600_000


def test_template_overrides_settings_but_not_the_identity_of_the_run(tmp_path: Path) -> None:
    template = (
        "{metadata: {name: mine, labels: {team: lake}}, spec: {sparkVersion: 3.5.6, restartPolicy: {type: Always}, "
        "executor: {instances: 3, securityContext: null}, volumes: [{name: tmp, emptyDir: {}}]}}"
    )
    plain = make_application(tmp_path)
    changed = make_application(tmp_path, KUBERNETES.replace("{spec: {driver: {cores: 2}}}", template))
    assert changed["metadata"]["name"] == plain["metadata"]["name"]
    assert changed["metadata"]["labels"] == {**plain["metadata"]["labels"], "team": "lake"}
    assert changed["spec"]["restartPolicy"] == {"type": "Never"}
    assert changed["spec"]["sparkVersion"] == "3.5.6"
    assert changed["spec"]["executor"]["instances"] == 3
    assert "securityContext" not in changed["spec"]["executor"]
    assert changed["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {}}]
    assert changed["spec"]["arguments"] == plain["spec"]["arguments"]


def test_merge_joins_mappings_replaces_other_values_and_does_not_change_its_arguments() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    over = {"a": {"c": [3], "e": {"f": None, "g": 2}}, "d": {"h": 1}, "i": None}
    assert merge_mappings(base, over) == {"a": {"b": 1, "c": [3], "e": {"g": 2}}, "d": {"h": 1}}
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    assert merge_mappings(base, {}) == base


def test_secrets_are_not_in_the_application_and_the_run_id_is_its_name(
    platform: KubernetesPlatform,
) -> None:
    run_id = platform.launcher().launch(REQUEST)
    (arguments,) = platform.started()
    run_arguments = read_arguments(arguments, {})
    assert run_arguments.worker_id.run_id == run_id
    assert "t0ken" not in json.dumps(platform.api.created) + unpack_arguments(run_arguments.config)
    assert (
        run_arguments.settings({"CATALOG_TOKEN": "t0ken"}).catalog_properties(None)["token"]
        == ENVIRON["CATALOG_TOKEN"]
    )


@pytest.mark.parametrize(
    ("state", "operator_states"),
    [
        (RunState.QUEUED, ["", "SUBMITTED", "PENDING_RERUN", "INVALIDATING", "RESUMING"]),
        (RunState.RUNNING, ["RUNNING"]),
        (RunState.ENDED, ["SUCCEEDING", "COMPLETED", "FAILING", "FAILED", "SUBMISSION_FAILED", "SUSPENDED"]),
        (RunState.UNKNOWN, ["UNKNOWN", "A_WORD_OF_NEXT_YEAR"]),
    ],
)
def test_every_state_of_kubeflows_operator_is_mapped(state: RunState, operator_states: list[str]) -> None:
    for operator_state in operator_states:
        found = {"apiVersion": KUBEFLOW, "status": {"applicationState": {"state": operator_state}}}
        assert run_state(found) is state
    assert run_state({"apiVersion": KUBEFLOW}) is RunState.QUEUED, "no operator has processed it yet"


@pytest.mark.parametrize(
    ("state", "operator_states"),
    [
        (RunState.QUEUED, ["Submitted", "ScheduledToRestart", "DriverRequested"]),
        (RunState.RUNNING, ["DriverStarted", "DriverReady", "RunningHealthy", "RunningWithPartialCapacity"]),
        (RunState.ENDED, ["Succeeded", "Failed", "SchedulingFailure", "DriverEvicted", "ResourceReleased"]),
        (RunState.UNKNOWN, ["AWordOfNextYear"]),
    ],
)
def test_every_state_of_apaches_operator_is_mapped(state: RunState, operator_states: list[str]) -> None:
    for operator_state in operator_states:
        found = {
            "apiVersion": APACHE,
            "status": {"currentState": {"currentStateSummary": operator_state}},
        }
        assert run_state(found) is state
    assert run_state({"apiVersion": APACHE, "status": {}}) is RunState.QUEUED


def test_missing_operator_is_reported(platform: KubernetesPlatform) -> None:
    platform.api.installed = False
    with pytest.raises(Invalid, match="install the Spark operator"):
        platform.launcher().launch(REQUEST)


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (Fault(422, "spec.driver.cores: must be at least 1"), Invalid, "must be at least 1.*template"),
        (Fault(403, "exceeded quota: jobs"), Transient, "exceeded quota"),
        (Fault(401, "Unauthorized"), Invalid, "infra/kubernetes/base"),
        (Fault(500, "etcd is slow"), Transient, "etcd is slow"),
    ],
)
def test_error_of_a_refused_application_states_a_remedy(
    platform: KubernetesPlatform, fault: Fault, kind: type[Exception], message: str
) -> None:
    platform.api.faults.append(fault)
    with pytest.raises(kind, match=message):
        platform.launcher().launch(REQUEST)


def test_log_location_is_a_command(platform: KubernetesPlatform) -> None:
    launcher = platform.launcher()
    run_id = launcher.launch(REQUEST)
    assert (
        launcher.log_location(run_id) == f"kubectl logs -n jobs -l icemirror/run={run_id},spark-role=driver"
    )


def test_missing_cluster_is_a_configuration_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadConfig, match="KUBECONFIG"):
        open_kubernetes_launcher(*for_kubernetes(tmp_path))


def test_configured_launcher_uses_the_cluster_of_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], "
        "clusters: [{name: k, cluster: {server: 'http://kubernetes.test'}}], users: [{name: u, user: {}}]}"
    )
    monkeypatch.setenv("KUBECONFIG", str(config))
    launcher = open_launcher(load(tmp_path, KUBERNETES), ENVIRON)
    assert isinstance(launcher, KubernetesLauncher)
    assert launcher._client.namespace == "jobs"
