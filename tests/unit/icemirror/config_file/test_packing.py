"""A configuration in an environment variable."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pytest

from icemirror.config_file.packing import PACKED_CONFIG_VARIABLE, pack_config, unpack_config
from icemirror.errors import BadConfig


def test_packed_configuration_is_written_to_a_file(tmp_path: Path) -> None:
    text = "tables: []  # é\n"
    assert pack_config(text) == pack_config(text)
    path = unpack_config({PACKED_CONFIG_VARIABLE: pack_config(text)}, tmp_path)
    assert path == tmp_path / "icemirror.yaml"
    assert path.read_text(encoding="utf-8") == text


def test_without_the_variable_no_file_is_written(tmp_path: Path) -> None:
    assert unpack_config({}, tmp_path) is None
    assert unpack_config({PACKED_CONFIG_VARIABLE: ""}, tmp_path) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "packed",
    [
        "tables: []",
        base64.b64encode(b"tables: []").decode(),
        base64.b64encode(gzip.compress(b"\xff")).decode(),
        base64.b64encode(gzip.compress(b"tables: []")[:-9]).decode(),
        base64.b64encode(gzip.compress(b" " * (2 << 20))).decode(),
    ],
    ids=["not base64", "not gzip", "not text", "cut", "huge"],
)
def test_unreadable_value_is_refused_with_the_variables_name(packed: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=PACKED_CONFIG_VARIABLE):
        unpack_config({PACKED_CONFIG_VARIABLE: packed}, tmp_path)
