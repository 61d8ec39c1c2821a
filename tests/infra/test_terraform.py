"""Terraform's own checks of our modules, without an account."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.policies import faults
from tests.infra.terraform import OURS, Terraform, Unavailable, find_mirror
from tests.need import do_without

MODULES = [OURS, *sorted((OURS / "modules").iterdir())]
BLOCK = re.compile(r'^(variable|output) "(\w+)" \{\n(.*?)^\}', re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    try:
        return Terraform(tmp_path_factory.mktemp("terraform"))
    except Unavailable as error:
        do_without(str(error))


def ready(terraform: Terraform, at: str) -> None:
    try:
        terraform.init(at)
    except Unavailable as error:
        do_without(str(error))


def test_everything_is_in_terraforms_own_form(terraform: Terraform) -> None:
    assert terraform.run("fmt", "-check", "-recursive", "-list=true") == ""


def test_the_example_production_is_valid(terraform: Terraform) -> None:
    """It is planned by Terraform's own tests; the example `minimal` is applied: test_terraform_apply.py."""
    at = "examples/production"
    ready(terraform, at)
    terraform.run("validate", at=at)


def test_variables_permissions_and_wiring_are_as_terraforms_tests_say(terraform: Terraform) -> None:
    ready(terraform, ".")
    said = terraform.run("test", "-no-color")
    assert re.search(r"Success! (\d+) passed, 0 failed", said), said


def blocks(module: Path) -> Iterator[tuple[str, str, str]]:
    for file in sorted(module.glob("*.tf")):
        yield from BLOCK.findall(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_says_what_it_takes_and_gives(module: Path) -> None:
    found = list(blocks(module))
    assert {kind for kind, _, _ in found} == {"variable", "output"}
    for kind, name, body in found:
        assert re.search(r'^  description += "[A-Z`].+\."$', body, re.MULTILINE), f"{kind} {name}"
        assert kind == "output" or re.search(r"^  type +=", body, re.MULTILINE), f"{kind} {name}"
    versions = (module / "versions.tf").read_text(encoding="utf-8")
    assert versions == (OURS / "versions.tf").read_text(encoding="utf-8")
    assert '">= 5.100, < 6.0"' in versions


def test_the_folder_has_the_registrys_layout() -> None:
    """Without a README a module below `modules` is a part of ours, and not offered by itself."""
    for name in ("README.md", "main.tf", "variables.tf", "outputs.tf", "versions.tf"):
        assert (OURS / name).is_file(), name
    for example in (OURS / "examples").iterdir():
        assert {"README.md", "main.tf"} <= {file.name for file in example.iterdir()}, example.name
    assert not list((OURS / "modules").glob("*/README.md"))
    shown = re.search(r"```hcl\n(.*?)```", (OURS / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown
    given = set(re.findall(r"^  (\w+) +=", shown[1].partition("\n}\n")[0], re.MULTILINE)) - {"source"}
    taken = {name for kind, name, _ in blocks(OURS) if kind == "variable"}
    assert given <= taken


def test_outputs_that_the_documents_ask_for_are_those_of_their_roots() -> None:
    text = (OURS.parents[1] / "docs" / "deploy-aws.md").read_text(encoding="utf-8")
    asked = set(re.findall(r"terraform output (?:-raw )?(\w+)", text)) | {"configuration"}
    assert asked == {"configuration", "application_id", "policies"}
    given = {name for kind, name, _ in blocks(OURS) if kind == "output"}
    (shown,) = [one for one in re.findall(r"^```hcl\n(.*?)^```", text, re.M | re.S) if "source =" in one]
    roots = [shown, *((example / "main.tf").read_text() for example in (OURS / "examples").iterdir())]
    for root in roots:
        assert asked <= set(re.findall(r'^output "(\w+)"', root, re.MULTILINE))
        assert set(re.findall(r"module\.icemirror\.(\w+)", root)) <= given


def test_policies_are_text_that_can_be_judged() -> None:
    """A data source's document is known only to a real provider."""
    for file in OURS.rglob("*.tf"):
        assert "aws_iam_policy_document" not in file.read_text(encoding="utf-8"), file


STATEMENT = '{"Statement": [{"Sid": "X", "Effect": "%s", "Action": ["%s"], "Resource": ["%s"]}]}'
TABLE = "arn:aws:glue:eu-central-1:1:table/shop/orders"


@pytest.mark.parametrize(
    ("role", "action", "resource", "said"),
    [
        ("job", "s3:*", "arn:aws:s3:::lake/raw/*", "is a wildcard"),
        ("job", "s3:GetObject", "arn:aws:s3:::lake/*", "a whole bucket"),
        ("job", "s3:GetObject", "*", "no ARN"),
        ("job", "glue:GetTable", "arn:aws:glue:eu-central-1:1:table/*", "whole catalog"),
        ("job", "glue:GetTable", "arn:aws:glue:*:1:table/shop/orders", "any account or region"),
        ("job", "glue:GetTable", "arn:aws:glue:eu-central-1:1:table/*/orders", "a wildcard inside"),
        ("job", "s3:DeleteObject", "arn:aws:s3:::lake/mirrors/*", "maintenance alone"),
        ("job", "glue:DeleteTable", TABLE, "maintenance alone"),
        ("trigger", "s3:GetObject", "arn:aws:s3:::lake/raw/*", "reads no objects"),
        ("trigger", "iam:PassRole", "arn:aws:iam::1:role/job", "passed to anyone"),
    ],
)
def test_a_planted_permission_is_found(role: str, action: str, resource: str, said: str) -> None:
    assert any(said in fault for fault in faults(role, STATEMENT % ("Allow", action, resource)))


def test_what_is_named_is_no_fault() -> None:
    assert not list(faults("job", STATEMENT % ("Allow", "glue:GetTable", TABLE)))
    assert list(faults("job", STATEMENT % ("Deny", "glue:GetTable", TABLE)))


def test_a_mirror_of_providers_is_found_where_terraform_looks(tmp_path: Path) -> None:
    place = tmp_path / ".terraform.d" / "plugins"
    (place / "registry.terraform.io/hashicorp/aws/5.100.0/any").mkdir(parents=True)
    assert find_mirror({"HOME": str(tmp_path)}) == place
