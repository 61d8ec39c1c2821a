"""One server of each kind for all tests. An unavailable server skips or fails the test, see `tests.support.need`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pytest

from tests.provision.cache import Unavailable
from tests.services import processes
from tests.services.azurite import Azurite, azurite
from tests.services.gcs import FakeGcs, fake_gcs
from tests.services.glue import Glue, glue
from tests.services.hive_metastore import HiveMetastore, hive_metastore
from tests.services.kafka_broker import Kafka, kafka
from tests.services.nessie import Nessie, nessie
from tests.services.postgres import Postgres, postgres
from tests.services.rest_catalog import RestCatalog, rest_catalog
from tests.services.s3proxy import S3Proxy, s3proxy
from tests.support.need import do_without

Server = TypeVar("Server")
Start = Callable[[Path], AbstractContextManager[Server]]
_LOGS = pytest.StashKey[list[Path]]()


@pytest.fixture(scope="session")
def start(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, Start[object]], object]]:
    """Return `start(name, server)`, which runs a server in a separate folder until the session ends."""
    logs: list[Path] = []
    request.config.stash[_LOGS] = logs
    with ExitStack() as stack:

        def begin(name: str, server: Start[object]) -> object:
            folder = tmp_path_factory.mktemp(name)
            try:
                running = stack.enter_context(server(folder))
            except Unavailable as error:
                do_without(f"no {name}: {error}")
            logs.extend(folder.glob("*.log"))
            return running

        yield begin


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the tail of every server log to the report of a failed test."""
    report = yield
    if report.failed:
        for log in item.config.stash.get(_LOGS, []):
            report.sections.append((f"log of {log.stem}", processes.tail(log)))
    return report


@pytest.fixture(scope="session")
def s3(start: Callable[[str, Start[S3Proxy]], S3Proxy]) -> S3Proxy:
    return start("s3proxy", s3proxy)


@pytest.fixture(scope="session")
def rest(start: Callable[[str, Start[RestCatalog]], RestCatalog], s3: S3Proxy) -> RestCatalog:
    warehouse = s3.make_bucket("rest-warehouse")
    return start("rest-catalog", lambda folder: rest_catalog(folder, s3, f"{warehouse}/tables"))


@pytest.fixture(scope="session")
def nessie_server(start: Callable[[str, Start[Nessie]], Nessie], s3: S3Proxy) -> Nessie:
    warehouse = s3.make_bucket("nessie-warehouse")
    return start("nessie", lambda folder: nessie(folder, s3, warehouse))


@pytest.fixture(scope="session")
def postgres_server(start: Callable[[str, Start[Postgres]], Postgres]) -> Postgres:
    return start("postgres", postgres)


@pytest.fixture(scope="session")
def glue_server(start: Callable[[str, Start[Glue]], Glue]) -> Glue:
    return start("glue", glue)


@pytest.fixture(scope="session")
def hives(
    start: Callable[[str, Start[HiveMetastore]], HiveMetastore],
) -> Callable[[str], HiveMetastore]:
    """Return a function from a version to a running Hive Metastore."""
    return cache(lambda version: start(f"hive-{version}", hive_metastore(version)))


@pytest.fixture(params=["3.1.3", "4.0.1"])
def hive(request: pytest.FixtureRequest, hives: Callable[[str], HiveMetastore]) -> HiveMetastore:
    return hives(request.param)


@pytest.fixture(scope="session")
def broker(start: Callable[[str, Start[Kafka]], Kafka]) -> Kafka:
    return start("kafka", kafka)


@pytest.fixture(scope="session")
def gcs(start: Callable[[str, Start[FakeGcs]], FakeGcs]) -> FakeGcs:
    return start("fake-gcs", fake_gcs)


@pytest.fixture(scope="session")
def azure(start: Callable[[str, Start[Azurite]], Azurite]) -> Azurite:
    return start("azurite", azurite)


@pytest.fixture
def bucket() -> str:
    """Return a unique bucket name."""
    return f"lab-{uuid4().hex[:12]}"
