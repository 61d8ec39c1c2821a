"""What the chart's values, and lines of an overlay, change of what is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from icemirror.settings import load_settings
from tests.infra.kubernetes import MANIFESTS, Manifest, helm, key, kustomize, pod_templates
from tests.need import do_without
from tests.services.processes import Unavailable

LITTLE: dict[str, Any] = {
    "iceberg": {"catalog": {"type": "rest", "uri": "http://catalog"}},
    "tables": [{"changelog": "a.b", "mirror": "c.d"}],
}
ACCOUNTS = {"icemirror-trigger", "icemirror-job", "icemirror-maintenance"}


def made(folder: Path, release: str = "icemirror", **values: object) -> dict[tuple[str, str], Manifest]:
    """The objects of a release in the namespace `data`."""
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump({"config": LITTLE, **values}))
    helm.cache_clear()  # the same path has other values
    try:
        return {key(one): one for one in helm(release, "data", path)}
    except Unavailable as error:
        do_without(str(error))


def overlay(folder: Path, **lines: object) -> tuple[Manifest, ...]:
    """The objects of the overlay `serve`, copied, with other lines."""
    content = yaml.safe_load((MANIFESTS / "overlays" / "serve" / "kustomization.yaml").read_text())
    content["configMapGenerator"][0]["literals"] = ["icemirror.yaml="]
    del content["configMapGenerator"][0]["files"]
    content["patches"] += lines.pop("patches", [])
    # kustomize takes absolute paths of no files that are not below, but folders by relative ones.
    folder.mkdir()
    up = "../" * len(folder.parts[1:])
    content["resources"] = [
        f"{up}{(MANIFESTS / Path(one).name).relative_to('/')}" for one in content["resources"]
    ]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({**content, **lines}))
    try:
        return kustomize(str(folder))
    except Unavailable as error:
        do_without(str(error))


def pull_secrets(manifests: dict[tuple[str, str], Manifest]) -> dict[str, list[str]]:
    return {
        name: [one["name"] for one in manifest.get("imagePullSecrets", ())]
        for (kind, name), manifest in manifests.items()
        if kind == "ServiceAccount"
    }


def test_secrets_for_pulling_images_reach_sparks_pods_by_their_account(tmp_path: Path) -> None:
    given = made(tmp_path, images={"pullSecrets": ["registry"]})
    assert pull_secrets(given) == {name: ["registry"] for name in ACCOUNTS}


def test_one_line_of_an_overlay_does_the_same(tmp_path: Path) -> None:
    text = (MANIFESTS.parents[1] / "docs" / "deploy-kubernetes.md").read_text(encoding="utf-8")
    (shown,) = [
        block.partition("```")[0]
        for block in text.split("```yaml\n")[1:]
        if block.startswith("# kustomization.yaml")
    ]
    lines = yaml.safe_load(shown)
    objects = {key(one): one for one in overlay(tmp_path / "mine", **lines)}
    assert pull_secrets(objects) == {name: ["registry"] for name in ACCOUNTS}
    for template in pod_templates(objects.values()).values():
        (container,) = template["spec"]["containers"]
        assert container["image"].startswith("registry.example.com/icemirror-")
        assert "@sha256:" in container["image"]


def test_another_namespace_is_one_line_of_an_overlay(tmp_path: Path) -> None:
    objects = overlay(tmp_path / "mine", namespace="lake")
    assert {one["metadata"].get("namespace", "lake") for one in objects} == {"lake"}
    assert [one["metadata"]["name"] for one in objects if one["kind"] == "Namespace"] == ["lake"]
    bindings = [one for one in objects if one["kind"] == "RoleBinding"]
    assert {subject["namespace"] for one in bindings for subject in one["subjects"]} == {"lake"}


def test_a_node_can_be_drained_also_with_one_replica(tmp_path: Path) -> None:
    for one in (made(tmp_path, replicas=1), {key(found): found for found in kustomize("trigger")}):
        budget = one["PodDisruptionBudget", "icemirror-trigger"]["spec"]
        assert budget["maxUnavailable"] == 1
        assert "minAvailable" not in budget


def configuration(objects: dict[tuple[str, str], Manifest]) -> str:
    (text,) = [
        one["data"]["icemirror.yaml"] for one in objects.values() if "icemirror.yaml" in one.get("data", {})
    ]
    return str(text)


def test_the_state_may_be_elsewhere(tmp_path: Path) -> None:
    state = {"type": "dynamodb", "table": "icemirror", "region": "eu-central-1"}
    text = configuration(made(tmp_path, config=LITTLE | {"trigger": {"state": state}}))
    path = tmp_path / "icemirror.yaml"
    path.write_text(text)
    assert yaml.safe_load(text)["trigger"]["state"] == state
    assert load_settings(path, {}).trigger.launcher.model_dump()["namespace"] == "data"


def test_pods_may_be_told_where_to_run_and_be_given_files(tmp_path: Path) -> None:
    placed: dict[str, Any] = {
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
        given = made(
            tmp_path,
            mode=mode,
            podAnnotations={"a/b": "c"},
            extraVolumes=[volume],
            extraVolumeMounts=[mount],
            **placed,
        )
        templates = pod_templates(given.values())
        assert set(templates) == names
        for template in templates.values():
            assert template["metadata"]["annotations"] == {"a/b": "c"}
            assert {name: template["spec"][name] for name in placed} == placed
            assert volume in template["spec"]["volumes"]
            assert mount in template["spec"]["containers"][0]["volumeMounts"]


def test_prometheus_finds_the_monitor_by_the_labels_that_it_looks_for(tmp_path: Path) -> None:
    given = made(tmp_path, monitoring={"labels": {"release": "prometheus"}})
    assert given["ServiceMonitor", "icemirror-trigger"]["metadata"]["labels"] == {"release": "prometheus"}
    assert not [kind for kind, _ in made(tmp_path, monitoring={"enabled": False}) if kind == "ServiceMonitor"]


@pytest.mark.parametrize(
    "kind", ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor"]
)
def test_what_selects_pods_selects_those_of_its_own_release(kind: str, tmp_path: Path) -> None:
    spec = made(tmp_path, release="lake")[kind, "lake-trigger"]["spec"]
    selector = spec.get("podSelector") or spec["selector"]
    assert selector.get("matchLabels", selector)["app.kubernetes.io/instance"] == "lake"
