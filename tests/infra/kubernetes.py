"""Renders our manifests with kustomize and Helm, and creates them on a real API server."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.provision.go_programs import go_program
from tests.services.kube_apiserver import KubeApiServer

MANIFESTS = Path(__file__).parents[2] / "infra" / "kubernetes"
KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"
HELM = "helm.sh/helm/v3/cmd/helm@v3.18.6"

Manifest = dict[str, Any]
Key = tuple[str, str]


def key(manifest: Manifest) -> Key:
    return manifest["kind"], manifest["metadata"]["name"]


@cache
def kustomize(folder: str) -> tuple[Manifest, ...]:
    """Return the objects of an overlay."""
    path = str(MANIFESTS / folder)
    kubectl = shutil.which("kubectl")
    command = [kubectl, "kustomize", path] if kubectl else [str(go_program(KUSTOMIZE)), "build", path]
    return _objects(command)


@cache
def helm(release: str, namespace: str, values: Path) -> tuple[Manifest, ...]:
    """Return the objects of a release of the chart."""
    program = shutil.which("helm") or str(go_program(HELM))
    chart = str(MANIFESTS / "chart")
    return _objects(
        [
            program,
            "template",
            release,
            chart,
            "--kube-version=1.34",
            f"--namespace={namespace}",
            f"--values={values}",
        ]
    )


def _objects(command: Sequence[str]) -> tuple[Manifest, ...]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return tuple(manifest for manifest in yaml.safe_load_all(done.stdout) if manifest)


def path_of(server: KubeApiServer, manifest: Manifest) -> str:
    """Return the API path of the object's kind, from the server's discovery."""
    group = manifest["apiVersion"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    kinds = {
        resource["kind"]: resource
        for resource in server.call("GET", root)["resources"]
        if "/" not in resource["name"]
    }
    found = kinds[manifest["kind"]]
    namespace_path = f"/namespaces/{manifest['metadata']['namespace']}" if found["namespaced"] else ""
    return f"{root}{namespace_path}/{found['name']}"


def create(server: KubeApiServer, manifests: Iterable[Manifest]) -> None:
    """Create the objects; an unknown field is an error."""
    for manifest in manifests:
        server.call("POST", f"{path_of(server, manifest)}?fieldValidation=Strict", manifest)


def pod_templates(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """Return the pod templates by the name of their Deployment or CronJob."""
    found: dict[str, Manifest] = {}
    for manifest in manifests:
        match manifest:
            case {"kind": "Deployment", "spec": {"template": template}}:
                found[manifest["metadata"]["name"]] = template
            case {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}}:
                found[manifest["metadata"]["name"]] = template
    return found


OVERLAYS = ("overlays/serve", "overlays/periodic")
