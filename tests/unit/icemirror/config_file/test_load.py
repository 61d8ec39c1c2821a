from __future__ import annotations

from pathlib import Path

import pytest

from icemirror.config_file.find import EXAMPLE, find_config
from icemirror.config_file.load import load_settings
from icemirror.errors import BadConfig, Exit, exit_code
from icemirror.settings.trigger import SqliteState
from tests.unit.icemirror.settings.samples import CATALOG, TABLES, Load, Refuse


def test_all_problems_are_listed_in_file_order(refuse: Refuse) -> None:
    text = """\
project_ref: shop
iceberg:
  catalog: {type: slq, uri: sqlite:////data/c.db}
  catlogs: {}
poll_interval: 3s
tables:
  - namespace: shop
    changelog_table: orders_changelog
    mirorr_table: orders
    primary_keys: id
    profile: supabase
  - changelog: orders
    partition_by: [days(ts)]
merge_interval: 5 min
batch_size: many
trigger:
  state: {type: sqllite}
  launcher: {type: emr-serverless, app_id: a, execution_role_arn: "arn:aws:iam::1:role/r"}
  max_failures: 0
"""
    assert refuse(text) == [
        (
            "icemirror.yaml:3: iceberg.catalog.type: expected one of rest, sql, glue, hive "
            "(for merge only: dynamodb, bigquery, in-memory); found 'slq'; did you mean sql?"
        ),
        "icemirror.yaml:4: iceberg.catlogs: unknown key; did you mean catalogs?",
        "icemirror.yaml:5: poll_interval: unknown key; it belongs under trigger",
        "icemirror.yaml:9: tables[0].mirorr_table: unknown key; did you mean mirror_table?",
        "icemirror.yaml:10: tables[0].primary_keys: expected a list: [id]",
        (
            "icemirror.yaml:11: tables[0].profile: expected supabase-etl, debezium, dms, kafka-connect or generic; "
            "found 'supabase'; did you mean supabase-etl?"
        ),
        "icemirror.yaml:13: tables[1].partition_by[0]: 'days(ts)': unknown transform 'days'; did you mean day?",
        "icemirror.yaml:14: merge_interval: '5 min' is not a duration: the units are ms, s, m, h and d",
        "icemirror.yaml:15: batch_size: expected a whole number; found 'many'",
        (
            "icemirror.yaml:17: trigger.state.type: expected dynamodb, kubernetes or sqlite; found 'sqllite'; "
            "did you mean sqlite?"
        ),
        "icemirror.yaml:18: trigger.launcher.app_id: unknown key; did you mean application_id?",
        (
            "icemirror.yaml:18: trigger.launcher.entry_point: missing: expected location of "
            "`icemirror_job.py`: uploaded (`s3://…`) or in a custom image (`local://…`)"
        ),
        "icemirror.yaml:19: trigger.max_failures: must be at least 1; found '0'",
    ]


def test_number_above_its_limit_is_reported_with_its_value(refuse: Refuse) -> None:
    (found,) = refuse(f"{CATALOG}tables: [{{changelog: raw.o, mirror: shop.o, reject_limit: 7}}]\n")
    assert found.endswith("tables[0].reject_limit: must be at most 1; found '7'")


def test_several_problems_have_a_first_line_with_their_count_and_exit_code_2(
    load: Load, tmp_path: Path
) -> None:
    with pytest.raises(BadConfig) as refused:
        load(f"a: 1\nb: 2\n{CATALOG}{TABLES}")
    assert str(refused.value).splitlines()[0] == f"2 problems in {tmp_path}/icemirror.yaml"
    assert exit_code(refused.value) is Exit.USAGE


def test_dependent_settings_are_checked_despite_an_unknown_key(refuse: Refuse) -> None:
    found = refuse(f"{CATALOG}{TABLES}trigger: {{quiet_perod: 1m, max_wait: 30s}}\n")
    assert found == [
        "icemirror.yaml:3: trigger.quiet_perod: unknown key; did you mean quiet_period?",
        "icemirror.yaml:3: trigger.quiet_period: is longer than max_wait, so it would have no effect",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "the configuration file is empty: icemirror.yaml"),
        (b"# nothing\n", "the configuration file is empty: icemirror.yaml"),
        (b"- a\n", "icemirror.yaml:1: expected keys and values at the top"),
        (b"hello\n", "icemirror.yaml:1: expected keys and values at the top"),
        (b"a: \xff\xfe\n", "the configuration file is not UTF-8 text (byte 3): icemirror.yaml"),
        ("a: 1\n".encode("utf-16"), "the configuration file is not UTF-8 text (byte 0): icemirror.yaml"),
        (b"a: [\n", "icemirror.yaml:2: not valid YAML"),
        (b"tables: []\n", "icemirror.yaml:1: iceberg: missing: add a section with `catalog`"),
        (b"iceberg: 3\ntables: []\n", "icemirror.yaml:1: iceberg: expected a mapping of keys to values"),
    ],
)
def test_file_without_a_configuration_is_refused(refuse: Refuse, text: bytes, problem: str) -> None:
    assert refuse(text)[0].startswith(problem)


def test_byte_order_mark_is_ignored(load: Load) -> None:
    assert load(b"\xef\xbb\xbf" + (CATALOG + TABLES).encode()).tables[0].name == "shop.orders"


