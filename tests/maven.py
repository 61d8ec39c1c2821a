"""Jars for the tests by Maven coordinates, from the repositories of this machine's Maven or Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from spark_job.engine.java import find_java
from tests.cache import fetch_once

FETCH_TIMEOUT_SECONDS = 900


class Unavailable(Exception):
    """The jar could not be fetched here."""


def jar(coordinates: str) -> Path:
    """The jar of `group:artifact:version` or `group:artifact:version:jar:classifier`, without its dependencies."""
    group, artifact, version, *rest = coordinates.split(":")
    classifier = rest[1] if rest else None
    name = f"{artifact}-{version}-{classifier}.jar" if classifier else f"{artifact}-{version}.jar"

    def fetch(scratch: Path) -> Path:
        if shutil.which("mvn"):
            try:
                return _by_maven(coordinates, scratch, name)
            except Unavailable:
                if classifier:
                    raise
                # a Maven that is not set up for this network; Spark's Ivy may be
        if classifier:
            raise Unavailable(f"{coordinates} has a classifier, which needs Maven (`mvn`)")
        return _by_ivy(coordinates, scratch, f"{group}_{name}")

    return fetch_once(f"jars/{name}", fetch)


def _by_maven(coordinates: str, scratch: Path, name: str) -> Path:
    # A fixed version of the plugin: without one Maven asks for the newest each time.
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    options = [f"-Dartifact={coordinates}", f"-DoutputDirectory={scratch}", "-Dmdep.useBaseVersion=true"]
    _run(["mvn", "--batch-mode", "--quiet", copy, *options], scratch)
    return _made(scratch / name)


def _by_ivy(coordinates: str, scratch: Path, name: str) -> Path:
    """Let Spark resolve it at the start of a session, as `spark.jars.packages` does for users."""
    script = f"""
from pyspark.sql import SparkSession
(SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.jars.ivy", {str(scratch / "ivy")!r})
    .config("spark.jars.packages", {coordinates!r})
    .getOrCreate().stop())
"""
    _run([sys.executable, "-c", script], scratch)
    return _made(scratch / "ivy" / "jars" / name)


def _run(command: list[str], folder: Path) -> None:
    environ = os.environ | {"JAVA_HOME": str(find_java(os.environ))}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"{command[0]} took longer than {FETCH_TIMEOUT_SECONDS} s") from late
    if done.returncode != 0:
        raise Unavailable(f"{command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")


def _made(path: Path) -> Path:
    if not zipfile.is_zipfile(path):
        raise Unavailable(f"{path.name} was not fetched")
    return path


def jars(name: str, coordinates: Sequence[str]) -> Path:
    """A folder with these jars (`group:artifact:version[:jar:classifier]`) and all that they need, cached by `name`."""

    def fetch(scratch: Path) -> Path:
        if not shutil.which("mvn"):
            raise Unavailable(f"{name} has dependencies, which needs Maven (`mvn`)")
        wanted = "".join(map(_dependency, coordinates))
        project = f"<groupId>icemirror.tests</groupId><artifactId>{name}</artifactId><version>1</version>"
        (scratch / "pom.xml").write_text(
            f'<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>{project}'
            f"<dependencies>{wanted}</dependencies></project>"
        )
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        options = [f"-DoutputDirectory={scratch / 'jars'}", "-DincludeScope=runtime"]
        _run(["mvn", "--batch-mode", "--quiet", copy, *options], scratch)
        return scratch / "jars"

    return fetch_once(f"jars/{name}", fetch)


def _dependency(coordinates: str) -> str:
    group, artifact, version, *rest = coordinates.split(":")
    classifier = f"<classifier>{rest[1]}</classifier>" if rest else ""
    named = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    return f"<dependency>{named}{classifier}</dependency>"
