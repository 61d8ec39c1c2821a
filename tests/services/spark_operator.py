"""The definitions of `SparkApplication`: Kubeflow's from its Go module, and a minimal one of Apache's operator."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.provision.cache import fetch_once
from tests.provision.go_programs import run_go

_MODULE, _VERSION = "github.com/kubeflow/spark-operator/v2", "v2.3.0"
_FILE = Path("config") / "crd" / "bases" / "sparkoperator.k8s.io_sparkapplications.yaml"


def kubeflow_definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition of Kubeflow's operator."""
    folder = fetch_once(f"servers/spark-operator-{_VERSION}", _download)
    definition: dict[str, Any] = yaml.safe_load((folder / _FILE.name).read_text())
    return definition


def apache_definition() -> dict[str, Any]:
    """Return a definition with the Apache operator's group, version and names, which accepts any content."""
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
    output = run_go(scratch, "mod", "download", "-json", f"{_MODULE}@{_VERSION}")
    kept = scratch / "definitions"
    kept.mkdir()
    shutil.copyfile(Path(json.loads(output)["Dir"]) / _FILE, kept / _FILE.name)
    return kept