def test_duplicate_key_is_reported_with_other_problems(refuse: Refuse) -> None:
    assert refuse(f"{CATALOG}{TABLES}batch_size: 1\nbatch_size: 0\nnonsense: 1\n") == [
        "icemirror.yaml:4: batch_size: given twice; first in line 3",
        (
            "icemirror.yaml:5: nonsense: unknown key; known keys: project_ref, environment, iceberg, tables, discover, "
            "merge_interval, batch_size, index_location, job, trigger, telemetry, sentry"
        ),
    ]


def test_problem_of_the_whole_file_does_not_hide_others(refuse: Refuse) -> None:
    found = refuse(f"{CATALOG}{TABLES}? [a, b]\n: c\nbatch_size: 0\n")
    assert [line.split(": ", 1)[1] for line in found] == [
        "a key must be plain text",
        "batch_size: must be more than 0; found '0'",
    ]


def test_folder_and_missing_file_are_reported(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="found a folder"):
        load_settings(tmp_path, {})
    with pytest.raises(BadConfig, match="does not exist"):
        load_settings(tmp_path / "nowhere.yaml", {})


def test_empty_section_equals_a_missing_section(load: Load) -> None:
    settings = load(f"{CATALOG}{TABLES}job:\ntrigger:\ndiscover:\nmerge_interval:\nbatch_size:\n")
    assert settings == load(CATALOG + TABLES)


def test_null_is_kept_if_it_is_a_valid_value(load: Load) -> None:
    assert load(f"{CATALOG}{TABLES}telemetry: {{prometheus: null}}\n").telemetry.prometheus is None


def test_state_is_next_to_the_configuration_by_default(load: Load, tmp_path: Path) -> None:
    def path(text: str) -> Path:
        state = load(CATALOG + TABLES + text).trigger.state
        assert isinstance(state, SqliteState)
        return state.path

    assert path("") == tmp_path / ".icemirror" / "state.db"
    assert path("trigger: {state: {type: sqlite, path: run/state.db}}") == tmp_path / "run" / "state.db"
    assert path("trigger: {state: {type: sqlite, path: /data/state.db}}") == Path("/data/state.db")


def test_settings_contain_the_absolute_path_of_their_file(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(CATALOG + TABLES)
    monkeypatch.chdir(tmp_path)
    settings = load_settings(Path("icemirror.yaml"), {})
    assert settings.source_path == tmp_path / "icemirror.yaml"
    assert isinstance(settings.trigger.state, SqliteState)
    assert settings.trigger.state.path.is_absolute()


def test_option_overrides_the_environment_which_overrides_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("given", "ours", "older", "icemirror.yaml"):
        (tmp_path / name).touch()
    environ = {"ICEMIRROR_CONFIG": "ours", "CONFIG_FILE": "older"}
    assert find_config("given", environ) == Path("given")
    assert find_config(None, environ) == Path("ours")
    assert find_config(None, {"CONFIG_FILE": "older", "ICEMIRROR_CONFIG": ""}) == Path("older")
    assert find_config(None, {}) == Path("icemirror.yaml")


def test_error_of_a_missing_file_states_where_its_name_comes_from(tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere")
    with pytest.raises(BadConfig, match=r"configuration file not found \(from --config\): "):
        find_config(missing, {})
    with pytest.raises(BadConfig, match=r"configuration file not found \(from \$CONFIG_FILE\): "):
        find_config(None, {"CONFIG_FILE": missing})


def test_error_without_a_file_shows_an_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Load
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadConfig) as refused:
        find_config(None, {})
    assert EXAMPLE in str(refused.value)
    assert load(EXAMPLE, {"HOME": "/home/me"}).catalog_properties(None) == {
        "type": "sql",
        "uri": "sqlite:////home/me/lake/catalog.db",
        "warehouse": "file:///home/me/lake/warehouse",
    }


@pytest.mark.parametrize("empty", ["", "  "])
def test_empty_config_option_is_refused(empty: str) -> None:
    with pytest.raises(BadConfig, match="--config is empty"):
        find_config(empty, {"ICEMIRROR_CONFIG": "ours"})


def test_inaccessible_path_is_reported() -> None:
    with pytest.raises(BadConfig, match=r"cannot read the configuration file \(File name too long\)"):
        find_config("x" * 5000, {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x: [", "a [ or { is not closed"),
        ("x: {a: b", "a [ or { is not closed"),
        ('x: "a', "a quote is not closed"),
    ],
)
def test_error_names_an_unclosed_bracket_or_quote(refuse: Refuse, text: str, problem: str) -> None:
    (found,) = refuse(text)
    assert found.endswith(f"not valid YAML: {problem}")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            "profile: dms",
            "sequence_column: missing: the profile dms has no default. Name the column with the commit",
        ),
        (
            "profile: generic, upsert_only: true",
            "sequence_column: missing: the profile generic has no default. Name",
        ),
        (
            "profile: generic, sequence_column: v",
            "operation_column: missing: the profile generic has no default. Name",
        ),
    ],
)
def test_error_describes_the_missing_column(refuse: Refuse, options: str, problem: str) -> None:
    (found,) = refuse(f"{CATALOG}tables: [{{changelog: raw.o, mirror: shop.o, {options}}}]\n")
    assert problem in found
