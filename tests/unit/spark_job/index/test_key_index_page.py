"""docs/reference/key-index.md agrees with the code: test vectors, field names and numbers."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import DecimalType, IcebergType, LongType, StringType

from spark_job.index import blocks, orders, plan_index_merge, puffin, root, segment, tiers
from spark_job.index.key_codec import DEFAULT_HASH_BITS, Encoding, choose_codec
from spark_job.index.root import Root

TEXT = (Path(__file__).parents[4] / "docs" / "reference" / "key-index.md").read_text()
VECTORS: dict[str, tuple[list[IcebergType], list[Any]]] = {
    "long `0`": ([LongType()], [0]),
    "long `-1`": ([LongType()], [-1]),
    'string `"ab"`': ([StringType()], ["ab"]),
    'strings `"ab"`, `"c"`': ([StringType(), StringType()], ["ab", "c"]),
    'strings `"a"`, `"bc"`': ([StringType(), StringType()], ["a", "bc"]),
    'long `1`, string `"2"`': ([LongType(), StringType()], [1, "2"]),
    "decimal(9, 2) `1.50`": ([DecimalType(9, 2)], [Decimal("1.50")]),
}


@pytest.mark.parametrize("name", VECTORS)
def test_documented_vector_is_the_result_of_the_codec(name: str) -> None:
    kinds, values = VECTORS[name]
    keys = choose_codec(kinds).encode([pa.array([value]) for value in values])
    high = "" if keys.hi is None else f"`{int(keys.hi[0]):#018x}`"
    low = f"`{int(keys.lo[0]):#0{18 if keys.hi is None else 10}x}`"
    assert f"| {name} | {high}{' ' if high else ''}| {low} |" in TEXT


def test_every_documented_vector_is_checked() -> None:
    assert len(re.findall(r"\| `0x[0-9a-f]+` \|$", TEXT, re.MULTILINE)) == len(VECTORS)


def test_documented_root_has_exactly_the_fields_of_a_root() -> None:
    example = TEXT.split("```json\n")[1].split("```")[0]
    read = Root.model_validate_json(example)
    assert read.model_dump(mode="json", by_alias=True) == json.loads(example)


def test_documented_blob_names_match_the_code() -> None:
    for name in (root.BLOB_TYPE, segment.BLOB_TYPE, segment.DIRECTORY_TYPE, orders.BLOB_TYPE):
        assert f"`{name}`" in TEXT
    assert all(f"`{encoding.value}`" in TEXT for encoding in Encoding)


def test_documented_numbers_match_the_code() -> None:
    assert segment.BLOCK_ROWS == 256
    assert DEFAULT_HASH_BITS == 96
    assert (tiers.FAN_IN, tiers._TIER_0_ENTRIES) == (4, 4096)
    assert (
        tiers._MIN_REWRITTEN_ENTRIES,
        tiers._REWRITTEN_PER_ADDED_ENTRY,
        plan_index_merge.MAX_STEP_ENTRIES,
    ) == (
        131_072,
        8,
        1 << 20,
    )
    assert (blocks.BLOCKS_PER_READ, blocks._GAP_BLOCKS) == (1024, 3)
    assert (puffin._MAX_FOOTER_BYTES, puffin._MAX_BLOBS) == (16 << 20, 10_000)
    assert (root._MAX_ROOT_BYTES, blocks._MAX_DIRECTORY_BYTES) == (256 << 20, 1 << 30)
    assert orders._ROW_GROUP_ENTRIES == 16_384
