"""checkov on Terraform, Kubernetes and the Dockerfile: every finding has a reason.

It is installed in a separate folder, because it needs another version of boto3.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.infra.kubernetes import OVERLAYS, kustomize
from tests.provision import python_packages
from tests.provision.cache import Unavailable
from tests.support.need import do_without
from tests.unit.house.tracked import ROOT

# checkov has no rules for EMR Serverless.
OUR_RULES = ROOT / "tests" / "infra" / "checkov"
PLANTED = """
resource "aws_sqs_queue" "planted" {
  name = "planted"
}

resource "aws_emrserverless_application" "planted" {
  name          = "planted"
  type          = "SPARK"
  release_label = "emr-7.13.0"

  auto_stop_configuration {
    enabled = false
  }

  image_configuration {
    image_uri = "1.example/job:latest"
  }
}
"""
FRAMEWORKS = ("terraform", "kubernetes", "dockerfile")
# Reasons for Terraform are next to the resources.
REASONS = {
    "CKV_K8S_14": "image names are placeholders; users set their own by digest",
    "CKV_K8S_43": "as CKV_K8S_14",
    "CKV_K8S_35": "${NAME} in the configuration reads the environment",
    "CKV_K8S_38": "the trigger keeps its state and jobs as Kubernetes objects",
    "CKV_DOCKER_4": "ADD unpacks the archive of `make package`",
    "CKV_DOCKER_7": "base images are arguments that name a release",
}


def run_checkov(folder: Path) -> list[dict[str, object]]:
    """Return checkov's result for each framework."""
    try:
        site = python_packages.checkov()
    except Unavailable as error:
        do_without(f"checkov is not available: {error}")
    options = ["-d", str(folder), "--skip-download", "--quiet", "--compact", "-o", "json"]
    options += ["--external-checks-dir", str(OUR_RULES)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "checkov.main", *options, "--framework", *FRAMEWORKS],
        env={**os.environ, "PYTHONPATH": str(site), "LOG_LEVEL": "ERROR"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.stdout.startswith(("[", "{")), done.stderr[-2000:]
    found = json.loads(done.stdout)
    return found if isinstance(found, list) else [found]


@pytest.mark.timeout(3000)  # includes the first installation
def test_every_finding_has_a_reason(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "infra" / "terraform",
        tmp_path / "terraform",
        ignore=shutil.ignore_patterns(".terraform*", "tests"),
    )
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    try:
        for overlay in OVERLAYS:
            rendered = yaml.safe_dump_all(kustomize(overlay))
            (tmp_path / f"{overlay.replace('/', '-')}.yaml").write_text(rendered)
    except Unavailable as error:
        do_without(str(error))
    (tmp_path / "terraform" / "planted.tf").write_text(PLANTED)
    results = run_checkov(tmp_path)
    assert {result["check_type"] for result in results} == set(FRAMEWORKS)
    failed = [
        (check["check_id"], check["resource"], check["file_path"])
        for result in results
        for check in result["results"]["failed_checks"]  # type: ignore[index]
    ]
    found = {rule for rule, resource, _ in failed if "planted" in resource}
    ours = {yaml.safe_load(rule.read_text())["metadata"]["id"] for rule in OUR_RULES.glob("*.yaml")}
    assert len(ours) == 4
    assert found > ours, "the planted faults must be found"
    unexplained = [check for check in failed if check[0] not in REASONS and "planted" not in check[1]]
    assert unexplained == []
    assert set(REASONS) <= {rule for rule, _, _ in failed}, "remove reasons without a finding"
