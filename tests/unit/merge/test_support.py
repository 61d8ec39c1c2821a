from __future__ import annotations

from pathlib import Path

import pytest

from icemirror.config_file.load import load_settings
from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.plan.support import require_supported
from tests.mirrors import write_config


def table(folder: Path, options: str) -> TableSettings:
    return load_settings(write_config(folder, options), {}).tables[0]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("append_only: true\non_bad_row: quarantine", "append_only with on_bad_row: quarantine"),
    ],
)
def test_a_setting_whose_feature_is_to_come_is_refused_by_name(
    tmp_path: Path, options: str, named: str
) -> None:
    with pytest.raises(Invalid) as caught:
        require_supported(table(tmp_path, options))
    message = str(caught.value)
    assert message.startswith("lab.world: not supported by this version: ")
    assert named in message


@pytest.mark.parametrize(
    "options",
    [
        "",
        "profile: generic\noperation_column: op\nsequence_column: [a, b]",
        "profile: debezium\nconnector: postgres",
        "profile: dms\nsequence_column: ts",
        "profile: kafka-connect",
        "columns: {exclude: []}",
        "metadata_columns: {}",
        "partition_by: [day(ts)]",
        "table_properties: {a: b}",
        "primary_keys: [a]",
        "format_version: 3",
        "append_only: true",
        "on_expired_cursor: rebuild",
        "on_bad_row: quarantine",
        "delete_mode: soft",
    ],
)
def test_what_there_is_passes(tmp_path: Path, options: str) -> None:
    require_supported(table(tmp_path, options))
