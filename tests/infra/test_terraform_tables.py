"""Terraform's `tables` and `discover`: every option passes through unchanged, and wrong options are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from icemirror.config_file.from_terraform import OUTPUT, from_terraform
from icemirror.config_file.load import load_settings
from icemirror.errors import BadConfig
from icemirror.settings import Settings
from tests.infra.table_samples import Table, choices, tables, terraform_options
from tests.infra.terraform import OURS, Terraform
from tests.provision.cache import Unavailable
from tests.support.need import do_without

PLAIN = {"changelog": "raw.orders_changelog", "mirror": "shop.orders"}
DISCOVERED = {"namespace": "raw", "match": "*_changelog", "mirror_namespace": "shop"}
REQUIRED = {"tables": PLAIN, "discover": DISCOVERED}
# Refused in the plan, because table_options.json lists names, values and patterns; with the hint of the error.
REFUSED_IN_PLAN: list[tuple[Table, str]] = [
    ({"on_bad_rows": "stop"}, "unknown option on_bad_rows."),
    ({"changelog_catalog": "lake"}, "unknown option changelog_catalog."),
    *(
        ({option: 1 if option == "format_version" else "wrong"}, f"Use one of: {', '.join(map(str, values))}")
        for option, values in choices().items()
    ),
    ({"min_interval": "soon"}, "Use a duration such as 500ms"),
    ({"tombstone_retention": "7 weeks"}, "Use a duration such as 500ms"),
    ({"group": "Large"}, "Use text that matches ^[a-z0-9]"),
]
# Accepted in the plan; icemirror checks the configuration when it is written to a file and when the function starts.
REFUSED_BY_SETTINGS: list[Table] = [
    {"sequence_column": ["a"], "sequence_format": {"a": "wrong"}},
    {"partition_by": ["week(a)"]},
    {"partition_by": ["bucket(a)"]},
    {"partition_by": ["bucket[0](a)"]},
    {"reject_limit": 0},
    {"reject_limit": 1.5},
    {"connector": "postgres"},
    {"columns": {"include": ["a"], "exclude": ["b"]}},
    {"append_only": True, "primary_keys": ["a"]},
]
# Valid in other deployments: in this one, jobs cannot write to the location, or Glue does not support the name.
REFUSED_IN_TERRAFORM: list[Table] = [
    {"rejects_table": "lake.shop.rejects"},
    {"table_properties": {"write.data.path": "s3://elsewhere/data"}},
]


def load(folder: Path, **given: list[Table]) -> Settings:
    path = folder / "icemirror.yaml"
    path.write_text(yaml.safe_dump({"iceberg": {"catalog": {"type": "glue"}}, **given}))
    return load_settings(path, {})


def test_table_options_json_is_generated_from_the_settings() -> None:
    found = json.loads((OURS / "table_options.json").read_text(encoding="utf-8"))
    assert found == terraform_options(), "run `python -m tests.infra.table_samples`"


def test_settings_accept_every_sample(tmp_path: Path) -> None:
    samples = [table for _, table in tables()]
    assert len(load(tmp_path, tables=samples).tables) == len(samples)
    assert load(tmp_path, tables=[PLAIN | REFUSED_IN_TERRAFORM[0]])


WRONG = [*(wrong for wrong, _ in REFUSED_IN_PLAN), *REFUSED_BY_SETTINGS]


@pytest.mark.parametrize("wrong", WRONG, ids=json.dumps)
def test_settings_refuse_a_wrong_option(wrong: Table, tmp_path: Path) -> None:
    debezium = {} if "connector" not in wrong or wrong["connector"] == "postgres" else {"profile": "debezium"}
    with pytest.raises(BadConfig):
        load(tmp_path, tables=[PLAIN | debezium | wrong])


@pytest.mark.parametrize("wrong", REFUSED_BY_SETTINGS, ids=json.dumps)
def test_config_from_terraform_refuses_wrong_options_that_the_plan_accepts(wrong: Table) -> None:
    value = {"iceberg": {"catalog": {"type": "glue"}}, "tables": [PLAIN | wrong]}
    with pytest.raises(BadConfig):
        from_terraform(json.dumps({OUTPUT: {"value": value}}), OUTPUT, {})


def as_discovered(option: str, table: Table) -> Table:
    """Return an entry of `discover` with the same options."""
    options = {key: value for key, value in table.items() if key not in PLAIN}
    return {**DISCOVERED, "match": f"*_{option}", **options}


def variables(variable: str, entries: list[Table]) -> str:
    given: dict[str, list[Table]] = {"tables": [], "discover": [], variable: entries}
    return "".join(f"    {key} = {json.dumps(value)}\n" for key, value in given.items())


def pass_through_run(name: str, variable: str, samples: list[tuple[str, Table]]) -> str:
    """Return a run which asserts that the configuration contains these entries unchanged."""
    checks = "".join(
        f"  assert {{\n"
        f"    condition     = jsonencode(output.configuration.{variable}[{index}]) == jsonencode({json.dumps(entry)})\n"
        f"    error_message = {json.dumps(f'{option} is written as {json.dumps(entry)}.')}\n"
        f"  }}\n"
        for index, (option, entry) in enumerate(samples)
    )
    body = variables(variable, [entry for _, entry in samples])
    return f'run "{name}" {{\n  variables {{\n{body}  }}\n\n{checks}}}\n'


def refused_run(name: str, variable: str, wrong: Table) -> str:
    """Return a run in which a variable's validation must fail."""
    body = variables(variable, [REQUIRED[variable] | wrong])
    expected = f"  expect_failures = [var.{variable}]\n"
    return f'run "{name}" {{\n  command = plan\n\n  variables {{\n{body}  }}\n\n{expected}}}\n'


