"""Renders our manifests with kustomize and Helm, and creates them on a real API server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.cache import fetch_once
from tests.services.kube_apiserver import KubeApiServer
from tests.services.processes import Unavailable

MANIFESTS = Path(__file__).parents[2] / "infra" / "kubernetes"
_BUILD_SECONDS = 2400
_KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"
_HELM = "helm.sh/helm/v3/cmd/helm@v3.18.6"

Manifest = dict[str, Any]
Key = tuple[str, str]


def key(manifest: Manifest) -> Key:
    return manifest["kind"], manifest["metadata"]["name"]


@cache
def kustomize(folder: str) -> tuple[Manifest, ...]:
    """Return the objects of an overlay."""
    path = str(MANIFESTS / folder)
    kubectl = shutil.which("kubectl")
    command = [kubectl, "kustomize", path] if kubectl else [str(_built(_KUSTOMIZE)), "build", path]
    return _objects(command)


@cache
def helm(release: str, namespace: str, values: Path) -> tuple[Manifest, ...]:
    """Return the objects of a release of the chart."""
    program = shutil.which("helm") or str(_built(_HELM))
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
    return tuple(one for one in yaml.safe_load_all(done.stdout) if one)


def _built(package: str) -> Path:
    """Build a Go program once and return its path."""
    path, _, version = package.partition("@")
    name = "helm" if path.endswith("helm") else "kustomize"

    def build(scratch: Path) -> Path:
        go = shutil.which("go")
        if go is None:
            raise Unavailable(f"neither {name} nor Go is installed")
        environ = {**os.environ, "GOBIN": str(scratch / "bin"), "GOTOOLCHAIN": "auto", "GOFLAGS": ""}
        done = subprocess.run(
            [go, "install", package],
            cwd=scratch,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise Unavailable(f"{name} could not be built: {done.stderr[-500:]}")
        return scratch / "bin"

    return fetch_once(f"servers/{name}-{version}", build) / name


def path_of(server: KubeApiServer, manifest: Manifest) -> str:
    """Return the API path of the object's kind, from the server's discovery."""
    group = manifest["apiVersion"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    kinds = {one["kind"]: one for one in server.call("GET", root)["resources"] if "/" not in one["name"]}
    found = kinds[manifest["kind"]]
    inside = f"/namespaces/{manifest['metadata']['namespace']}" if found["namespaced"] else ""
    return f"{root}{inside}/{found['name']}"


def create(server: KubeApiServer, manifests: Iterable[Manifest]) -> None:
    """Create the objects; an unknown field is an error."""
    for manifest in manifests:
        server.call("POST", f"{path_of(server, manifest)}?fieldValidation=Strict", manifest)


def pod_templates(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """Return the pod templates by the name of their Deployment or CronJob."""
    found: dict[str, Manifest] = {}
    for one in manifests:
        match one:
            case {"kind": "Deployment", "spec": {"template": template}}:
                found[one["metadata"]["name"]] = template
            case {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}}:
                found[one["metadata"]["name"]] = template
    return found
