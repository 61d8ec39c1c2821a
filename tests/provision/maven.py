"""Fetches jars by Maven coordinates, with this machine's Maven or with Spark's Ivy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from spark_job.engine.java import find_java
from tests.provision.cache import Unavailable, fetch_once

FETCH_TIMEOUT_SECONDS = 900


def jar(coordinates: str) -> Path:
    """Return the jar of `group:artifact:version` or `group:artifact:version:jar:classifier`, without dependencies."""
    group, artifact, version, *rest = coordinates.split(":")
    classifier = rest[1] if rest else None
    name = f"{artifact}-{version}-{classifier}.jar" if classifier else f"{artifact}-{version}.jar"

    def fetch(scratch: Path) -> Path:
        if shutil.which("mvn"):
            try:
                return _fetch_with_maven(coordinates, scratch, name)
            except Unavailable:
                if classifier:
                    raise
                # Maven may not be configured for this network; Spark's Ivy may be
        if classifier:
            raise Unavailable(f"{coordinates} has a classifier, which needs Maven (`mvn`)")
        return _fetch_with_ivy(coordinates, scratch, f"{group}_{name}")

    return fetch_once(f"jars/{name}", fetch)


def _fetch_with_maven(coordinates: str, scratch: Path, name: str) -> Path:
    # A fixed version of the plugin: otherwise Maven queries the newest on every run.
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    options = [f"-Dartifact={coordinates}", f"-DoutputDirectory={scratch}", "-Dmdep.useBaseVersion=true"]
    _run(["mvn", "--batch-mode", "--quiet", copy, *options], scratch)
    return _require_jar(scratch / name)


def _fetch_with_ivy(coordinates: str, scratch: Path, name: str) -> Path:
    """Let Spark resolve the jar at the start of a session, as `spark.jars.packages` does for users."""
    script = f"""
from pyspark.sql import SparkSession
(SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.jars.ivy", {str(scratch / "ivy")!r})
    .config("spark.jars.packages", {coordinates!r})
    .getOrCreate().stop())
"""
    _run([sys.executable, "-c", script], scratch)
    return _require_jar(scratch / "ivy" / "jars" / name)


def _run(command: list[str], folder: Path) -> None:
    environ = os.environ | {"JAVA_HOME": str(find_java(os.environ))}
    try:
        completed = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} took longer than {FETCH_TIMEOUT_SECONDS} s") from error
    if completed.returncode != 0:
        raise Unavailable(f"{command[0]} failed: {(completed.stdout + completed.stderr)[-2000:]}")


def _require_jar(path: Path) -> Path:
    if not zipfile.is_zipfile(path):
        raise Unavailable(f"{path.name} was not fetched")
    return path


def jars(name: str, coordinates: Sequence[str]) -> Path:
    """Return a folder with these jars (`group:artifact:version[:jar:classifier]`) and their dependencies."""

    def fetch(scratch: Path) -> Path:
        if not shutil.which("mvn"):
            raise Unavailable(f"{name} has dependencies, which needs Maven (`mvn`)")
        dependencies = "".join(map(_dependency, coordinates))
        project = f"<groupId>icemirror.tests</groupId><artifactId>{name}</artifactId><version>1</version>"
        (scratch / "pom.xml").write_text(
            f'<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>{project}'
            f"<dependencies>{dependencies}</dependencies></project>"
        )
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        options = [f"-DoutputDirectory={scratch / 'jars'}", "-DincludeScope=runtime"]
        _run(["mvn", "--batch-mode", "--quiet", copy, *options], scratch)
        return scratch / "jars"

    return fetch_once(f"jars/{name}", fetch)


def _dependency(coordinates: str) -> str:
    group, artifact, version, *rest = coordinates.split(":")
    classifier = f"<classifier>{rest[1]}</classifier>" if rest else ""
    identity = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    return f"<dependency>{identity}{classifier}</dependency>"
