"""Columns and keys of unsupported types are refused with a specific error before any write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.type_refusals import REFUSALS, refusal_message


@pytest.mark.parametrize("name", REFUSALS)
def test_unsupported_type_is_refused_with_a_specific_error(tmp_path: Path, name: str) -> None:
    message = refusal_message(REFUSALS[name], tmp_path / "lab")
    assert message.startswith("shop.orders_changelog: ")
    assert message.endswith((".", "The file: ….parquet"))
