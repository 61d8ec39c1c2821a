"""The example `minimal`, applied to emulators of AWS, and what its outputs and state tell."""

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
from tests.infra.shown import of_type
from tests.infra.terraform import Terraform, Unavailable
from tests.need import do_without
from tests.services.lambda_package import write_trigger

AT, LAKE = "examples/minimal", "example-lake"


def make_lake(*databases: str) -> None:
    """The bucket, and databases for changelogs."""
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=LAKE)
    s3.put_bucket_notification_configuration(
        Bucket=LAKE, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    for name in databases:
        boto3.client("glue").create_database(DatabaseInput={"Name": name})


def install(folder: Path, environ: Mapping[str, str], overrides: Mapping[str, str]) -> Terraform:
    """Applied, with files of Terraform that override parts of the example."""
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
            (terraform.folder / AT / name).write_text(content)
        terraform.init(AT)
    except Unavailable as error:
        do_without(str(error))
    terraform.run("apply", "-auto-approve", "-input=false", "-no-color", at=AT)
    return terraform


def root_module(applied: Terraform) -> dict[str, Any]:
    """What was made."""
    module = json.loads(applied.run("show", "-json", at=AT))["values"]["root_module"]
    assert isinstance(module, dict)
    return module


def policies_of(applied: Terraform) -> dict[str, str]:
    """What each role may do, by the role's short name: its own policy, and the managed ones that are attached to it."""
    module = root_module(applied)
    managed = {one["arn"]: statements(one["policy"]) for one in of_type(module, "aws_iam_policy")}
    attached = of_type(module, "aws_iam_role_policy_attachment")
    found = {}
    for own in of_type(module, "aws_iam_role_policy"):
        more = [managed[one["policy_arn"]] for one in attached if one["role"] == own["role"]]
        found[own["name"]] = json.dumps({"Statement": list(chain(statements(own["policy"]), *more))})
    return found
