"""The definitions of `SparkApplication`: Kubeflow's own, from its Go module; of Apache's operator what we use."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.cache import fetch_once
from tests.services.processes import Unavailable

_MODULE, _VERSION = "github.com/kubeflow/spark-operator/v2", "v2.3.0"
_FILE = Path("config") / "crd" / "bases" / "sparkoperator.k8s.io_sparkapplications.yaml"


def kubeflow_definition() -> dict[str, Any]:
    """The CustomResourceDefinition that Kubeflow's operator installs."""
    folder = fetch_once(f"servers/spark-operator-{_VERSION}", _download)
    definition: dict[str, Any] = yaml.safe_load((folder / _FILE.name).read_text())
    return definition


def apache_definition() -> dict[str, Any]:
    """Group, version and names of the Apache operator's; any content."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sparkapplications.spark.apache.org"},
        "spec": {
            "group": "spark.apache.org",
            "scope": "Namespaced",
            "names": {
                "kind": "SparkApplication",
                "plural": "sparkapplications",
                "singular": "sparkapplication",
            },
            "versions": [version],
        },
    }


def _download(scratch: Path) -> Path:
    go = shutil.which("go")
    if go is None:
        raise Unavailable("Go is not installed, which fetches it")
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{_MODULE}@{_VERSION}"],
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"{_MODULE} could not be fetched: {done.stderr[-500:] or done.stdout[-500:]}")
    kept = scratch / "definitions"
    kept.mkdir()
    shutil.copyfile(Path(json.loads(done.stdout)["Dir"]) / _FILE, kept / _FILE.name)
    return kept
