"""Merges through proxies that inject faults into catalog and storage requests, before and after their effect."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.services.fault_lakes import faulty_glue, faulty_nessie, faulty_rest
from tests.services.fault_run import assert_mirror_equals_oracle, run_faults
from tests.services.glue import Glue
from tests.services.nessie import Nessie
from tests.services.rest_catalog import RestCatalog
from tests.services.s3proxy import S3Proxy

COMMITS = 6


@pytest.fixture
def seed() -> int:
    chosen = random.SystemRandom().randrange(1 << 32)
    print(f"seed {chosen}")
    return chosen


def test_merge_survives_faults_of_a_rest_catalog_and_s3(
    tmp_path: Path, rest: RestCatalog, s3: S3Proxy, seed: int
) -> None:
    with faulty_rest(rest, s3, seed) as (lake, plans):
        world, surfaced = run_faults(tmp_path, lake, plans, seed, COMMITS)
        print(surfaced)
        assert_mirror_equals_oracle(world, seed)


def test_merge_survives_faults_of_glue_and_s3(
    tmp_path: Path, glue_server: Glue, s3: S3Proxy, seed: int
) -> None:
    with faulty_glue(glue_server, s3, seed) as (lake, plans):
        world, surfaced = run_faults(tmp_path, lake, plans, seed, COMMITS)
        print(surfaced)
        assert_mirror_equals_oracle(world, seed)


def test_merge_survives_faults_of_nessie_and_s3(
    tmp_path: Path, nessie_server: Nessie, rest: RestCatalog, s3: S3Proxy, seed: int
) -> None:
    with faulty_nessie(nessie_server, rest, s3, seed) as (lake, plans):
        world, surfaced = run_faults(tmp_path, lake, plans, seed, COMMITS)
        print(surfaced)
        assert_mirror_equals_oracle(world, seed)
