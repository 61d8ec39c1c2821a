"""The merge through proxies that break requests of catalog and storage, before and after their effect."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.services.fault_proxy import Plan, fault_proxy
from tests.services.fault_run import run_faults
from tests.services.lakes import Lake
from tests.services.rest_catalog import RestCatalog
from tests.services.s3proxy import S3Proxy

COMMITS = 12
CATALOG_RATES = {"GET": 0.04, "POST": 0.3}
STORE_RATES = {"GET": 0.01, "HEAD": 0.01, "PUT": 0.02, "POST": 0.02}


@pytest.fixture
def seed() -> int:
    chosen = random.SystemRandom().randrange(1 << 32)
    print(f"seed {chosen}")
    return chosen


def test_rest_catalog_and_s3_that_fail(tmp_path: Path, rest: RestCatalog, s3: S3Proxy, seed: int) -> None:
    catalog_plan, store_plan = Plan(seed, CATALOG_RATES), Plan(seed + 1, STORE_RATES)
    with fault_proxy(rest.port, catalog_plan) as catalog, fault_proxy(s3.port, store_plan) as store:
        lake = Lake(
            mirror={"type": "rest", "uri": catalog.endpoint, **s3.properties(store.endpoint)},
            writer_mirror={"type": "rest", "uri": rest.uri, **s3.properties()},
        )
        surfaced = run_faults(tmp_path, lake, {"catalog": catalog_plan, "store": store_plan}, seed, COMMITS)
    print(surfaced)
    assert surfaced["merged"]
