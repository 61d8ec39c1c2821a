"""Vended credentials that expire after a few seconds: between slices, within a slice, and before its commit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from icemirror.step_results import Merged, NothingToMerge
from spark_job.engine.engine import InProcessEngine
from spark_job.engine.work import Result, Work
from spark_job.maintenance.orphans import clean_orphans
from spark_job.pyiceberg_private.vended_credentials import VendedIO
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.services.fault_proxy import Request, fault_proxy
from tests.services.lakes import Lake, mirrored_world
from tests.services.rest_catalog import RestCatalog
from tests.services.s3proxy import ACCESS_KEY, REGION, SECRET_KEY, S3Proxy

LIFETIME_SECONDS = 3.0
_EXPIRED = b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>expired</Message></Error>"


def _vend(path: str, body: bytes) -> bytes:
    """Add credentials to the response for a table."""
    if "/tables" not in path or b'"metadata"' not in body:
        return body
    answer = json.loads(body)
    expires = time.time() + LIFETIME_SECONDS
    answer["config"] = {
        **answer.get("config", {}),
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.session-token": f"until-{expires}",
        "s3.session-token-expires-at-ms": str(int(expires * 1000)),
    }
    return json.dumps(answer).encode()


def _reject_expired(request: Request) -> tuple[int, bytes] | None:
    token = request.headers.get("x-amz-security-token", "until-0")
    return None if time.time() < float(token.removeprefix("until-")) else (403, _EXPIRED)


@dataclass(frozen=True)
class SlowEngine(InProcessEngine):
    """Runs shards that outlive the credentials, before and after their work."""

    shards: int = 2
    seconds: float = LIFETIME_SECONDS + 0.5

    def run(self, work: Work[Result]) -> list[Result]:
        time.sleep(self.seconds)
        results = super().run(work)
        time.sleep(self.seconds)
        return results


@contextmanager
def vending_lake(rest: RestCatalog, s3: S3Proxy) -> Iterator[Lake]:
    with (
        fault_proxy(rest.port, rewrite=_vend) as catalog,
        fault_proxy(s3.port, refuse=_reject_expired) as store,
    ):
        yield Lake(
            mirror={
                "type": "rest",
                "uri": catalog.endpoint,
                "s3.endpoint": store.endpoint,
                "s3.region": REGION,
            },
            writer_mirror={"type": "rest", "uri": rest.uri, **s3.properties()},
        )


def _merge_all(world: MirroredWorld) -> None:
    while isinstance(world.pipeline.advance(world.table), Merged):
        pass


def test_lingering_job_outlives_its_credentials(tmp_path: Path, rest: RestCatalog, s3: S3Proxy) -> None:
    with vending_lake(rest, s3) as lake:
        world = mirrored_world(tmp_path, lake, Schedule(3, "int", ("text",)))
        for _ in range(2):
            world.oracle.commit_next()
            _merge_all(world)
            time.sleep(LIFETIME_SECONDS)
        assert isinstance(world.pipeline.advance(world.table), NothingToMerge)
        _check_equal(world, tmp_path, lake)


def test_slice_that_outlives_its_credentials_is_committed(
    tmp_path: Path, rest: RestCatalog, s3: S3Proxy
) -> None:
    with vending_lake(rest, s3) as lake:
        engine = SlowEngine()
        world = mirrored_world(tmp_path, lake, Schedule(4, "int", ("text",)), engine)
        for _ in range(2):
            world.oracle.commit_next()
            assert isinstance(world.pipeline.advance(world.table), Merged)
        _check_equal(world, tmp_path, lake)


def test_expired_credentials_are_rejected_by_the_store(
    tmp_path: Path, rest: RestCatalog, s3: S3Proxy
) -> None:
    with vending_lake(rest, s3) as lake:
        world = mirrored_world(tmp_path, lake, Schedule(5, "int", ("text",)))
        world.oracle.commit_next()
        changelog = world.pipeline.catalogs.load_changelog(world.table)
        assert isinstance(changelog.io, VendedIO)
        vended_io, path = changelog.io._io, changelog.metadata.snapshots[-1].manifest_list
        assert vended_io.new_input(path).exists()
        time.sleep(LIFETIME_SECONDS + 0.5)
        with pytest.raises(OSError, match=r"(?i)denied|expired|403"):
            vended_io.new_input(path).exists()
        assert changelog.io.new_input(path).exists()


def test_orphans_are_found_with_vended_credentials(tmp_path: Path, rest: RestCatalog, s3: S3Proxy) -> None:
    with vending_lake(rest, s3) as lake:
        world = mirrored_world(tmp_path, lake, Schedule(6, "int", ("text",)))
        world.oracle.commit_next()
        _merge_all(world)
        orphan = f"{world.mirror.location()}/data/left.parquet"
        with world.mirror.io.new_output(orphan).create() as stream:
            stream.write(b"left")
        time.sleep(LIFETIME_SECONDS)
        result = clean_orphans(lambda: world.mirror, world.table.name, older_than_seconds=0)
        assert (result.paths, result.left) == ((orphan,), 0)
        _check_equal(world, tmp_path, lake)


def _check_equal(world: MirroredWorld, folder: Path, lake: Lake) -> None:
    """Compare the mirror with the oracle, without the proxies."""
    plain = Lake(mirror=lake.writer_mirror or {}, namespace=lake.namespace)
    (folder / "judge").mkdir()
    reader = mirrored_world(folder / "judge", plain, world.oracle.schedule)
    assert world.oracle.verdict(reader.mirror).equal
