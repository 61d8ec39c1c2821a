"""Iceberg's reference REST catalog server, with tables on S3.

The Java project publishes it among its test fixtures. It stores its pointers in SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.provision import maven
from tests.services.processes import HOST, answers, free_port, java, running
from tests.services.s3proxy import ACCESS_KEY, REGION, SECRET_KEY, S3Proxy

_ICEBERG = "1.10.0"
_JARS = (
    f"org.apache.iceberg:iceberg-open-api:{_ICEBERG}:jar:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{_ICEBERG}",
    f"org.apache.iceberg:iceberg-core:{_ICEBERG}:jar:tests",
    f"org.apache.iceberg:iceberg-aws:{_ICEBERG}",
    f"org.apache.iceberg:iceberg-aws-bundle:{_ICEBERG}",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    "org.eclipse.jetty:jetty-servlet:11.0.26",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.slf4j:slf4j-simple:2.0.17",
)


@dataclass(frozen=True)
class RestCatalog:
    """A running REST catalog."""

    port: int

    @property
    def uri(self) -> str:
        return f"http://{HOST}:{self.port}"


def rest_catalog_jars() -> Path:
    """Return a folder with the server's jars."""
    return maven.jars(f"iceberg-rest-{_ICEBERG}", _JARS)


@contextmanager
def rest_catalog(folder: Path, store: S3Proxy, warehouse: str) -> Iterator[RestCatalog]:
    """Run the server with a warehouse on the store; clients provide their own access keys."""
    server = RestCatalog(free_port())
    environ = {
        "CATALOG_REST_PORT": str(server.port),
        "CATALOG_URI": f"jdbc:sqlite:file:{folder / 'rest.db'}",
        "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": store.endpoint,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": REGION,
    }
    classpath = f"{rest_catalog_jars()}/*"
    command = [*java(17), "-Xmx512m", "-cp", classpath, "org.apache.iceberg.rest.RESTCatalogServer"]
    log = folder / "rest-catalog.log"
    with running(command, log, lambda: answers(f"{server.uri}/v1/config"), cwd=folder, environ=environ):
        yield server
