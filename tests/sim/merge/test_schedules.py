"""The whole merge without Spark, over adversarial schedules: the mirror equals the oracle after every snapshot."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from tests.oracle.key_pools import KEY_KINDS
from tests.sim.merge.schedule import run_schedule


@pytest.mark.parametrize("key", sorted(KEY_KINDS))
@pytest.mark.parametrize("version", [2, 3])
def test_mirror_equals_oracle_after_every_snapshot(tmp_path: Path, key: str, version: int) -> None:
    run_schedule(tmp_path, key, crc32(key.encode()), version=version)


@pytest.mark.parametrize("key", ["int", "string"])
def test_mirror_upgraded_between_merges_keeps_its_deletes(tmp_path: Path, key: str) -> None:
    run_schedule(tmp_path, key, crc32(key.encode()), version=2, upgrade_after=2)


@pytest.mark.parametrize("seed", [1, 2])
def test_null_lists_of_structs_stay_null(tmp_path: Path, seed: int) -> None:
    run_schedule(tmp_path, "int", seed, columns=("maybe_parts", "double"))
