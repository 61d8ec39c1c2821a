"""Terraform's `tables` and `discover` against icemirror's own settings: none missing, changed, or wrong and let by."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from icemirror.errors import BadConfig
from icemirror.settings import Settings, load_settings
from icemirror.settings.discovery import ChangelogPattern
from tests.infra.table_samples import OPTIONS, Table, attributes, choices, tables
from tests.infra.terraform import OURS, Terraform, Unavailable
from tests.need import do_without

PLAIN = {"changelog": "raw.orders_changelog", "mirror": "shop.orders"}
FOUND = {"namespace": "raw", "match": "*_changelog", "mirror_namespace": "shop"}
# For each option with listed values one that is not among them; then what else is wrong alone or together.
WRONG: list[Table] = [
    *({"profile": "debezium", option: 1 if option == "format_version" else "wrong"} for option in choices()),
    {"sequence_column": ["a"], "sequence_format": {"a": "wrong"}},
    {"min_interval": "soon"},
    {"tombstone_retention": "7 weeks"},
    {"group": "Large"},
    {"partition_by": ["week(a)"]},
    {"partition_by": ["bucket(a)"]},
    {"partition_by": ["bucket[0](a)"]},
    {"reject_limit": 0},
    {"reject_limit": 1.5},
    {"connector": "postgres"},
    {"columns": {"include": ["a"], "exclude": ["b"]}},
    {"append_only": True, "primary_keys": ["a"]},
]
# What is right elsewhere: there, this installation's jobs may not write, or Glue has no such name.
WRONG_HERE: list[Table] = [
    {"rejects_table": "lake.shop.rejects"},
    {"table_properties": {"write.data.path": "s3://elsewhere/data"}},
]


def load(folder: Path, **given: list[Table]) -> Settings:
    """What icemirror makes of tables."""
    path = folder / "icemirror.yaml"
    path.write_text(yaml.safe_dump({"iceberg": {"catalog": {"type": "glue"}}, **given}))
    return load_settings(path, {})


def declared(variable: str) -> dict[str, str]:
    """The attributes of a variable's objects, each with its type."""
    text = (OURS / "tables.tf").read_text(encoding="utf-8")
    found = re.search(
        rf'^variable "{variable}" \{{\n  type = list\(object\(\{{\n(.*?)^  \}}\)\)', text, re.M | re.S
    )
    assert found, variable
    return dict(re.findall(r"^    (\w+) += (.+)$", found[1], re.M))


@pytest.mark.parametrize(
    ("variable", "names"),
    [("tables", set(PLAIN)), ("discover", set(ChangelogPattern.model_fields))],
)
def test_every_option_of_the_settings_is_one_of_terraforms(variable: str, names: set[str]) -> None:
    found = declared(variable)
    assert set(found) == OPTIONS | names
    for option in OPTIONS:
        inner = re.search(r"object\(\{(.*)\}\)", found[option])
        assert set(re.findall(r"(\w+) = ", inner[1]) if inner else ()) == attributes(option), option


def test_what_is_tried_is_what_the_settings_take(tmp_path: Path) -> None:
    every = [table for _, table in tables()]
    assert len(load(tmp_path, tables=every).tables) == len(every)
    for table in WRONG:
        with pytest.raises(BadConfig):
            load(tmp_path, tables=[PLAIN | table])
    assert load(tmp_path, tables=[PLAIN | table for table in WRONG_HERE[:1]])


def as_found(option: str, table: Table) -> Table:
    """The same options, for tables that are discovered."""
    return {
        **FOUND,
        "match": f"*_{option}",
        **{key: value for key, value in table.items() if key not in PLAIN},
    }


def asserted(name: str, condition: str) -> str:
    return f"  assert {{\n    condition     = {condition}\n    error_message = {json.dumps(name)}\n  }}\n"


def written(variable: str, given: list[tuple[str, Table]]) -> str:
    """A run in which the configuration must have these entries as they are."""
    stated = {"tables": [], "discover": [], variable: [table for _, table in given]}
    body = "".join(f"    {key} = {json.dumps(value)}\n" for key, value in stated.items())
    checks = "".join(
        asserted(
            f"{option} is written as {json.dumps(table)}.",
            f"jsonencode(output.configuration.{variable}[{at}]) == jsonencode({json.dumps(table)})",
        )
        for at, (option, table) in enumerate(given)
    )
    return f'run "{variable}_are_written_as_they_are" {{\n  variables {{\n{body}  }}\n\n{checks}}}\n'


def refused(at: int, variable: str, wrong: Table) -> str:
    """A run in which this must be found wrong."""
    names = PLAIN if variable == "tables" else FOUND
    given: dict[str, list[Table]] = {"tables": [], "discover": [], variable: [names | wrong]}
    body = "".join(f"    {key} = {json.dumps(value)}\n" for key, value in given.items())
    name = f"{variable}_{at}_{next(reversed(wrong))}"
    expected = f"  expect_failures = [var.{variable}]\n"
    return f'run "{name}" {{\n  command = plan\n\n  variables {{\n{body}  }}\n\n{expected}}}\n'


@pytest.fixture(scope="module")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    try:
        made = Terraform(tmp_path_factory.mktemp("terraform"))
        made.init()
    except Unavailable as error:
        do_without(str(error))
    return made


def test_options_are_written_as_they_are(terraform: Terraform) -> None:
    every = list(tables())
    parts = [every[at : at + 40] for at in range(0, len(every), 40)]  # what a function's environment holds
    found = [(option, as_found(option, table)) for option, table in every if option != "rejects_table"]
    runs = [
        written("tables", part).replace("tables_are", f"tables_{at}_are") for at, part in enumerate(parts)
    ]
    runs.append(written("discover", found[:40]))
    runs.append(written("discover", found[40:]).replace("discover_are", "discover_rest_are"))
    wiring = (OURS / "tests" / "wiring.tftest.hcl").read_text(encoding="utf-8")
    pretending = wiring[: wiring.index('\nrun "')]  # its provider, and what else there must be
    (terraform.folder / "tests" / "written.tftest.hcl").write_text(
        pretending + "\n" + "\n".join(runs), encoding="utf-8"
    )
    said = terraform.run("test", "-no-color", "-filter=tests/written.tftest.hcl")
    assert f"Success! {len(runs)} passed, 0 failed" in said


@pytest.mark.parametrize("variable", ["tables", "discover"])
def test_what_the_settings_refuse_terraform_refuses_before_anything_is_made(
    terraform: Terraform, variable: str
) -> None:
    alone = (
        terraform.folder / "alone" / variable
    )  # these variables without what is made of them: no provider, no wait
    (alone / "tests").mkdir(parents=True)
    shutil.copy(OURS / "tables.tf", alone)
    (alone / "mirrors.tf").write_text('variable "mirrors" {\n  default = "s3://lake/mirrors/"\n}\n')
    runs = [refused(at, variable, wrong) for at, wrong in enumerate([*WRONG, *WRONG_HERE])]
    (alone / "tests" / "wrong.tftest.hcl").write_text("\n".join(runs), encoding="utf-8")
    at = str(alone.relative_to(terraform.folder))
    terraform.run("init", "-input=false", "-backend=false", at=at)
    said = terraform.run("test", "-no-color", at=at)
    assert f"Success! {len(runs)} passed, 0 failed" in said
