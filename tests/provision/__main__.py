"""Downloads and builds what the tests need, while they run: `python -m tests.provision`.

A test that needs something which is not ready waits for it. What is ready is skipped, so a second run takes no time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

from benchmarks.systems.catalogue import ICEBERG_RUNTIME
from tests.infra.kubernetes import HELM, KUSTOMIZE
from tests.interop.iceberg_java import ICEBERG_JAR, SQLITE_JAR
from tests.provision import maven, python_packages
from tests.provision.cache import Unavailable
from tests.provision.go_programs import go_program
from tests.services.azurite import azurite_packages
from tests.services.gcs import fake_gcs_program
from tests.services.hive_metastore import VERSIONS, hive_jars
from tests.services.kafka_broker import kafka_jars
from tests.services.kube_apiserver import kubernetes_programs
from tests.services.nessie import JAR as NESSIE_JAR
from tests.services.postgres import binaries as postgres_programs
from tests.services.rest_catalog import rest_catalog_jars
from tests.services.s3proxy import JAR as S3PROXY_JAR
from tests.services.spark_operator import kubeflow_definition

Provide = Callable[[], object]

# In the order in which the tests need them. Downloads wait for the network, so two run at a time.
DOWNLOADS: Mapping[str, Provide] = {
    "Iceberg for Spark": lambda: maven.jar(ICEBERG_JAR),
    "SQLite for Java": lambda: maven.jar(SQLITE_JAR),
    "S3Proxy": lambda: maven.jar(S3PROXY_JAR),
    "Iceberg's REST catalog": rest_catalog_jars,
    "Kafka": kafka_jars,
    "ministack": python_packages.ministack,
    "PostgreSQL": postgres_programs,
    "Nessie": lambda: maven.jar(NESSIE_JAR),
    **{f"Hive Metastore {version}": partial(hive_jars, version) for version in VERSIONS},
    "Azurite": azurite_packages,
    "Iceberg for the benchmarks": lambda: maven.jar(ICEBERG_RUNTIME),
    "PySpark 3.5": python_packages.pyspark35,
    "checkov": python_packages.checkov,
}
# A build takes all processors: one at a time, in the order in which the tests need them.
BUILDS: Mapping[str, Provide] = {
    "Helm": lambda: go_program(HELM),
    "kustomize": lambda: go_program(KUSTOMIZE),
    "kube-apiserver and etcd": kubernetes_programs,
    "definitions of the Spark operator": kubeflow_definition,
    "fake-gcs-server": fake_gcs_program,
}


def provide(name: str, get: Provide) -> str | None:
    """Return a line about something that took time or is unavailable; None if it was ready."""
    began = time.monotonic()
    try:
        get()
    except Unavailable as error:
        return f"{name}: unavailable, see the tests that need it ({' '.join(str(error).split())[:120]})"
    seconds = time.monotonic() - began
    return f"{name}: ready after {seconds:.0f} s" if seconds >= 1 else None


def stop_with(process_id: int) -> None:
    """Exit as soon as the process has ended, because no test waits any more."""
    while True:
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            os._exit(0)
        time.sleep(1)


def main() -> None:
    """Provide everything, and print a line for each thing that took time."""
    match sys.argv[1:]:
        case ["--while-running", process_id]:
            threading.Thread(target=stop_with, args=(int(process_id),), daemon=True).start()
    with ThreadPoolExecutor(2) as downloads, ThreadPoolExecutor(1) as builds:
        running = [downloads.submit(provide, *item) for item in DOWNLOADS.items()]
        running += [builds.submit(provide, *item) for item in BUILDS.items()]
        for line in (future.result() for future in as_completed(running)):
            if line is not None:
                print(f"provision: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
