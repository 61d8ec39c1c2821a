"""The manifests on a real Kubernetes API server: valid fields, restricted pods, least privilege."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from icemirror.config_file.load import load_settings
from icemirror.settings.discovery import DiscoverSettings
from icemirror.settings.table_options import TableOptions
from icemirror.settings.tables import TableSettings
from icemirror.settings.trigger import KubernetesLauncherSettings
from tests.infra.kubernetes import (
    MANIFESTS,
    OVERLAYS,
    Manifest,
    create,
    helm,
    key,
    kustomize,
    path_of,
    pod_templates,
)
from tests.infra.table_samples import names_and_choices, tables
from tests.provision.cache import Unavailable
from tests.services.custom_resources import DEFINITIONS, is_served, wait_for
from tests.services.kube_apiserver import KubeApiServer, kube_apiserver
from tests.support.need import do_without
from tests.unit.trigger.launchers.launcher_settings import KUBERNETES
from tests.unit.trigger.launchers.spark_applications import APACHE, KUBEFLOW, make_application

NAMESPACE = "icemirror"
_KEYS = yaml.safe_load((MANIFESTS / "secret.example.yaml").read_text())["stringData"]
SECRETS = dict.fromkeys(_KEYS, "x") | {"SENTRY_DSN": "https://x@sentry.example/1"}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
STATE = {("configmaps", verb) for verb in ("get", "list", "create", "update", "delete")}
LAUNCH = {("sparkapplications", verb) for verb in ("get", "create", "delete")}
SPARK = {
    (resource, verb)
    for resource in ("pods", "services", "configmaps", "persistentvolumeclaims")
    for verb in VERBS
}
PERMISSIONS = {
    "icemirror-trigger": STATE | LAUNCH,
    "icemirror-job": STATE | SPARK,
    "icemirror-maintenance": set(),
}

pytestmark = pytest.mark.timeout(3000)  # includes the first build of the server


def rendered(overlay: str) -> tuple[Manifest, ...]:
    try:
        return kustomize(overlay)
    except Unavailable as error:
        do_without(str(error))


@pytest.fixture(scope="module")
def server(start: Callable[[str, Any], KubeApiServer]) -> KubeApiServer:
    """Start an API server with the objects of the overlay `serve`."""
    running = start("kubernetes", kube_apiserver)
    running.call("POST", DEFINITIONS, service_monitors())
    wait_for(lambda: is_served(running, "servicemonitors.monitoring.coreos.com"))
    create(running, rendered("overlays/serve"))
    wait_for(lambda: running.allows("icemirror-job", NAMESPACE, "create", "pods"))
    return running


def service_monitors() -> Manifest:
    """Return a definition of ServiceMonitor that accepts any content."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "ServiceMonitor", "plural": "servicemonitors"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
        },
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_server_accepts_every_object(server: KubeApiServer, overlay: str) -> None:
    for manifest in rendered(overlay):
        path_and_query = f"{path_of(server, manifest)}?fieldValidation=Strict&dryRun=All"
        server.call("POST", path_and_query, manifest)  # a dry run; existing objects are accepted


def test_server_refuses_an_unknown_field(server: KubeApiServer) -> None:
    wrong = copy.deepcopy(
        next(manifest for manifest in rendered("overlays/serve") if manifest["kind"] == "Deployment")
    )
    wrong["metadata"]["name"] = "other"
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(AssertionError, match="livenesProbe"):
        create(server, [wrong])


