"""Applies the minimal example to an emulated AWS, and reads its state."""

from __future__ import annotations

import json
import os
import tarfile
import zipfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import boto3

from tests.infra.overrides import PROVIDER
from tests.infra.policies import statements
from tests.infra.terraform import Terraform
from tests.provision.cache import Unavailable
from tests.services.lambda_package import write_trigger
from tests.support.need import do_without

EXAMPLE, LAKE = "examples/minimal", "example-lake"


def make_lake(*databases: str) -> None:
    """Create the bucket and the Glue databases."""
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=LAKE)
    s3.put_bucket_notification_configuration(
        Bucket=LAKE, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    for name in databases:
        boto3.client("glue").create_database(DatabaseInput={"Name": name})


def install(folder: Path, environ: Mapping[str, str], overrides: Mapping[str, str]) -> Terraform:
    """Apply the example with these override files; return Terraform in its folder."""
    dist = folder / "dist"
    dist.mkdir()
    with zipfile.ZipFile(dist / "icemirror-trigger.zip", "w", zipfile.ZIP_STORED) as package:
        write_trigger(package)
    (dist / "icemirror_job.py").write_text("")
    with tarfile.open(dist / "icemirror-job.tar.gz", "w:gz"):
        pass
    try:
        terraform = Terraform(folder / "terraform", {**os.environ, **environ, "TF_VAR_dist": str(dist)})
        for name, content in {"emulators.tf": PROVIDER, **overrides}.items():
            (terraform.folder / EXAMPLE / name).write_text(content)
        terraform.init(EXAMPLE)
    except Unavailable as error:
        do_without(str(error))
    terraform.run("apply", "-auto-approve", "-input=false", "-no-color", at=EXAMPLE)
    return terraform


def root_module(applied: Terraform) -> dict[str, Any]:
    """Return the root module of the state."""
    module = json.loads(applied.run("show", "-json", at=EXAMPLE))["values"]["root_module"]
    assert isinstance(module, dict)
    return module


def resources(module: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the values of all resources of a type, in a module and its child modules."""
    direct = [resource["values"] for resource in module.get("resources", ()) if resource["type"] == kind]
    return direct + [found for child in module.get("child_modules", ()) for found in resources(child, kind)]


def policies_of(applied: Terraform) -> dict[str, str]:
    """Return the permissions of each role by its short name, from its inline and its managed policies."""
    module = root_module(applied)
    managed = {policy["arn"]: statements(policy["policy"]) for policy in resources(module, "aws_iam_policy")}
    attachments = resources(module, "aws_iam_role_policy_attachment")
    found = {}
    for inline in resources(module, "aws_iam_role_policy"):
        attached = [
            managed[attachment["policy_arn"]]
            for attachment in attachments
            if attachment["role"] == inline["role"]
        ]
        found[inline["name"]] = json.dumps(
            {"Statement": list(chain(statements(inline["policy"]), *attached))}
        )
    return found
