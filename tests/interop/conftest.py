"""One JVM with Iceberg Java, and one mirror per case, shared by all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icemirror.errors import Invalid
from spark_job.engine.java import find_java
from tests.interop.cases import Case, make_world
from tests.interop.iceberg_java import ICEBERG_JAR, SQLITE_JAR, IcebergJava
from tests.lab.mirrored_world import MirroredWorld
from tests.support.need import do_without


@pytest.fixture(scope="session")
def java(maven_jar: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergJava]:
    """Run a JVM with Iceberg Java and Spark."""
    jars = [maven_jar(ICEBERG_JAR), maven_jar(SQLITE_JAR)]
    try:
        home = find_java(os.environ)
    except Invalid as error:
        do_without(str(error))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_HOME", str(home))
        environment.setenv("SPARK_LOCAL_HOSTNAME", "localhost")
        # The variable would connect to the JVM of a submitted session; this fixture starts a new one.
        environment.delenv("PYSPARK_GATEWAY_PORT", raising=False)
        with IcebergJava.launch(jars, tmp_path_factory.mktemp("java")) as launched:
            yield launched


@pytest.fixture(scope="session")
def shared_mirror(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], MirroredWorld]:
    """Return a function from a case to its mirror, which tests only read."""
    worlds: dict[Case, MirroredWorld] = {}

    def make(case: Case) -> MirroredWorld:
        if case not in worlds:
            worlds[case] = make_world(tmp_path_factory.mktemp(case.name), case)
        return worlds[case]

    return make