def pods() -> Iterator[tuple[str, Manifest]]:
    for overlay in OVERLAYS:
        for name, template in pod_templates(rendered(overlay)).items():
            metadata = {**template["metadata"], "name": name, "namespace": NAMESPACE}
            yield name, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def test_namespace_accepts_only_restricted_pods(server: KubeApiServer) -> None:
    path_and_query = f"/api/v1/namespaces/{NAMESPACE}/pods?fieldValidation=Strict&dryRun=All"
    names = {name for name, pod in pods() if server.call("POST", path_and_query, pod)["kind"] == "Pod"}
    assert names == {"icemirror-trigger", "icemirror-sweep", "icemirror-maintain"}
    _, wrong = next(pods())
    wrong = copy.deepcopy(wrong)
    wrong["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(AssertionError, match="restricted"):
        server.call("POST", path_and_query, wrong)


@pytest.mark.parametrize("api_version", [KUBEFLOW, APACHE])
def test_job_pods_are_restricted(server: KubeApiServer, api_version: str, tmp_path: Path) -> None:
    spec = make_application(tmp_path, KUBERNETES.replace("image:", f"api_version: {api_version}, image:"))[
        "spec"
    ]
    path_and_query = f"/api/v1/namespaces/{NAMESPACE}/pods?fieldValidation=Strict&dryRun=All"
    for worker in ("driver", "executor"):
        if api_version == APACHE:
            template = spec[f"{worker}Spec"]["podTemplateSpec"]["spec"]
        else:  # the operator applies it to the pod that Spark creates
            template = {"containers": [{"name": "spark", "securityContext": spec[worker]["securityContext"]}]}
        template["containers"][0]["image"] = "icemirror-job"
        metadata = {"name": worker, "namespace": NAMESPACE}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template}
        assert server.call("POST", path_and_query, pod)["kind"] == "Pod"


def test_containers_have_limits_probes_and_a_read_only_root() -> None:
    for name, pod in pods():
        assert pod["spec"]["securityContext"]["runAsUser"] >= 10000
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert set(container["resources"]) == {"requests", "limits"}
        assert {"cpu", "memory"} == set(container["resources"]["limits"])
        if name == "icemirror-trigger":
            assert {"livenessProbe", "readinessProbe", "startupProbe"} <= set(container)


def test_service_accounts_have_exactly_the_needed_permissions(server: KubeApiServer) -> None:
    groups = {
        "sparkapplications": "sparkoperator.k8s.io",
        "deployments": "apps",
        "roles": "rbac.authorization.k8s.io",
    }
    resources = {resource for resource, _ in STATE | LAUNCH | SPARK} | {
        "secrets",
        "deployments",
        "roles",
        "pods/exec",
    }
    for account, expected in PERMISSIONS.items():
        allowed = {
            (resource, verb)
            for resource in resources
            for verb in VERBS
            if server.allows(account, NAMESPACE, verb, resource, groups.get(resource, ""))
        }
        assert allowed == expected, account
        assert not server.allows(account, "default", "get", "configmaps")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_configuration_loads_with_the_example_secret(overlay: str, tmp_path: Path) -> None:
    (config_map,) = [
        manifest for manifest in rendered(overlay) if "icemirror.yaml" in manifest.get("data", {})
    ]
    assert config_map["immutable"] is True
    path = tmp_path / "icemirror.yaml"
    path.write_text(config_map["data"]["icemirror.yaml"])
    settings = load_settings(path, SECRETS)
    launcher = settings.trigger.launcher
    assert isinstance(launcher, KubernetesLauncherSettings)
    accounts = {name for kind, name in map(key, rendered(overlay)) if kind == "ServiceAccount"}
    assert launcher.service_account in accounts
    assert {name.partition("/")[0] for name in launcher.secrets.values()} == {"icemirror"}


def test_overlays_have_the_same_configuration() -> None:
    """kustomize reads no file outside of an overlay's folder, so each has a copy."""
    first, second = ((MANIFESTS / overlay / "icemirror.yaml").read_text() for overlay in OVERLAYS)
    assert first == second


def test_every_table_option_reaches_the_trigger_unchanged(tmp_path: Path) -> None:
    given = [table for _, table in tables()]
    config = {"iceberg": {"catalog": {"type": "rest", "uri": "http://catalog"}}, "tables": given}
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"config": config}))
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    shutil.copy(MANIFESTS / "overlays" / "serve" / "kustomization.yaml", overlay)
    resources = yaml.safe_load((overlay / "kustomization.yaml").read_text())
    resources["resources"], resources["patches"] = [], []
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(resources))
    (overlay / "icemirror.yaml").write_text(yaml.safe_dump(config))
    try:
        rendered_by = {"chart": helm("lake", "data", values), "overlay": kustomize(str(overlay))}
    except Unavailable as error:
        do_without(str(error))
    for tool, manifests in rendered_by.items():
        (text,) = [
            manifest["data"]["icemirror.yaml"]
            for manifest in manifests
            if "icemirror.yaml" in manifest.get("data", {})
        ]
        assert yaml.safe_load(text)["tables"] == given, tool
        path = tmp_path / f"{tool}.yaml"
        path.write_text(text)
        assert len(load_settings(path, {}).tables) == len(given)


