"""Objects that the chart's values and an overlay's lines produce."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from icemirror.config_file.load import load_settings
from tests.infra.kubernetes import MANIFESTS, Manifest, helm, key, kustomize, pod_templates
from tests.provision.cache import Unavailable
from tests.support.need import do_without

pytestmark = pytest.mark.timeout(3000)  # includes the first build of Helm

MINIMAL: dict[str, Any] = {
    "iceberg": {"catalog": {"type": "rest", "uri": "http://catalog"}},
    "tables": [{"changelog": "a.b", "mirror": "c.d"}],
}
ACCOUNTS = {"icemirror-trigger", "icemirror-job", "icemirror-maintenance"}


def rendered(folder: Path, release: str = "icemirror", **values: object) -> dict[tuple[str, str], Manifest]:
    """Return the objects of a release in the namespace `data`."""
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump({"config": MINIMAL, **values}))
    helm.cache_clear()  # the cache key is the path, not its content
    try:
        return {key(manifest): manifest for manifest in helm(release, "data", path)}
    except Unavailable as error:
        do_without(str(error))


def overlay(folder: Path, **lines: object) -> tuple[Manifest, ...]:
    """Return the objects of a copy of the overlay `serve` with these lines."""
    content = yaml.safe_load((MANIFESTS / "overlays" / "serve" / "kustomization.yaml").read_text())
    content["configMapGenerator"][0]["literals"] = ["icemirror.yaml="]
    del content["configMapGenerator"][0]["files"]
    content["patches"] += lines.pop("patches", [])
    # kustomize refuses absolute paths; relative paths to folders are allowed.
    folder.mkdir()
    up = "../" * len(folder.parts[1:])
    content["resources"] = [
        f"{up}{(MANIFESTS / Path(resource).name).relative_to('/')}" for resource in content["resources"]
    ]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({**content, **lines}))
    try:
        return kustomize(str(folder))
    except Unavailable as error:
        do_without(str(error))


def pull_secrets(manifests: dict[tuple[str, str], Manifest]) -> dict[str, list[str]]:
    return {
        name: [secret["name"] for secret in manifest.get("imagePullSecrets", ())]
        for (kind, name), manifest in manifests.items()
        if kind == "ServiceAccount"
    }


def test_pull_secrets_are_on_all_service_accounts(tmp_path: Path) -> None:
    objects = rendered(tmp_path, images={"pullSecrets": ["registry"]})
    assert pull_secrets(objects) == {name: ["registry"] for name in ACCOUNTS}


def test_overlay_sets_images_and_pull_secrets_as_documented(tmp_path: Path) -> None:
    text = (MANIFESTS.parents[1] / "docs" / "how-to" / "deploy-kubernetes.md").read_text(encoding="utf-8")
    (sample,) = [
        block.partition("```")[0]
        for block in text.split("```yaml\n")[1:]
        if block.startswith("# kustomization.yaml")
    ]
    lines = yaml.safe_load(sample)
    objects = {key(manifest): manifest for manifest in overlay(tmp_path / "mine", **lines)}
    assert pull_secrets(objects) == {name: ["registry"] for name in ACCOUNTS}
    for template in pod_templates(objects.values()).values():
        (container,) = template["spec"]["containers"]
        assert container["image"].startswith("registry.example.com/icemirror-")
        assert "@sha256:" in container["image"]


def test_overlay_sets_the_namespace(tmp_path: Path) -> None:
    objects = overlay(tmp_path / "mine", namespace="lake")
    assert {manifest["metadata"].get("namespace", "lake") for manifest in objects} == {"lake"}
    assert [manifest["metadata"]["name"] for manifest in objects if manifest["kind"] == "Namespace"] == [
        "lake"
    ]
    bindings = [manifest for manifest in objects if manifest["kind"] == "RoleBinding"]
    assert {subject["namespace"] for binding in bindings for subject in binding["subjects"]} == {"lake"}


def test_node_can_be_drained_with_one_replica(tmp_path: Path) -> None:
    for objects in (
        rendered(tmp_path, replicas=1),
        {key(manifest): manifest for manifest in kustomize("trigger")},
    ):
        budget = objects["PodDisruptionBudget", "icemirror-trigger"]["spec"]
        assert budget["maxUnavailable"] == 1
        assert "minAvailable" not in budget


def configuration(objects: dict[tuple[str, str], Manifest]) -> str:
    (text,) = [
        manifest["data"]["icemirror.yaml"]
        for manifest in objects.values()
        if "icemirror.yaml" in manifest.get("data", {})
    ]
    return str(text)


def test_state_can_be_in_dynamodb(tmp_path: Path) -> None:
    state = {"type": "dynamodb", "table": "icemirror", "region": "eu-central-1"}
    text = configuration(rendered(tmp_path, config=MINIMAL | {"trigger": {"state": state}}))
    path = tmp_path / "icemirror.yaml"
    path.write_text(text)
    assert yaml.safe_load(text)["trigger"]["state"] == state
    assert load_settings(path, {}).trigger.launcher.model_dump()["namespace"] == "data"


def test_pods_have_scheduling_options_annotations_and_volumes(tmp_path: Path) -> None:
    scheduling: dict[str, Any] = {
        "nodeSelector": {"pool": "small"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    volume = {"name": "kafka-ca", "configMap": {"name": "kafka-ca"}}
    mount = {"name": "kafka-ca", "mountPath": "/etc/kafka-ca", "readOnly": True}
    for mode, names in (
        ("serve", {"icemirror-trigger", "icemirror-maintain"}),
        ("periodic", {"icemirror-sweep", "icemirror-maintain"}),
    ):
        objects = rendered(
            tmp_path,
            mode=mode,
            podAnnotations={"a/b": "c"},
            extraVolumes=[volume],
            extraVolumeMounts=[mount],
            **scheduling,
        )
        templates = pod_templates(objects.values())
        assert set(templates) == names
        for template in templates.values():
            assert template["metadata"]["annotations"] == {"a/b": "c"}
            assert {name: template["spec"][name] for name in scheduling} == scheduling
            assert volume in template["spec"]["volumes"]
            assert mount in template["spec"]["containers"][0]["volumeMounts"]


def test_service_monitor_has_the_given_labels(tmp_path: Path) -> None:
    objects = rendered(tmp_path, monitoring={"labels": {"release": "prometheus"}})
    assert objects["ServiceMonitor", "icemirror-trigger"]["metadata"]["labels"] == {"release": "prometheus"}
    assert not [
        kind for kind, _ in rendered(tmp_path, monitoring={"enabled": False}) if kind == "ServiceMonitor"
    ]


@pytest.mark.parametrize(
    "kind", ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor"]
)
def test_selector_matches_only_its_release(kind: str, tmp_path: Path) -> None:
    spec = rendered(tmp_path, release="lake")[kind, "lake-trigger"]["spec"]
    selector = spec.get("podSelector") or spec["selector"]
    assert selector.get("matchLabels", selector)["app.kubernetes.io/instance"] == "lake"
