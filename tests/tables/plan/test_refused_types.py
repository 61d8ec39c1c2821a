"""Columns and keys of types that are not mirrored are refused by name, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.type_refusals import REFUSALS, refuse


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_not_mirrored_is_refused_by_name(tmp_path: Path, name: str) -> None:
    words = refuse(REFUSALS[name], tmp_path / "lab")
    assert words.startswith("shop.orders_changelog: ")
    assert words.endswith((".", "The file: ….parquet"))