@pytest.mark.parametrize(("name", "kind"), [("table", TableSettings), ("discover", DiscoverSettings)])
def test_chart_schema_lists_every_table_option(name: str, kind: type[TableOptions]) -> None:
    schema = json.loads((MANIFESTS / "chart" / "values.schema.json").read_text())
    assert schema["definitions"][name] == names_and_choices(kind)


def _with_fixed_config_name(manifest: Manifest) -> Manifest:
    """Return a copy with a fixed name of the configuration instead of the generated one."""
    found = copy.deepcopy(manifest)
    templates = list(pod_templates([found]).values())
    for template in templates:
        for volume in template["spec"]["volumes"]:
            if volume["name"] == "config":
                volume["configMap"]["name"] = "icemirror"
    return found


@pytest.mark.parametrize(("overlay", "mode"), [(name, name.partition("/")[2]) for name in OVERLAYS])
def test_chart_and_overlay_render_the_same_objects(overlay: str, mode: str, tmp_path: Path) -> None:
    config = yaml.safe_load((MANIFESTS / overlay / "icemirror.yaml").read_text())
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"config": config, "mode": mode}))
    try:
        from_chart = {key(manifest): manifest for manifest in helm("icemirror", NAMESPACE, values)}
    except Unavailable as error:
        do_without(str(error))
    from_overlay = {
        key(manifest): manifest for manifest in rendered(overlay) if manifest["kind"] != "Namespace"
    }
    with_config = [
        objects
        for objects in (from_chart, from_overlay)
        for kind, name in list(objects)
        if "icemirror.yaml" in objects[kind, name].get("data", {})
    ]
    assert len(with_config) == 2
    (chart_objects, overlay_objects) = (
        {
            object_key: _with_fixed_config_name(manifest)
            for object_key, manifest in objects.items()
            if "icemirror.yaml" not in manifest.get("data", {})
        }
        for objects in (from_chart, from_overlay)
    )
    assert chart_objects == overlay_objects


def test_chart_fills_in_state_and_launcher_and_refuses_unknown_values(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    minimal: dict[str, Any] = {
        "iceberg": {"catalog": {"type": "rest", "uri": "http://catalog"}},
        "tables": [{"changelog": "a.b", "mirror": "c.d"}],
    }
    annotations = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/job"}
    values.write_text(
        yaml.safe_dump(
            {
                "config": minimal,
                "serviceAccounts": {"job": {"annotations": annotations}},
                "existingSecret": "mine",
            }
        )
    )
    try:
        objects = helm("lake", "data", values)
    except Unavailable as error:
        do_without(str(error))
    (config,) = [
        manifest["data"]["icemirror.yaml"]
        for manifest in objects
        if "icemirror.yaml" in manifest.get("data", {})
    ]
    path = tmp_path / "icemirror.yaml"
    path.write_text(config)
    settings = load_settings(path, {})
    assert settings.trigger.state.model_dump()["namespace"] == "data"
    assert settings.trigger.launcher.model_dump()["service_account"] == "lake-job"
    (account,) = [manifest for manifest in objects if key(manifest) == ("ServiceAccount", "lake-job")]
    assert account["metadata"]["annotations"] == annotations
    table = minimal["tables"][0]
    for index, (message, wrong_values) in enumerate(
        {
            "replcas": {"config": minimal, "replcas": 3},
            "on_bad_rows": {"config": minimal | {"tables": [table | {"on_bad_rows": "stop"}]}},
            "on_bad_row": {"config": minimal | {"tables": [table | {"on_bad_row": "park"}]}},
        }.items()
    ):
        wrong = tmp_path / f"wrong-{index}.yaml"
        wrong.write_text(yaml.safe_dump(wrong_values))
        with pytest.raises(AssertionError, match=message):
            helm("lake", "data", wrong)
