"""Terraform's checks of our modules, without an account."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.infra.module_docs import MODULES, blocks, tables
from tests.infra.policies import faults
from tests.infra.terraform import OURS, Terraform, find_mirror
from tests.provision.cache import Unavailable
from tests.support.need import do_without


@pytest.fixture(scope="module")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    try:
        return Terraform(tmp_path_factory.mktemp("terraform"))
    except Unavailable as error:
        do_without(str(error))


def init(terraform: Terraform, at: str) -> None:
    try:
        terraform.init(at)
    except Unavailable as error:
        do_without(str(error))


def test_all_files_are_formatted(terraform: Terraform) -> None:
    assert terraform.run("fmt", "-check", "-recursive", "-list=true") == ""


def test_production_example_is_valid(terraform: Terraform) -> None:
    """Terraform's tests also plan it; test_terraform_apply.py applies the minimal example."""
    at = "examples/production"
    init(terraform, at)
    terraform.run("validate", at=at)


def test_terraform_tests_pass(terraform: Terraform) -> None:
    init(terraform, ".")
    printed = terraform.run("test", "-no-color")
    assert re.search(r"Success! (\d+) passed, 0 failed", printed), printed


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_module_describes_its_inputs_and_outputs(module: Path) -> None:
    found = list(blocks(module))
    assert {block.kind for block in found} == {"variable", "output"}
    for block in found:
        assert re.fullmatch(r"[A-Z`].+\.", block.description), f"{block.kind} {block.name}"
        assert block.kind == "output" or block.attribute("type"), block.name
    versions = (module / "versions.tf").read_text(encoding="utf-8")
    assert versions == (OURS / "versions.tf").read_text(encoding="utf-8")
    assert '">= 5.100, < 6.0"' in versions


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_readme_has_an_example_and_the_inputs_and_outputs_of_the_module(module: Path) -> None:
    text = (module / "README.md").read_text(encoding="utf-8")
    assert text.endswith(f"\n{tables(module)}"), "run `python -m tests.infra.module_docs`"
    example = re.search(r"```hcl\n(.*?)\n}\n", text, re.DOTALL)
    assert example
    given = set(re.findall(r"^  (\w+) +=", example[1], re.MULTILINE)) - {"source"}
    variables = [block for block in blocks(module) if block.kind == "variable"]
    assert given <= {block.name for block in variables}
    assert {block.name for block in variables if block.attribute("default") is None} <= given


def test_folder_has_the_layout_of_the_registry() -> None:
    for name in ("README.md", "main.tf", "variables.tf", "outputs.tf", "versions.tf"):
        assert (OURS / name).is_file(), name
    for example in (OURS / "examples").iterdir():
        assert {"README.md", "main.tf"} <= {file.name for file in example.iterdir()}, example.name


def test_examples_have_the_outputs_that_the_docs_use() -> None:
    text = (OURS.parents[1] / "docs" / "how-to" / "deploy-aws.md").read_text(encoding="utf-8")
    used = set(re.findall(r"terraform output (?:-raw )?(\w+)", text)) | {"configuration"}
    assert used == {"configuration", "application_id", "policies"}
    given = {block.name for block in blocks(OURS) if block.kind == "output"}
    (shown,) = [
        block for block in re.findall(r"^```hcl\n(.*?)^```", text, re.M | re.S) if "source =" in block
    ]
    roots = [shown, *((example / "main.tf").read_text() for example in (OURS / "examples").iterdir())]
    for root in roots:
        assert used <= set(re.findall(r'^output "(\w+)"', root, re.MULTILINE))
        assert set(re.findall(r"module\.icemirror\.(\w+)", root)) <= given


def test_policies_use_no_data_source() -> None:
    """Only a real provider evaluates the data source of a policy document."""
    for file in OURS.rglob("*.tf"):
        assert "aws_iam_policy_document" not in file.read_text(encoding="utf-8"), file


STATEMENT = '{"Statement": [{"Sid": "X", "Effect": "%s", "Action": ["%s"], "Resource": ["%s"]}]}'
TABLE = "arn:aws:glue:eu-central-1:1:table/shop/orders"


PLANTED = [
    ("job", "s3:*", "arn:aws:s3:::lake/raw/*", "has a wildcard"),
    ("job", "s3:GetObject", "arn:aws:s3:::lake/*", "a whole bucket"),
    ("job", "s3:GetObject", "*", "not an ARN"),
    ("job", "glue:GetTable", "arn:aws:glue:eu-central-1:1:table/*", "whole catalog"),
    ("job", "glue:GetTable", "arn:aws:glue:*:1:table/shop/orders", "any account or region"),
    ("job", "glue:GetTable", "arn:aws:glue:eu-central-1:1:table/*/orders", "a wildcard inside"),
    ("job", "s3:DeleteObject", "arn:aws:s3:::lake/mirrors/*", "only maintenance can delete"),
    ("job", "glue:DeleteTable", TABLE, "only maintenance can delete"),
    ("trigger", "s3:GetObject", "arn:aws:s3:::lake/raw/*", "must not read objects"),
    ("trigger", "iam:PassRole", "arn:aws:iam::1:role/job", "passed to any service"),
]


@pytest.mark.parametrize(
    ("role", "action", "resource", "fault"),
    PLANTED,
    ids=[f"{role} {action} {fault}" for role, action, _, fault in PLANTED],
)
def test_planted_permission_is_found(role: str, action: str, resource: str, fault: str) -> None:
    assert any(fault in found for found in faults(role, STATEMENT % ("Allow", action, resource)))


def test_permission_on_a_named_table_is_no_fault() -> None:
    assert not list(faults("job", STATEMENT % ("Allow", "glue:GetTable", TABLE)))
    assert list(faults("job", STATEMENT % ("Deny", "glue:GetTable", TABLE)))


def test_provider_mirror_is_found_in_the_locations_of_terraform(tmp_path: Path) -> None:
    mirror = tmp_path / ".terraform.d" / "plugins"
    (mirror / "registry.terraform.io/hashicorp/aws/5.100.0/any").mkdir(parents=True)
    assert find_mirror({"HOME": str(tmp_path)}) == mirror
