"""Nessie as a REST catalog: versions in memory, tables on an S3 store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.provision import maven
from tests.services.processes import HOST, answers, free_port, java, running
from tests.services.s3proxy import ACCESS_KEY, REGION, SECRET_KEY, S3Proxy

JAR = "org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner"


@dataclass(frozen=True)
class Nessie:
    """A running Nessie."""

    port: int

    @property
    def uri(self) -> str:
        """Return the URI of the REST catalog."""
        return f"http://{HOST}:{self.port}/iceberg"


@contextmanager
def nessie(folder: Path, store: S3Proxy, warehouse: str) -> Iterator[Nessie]:
    """Run Nessie with a warehouse on the store. It neither signs requests nor vends credentials."""
    server = Nessie(free_port())
    options = {
        "quarkus.http.host": HOST,
        "quarkus.http.port": server.port,
        "quarkus.management.port": free_port(),
        "quarkus.otel.sdk.disabled": "true",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.server.authentication.enabled": "false",
        "nessie.catalog.default-warehouse": "warehouse",
        "nessie.catalog.warehouses.warehouse.location": warehouse,
        "nessie.catalog.service.s3.default-options.endpoint": store.endpoint,
        "nessie.catalog.service.s3.default-options.region": REGION,
        "nessie.catalog.service.s3.default-options.path-style-access": "true",
        "nessie.catalog.service.s3.default-options.request-signing-enabled": "false",
        "nessie.catalog.service.s3.default-options.access-key": "urn:nessie-secret:quarkus:store-keys",
        "store-keys.name": ACCESS_KEY,
        "store-keys.secret": SECRET_KEY,
    }
    given = [f"-D{name}={value}" for name, value in options.items()]
    command = [*java(21), "-Xmx768m", *given, "-jar", str(maven.jar(JAR))]
    with running(command, folder / "nessie.log", lambda: answers(f"{server.uri}/v1/config"), cwd=folder):
        yield server