@pytest.fixture(scope="module")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    try:
        copy = Terraform(tmp_path_factory.mktemp("terraform"))
        copy.init()
    except Unavailable as error:
        do_without(str(error))
    return copy


def write_test(terraform: Terraform, name: str, runs: list[str]) -> str:
    """Write a test file with the mock provider of wiring.tftest.hcl; return the filter that selects it."""
    wiring = (OURS / "tests" / "wiring.tftest.hcl").read_text(encoding="utf-8")
    mock_provider = wiring[: wiring.index('\nrun "')]
    path = terraform.folder / "tests" / f"{name}.tftest.hcl"
    path.write_text(mock_provider + "\n" + "\n".join(runs), encoding="utf-8")
    return f"-filter=tests/{name}.tftest.hcl"


def test_options_reach_the_configuration_unchanged(terraform: Terraform) -> None:
    samples = list(tables())
    discovered = [
        (option, as_discovered(option, table)) for option, table in samples if option != "rejects_table"
    ]
    runs = [
        pass_through_run(
            f"{variable}_{start}", variable, entries[start : start + 40]
        )  # a function's environment has room for 40
        for variable, entries in (("tables", samples), ("discover", discovered))
        for start in range(0, len(entries), 40)
    ]
    printed = terraform.run("test", "-no-color", write_test(terraform, "pass_through", runs))
    assert f"Success! {len(runs)} passed, 0 failed" in printed


@pytest.mark.parametrize("variable", ["tables", "discover"])
def test_plan_reports_every_wrong_option_of_every_entry(terraform: Terraform, variable: str) -> None:
    entries = [REQUIRED[variable] | wrong for wrong, _ in REFUSED_IN_PLAN]
    run = f'run "wrong" {{\n  command = plan\n\n  variables {{\n{variables(variable, entries)}  }}\n}}\n'
    selected = write_test(terraform, f"wrong_{variable}", [run])
    printed = terraform.fail("test", "-no-color", selected)
    name = "shop.orders" if variable == "tables" else "raw"
    assert [error for error in plan_errors(name) if error not in printed] == []


def plan_errors(name: str) -> Iterator[str]:
    """Yield the error message for each wrong option of the table or database."""
    for wrong, hint in REFUSED_IN_PLAN:
        ((option, value),) = wrong.items()
        known = option in terraform_options()["names"]["tables"]
        yield f"{name}: {option} is {json.dumps(value)}. {hint}" if known else f"{name}: {hint}"


def test_plan_refuses_locations_that_the_roles_cannot_write(terraform: Terraform) -> None:
    runs = [
        refused_run(f"{variable}_{next(iter(wrong))}", variable, wrong)
        for variable in REQUIRED
        for wrong in REFUSED_IN_TERRAFORM
    ]
    printed = terraform.run("test", "-no-color", write_test(terraform, "refused_in_terraform", runs))
    assert f"Success! {len(runs)} passed, 0 failed" in printed
