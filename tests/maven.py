"""Jars for the tests that ask Iceberg Java, by Maven coordinates, from wherever this machine's Maven or Spark looks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from spark_job.java import find_java
from tests.cache import fetch_once

FETCH_TIMEOUT_SECONDS = 900


class Unavailable(Exception):
    """The jar could not be fetched here."""


def jar(coordinates: str) -> Path:
    """The jar of `group:artifact:version`, without its dependencies."""
    group, artifact, version = coordinates.split(":")
    name = f"{artifact}-{version}.jar"

    def fetch(scratch: Path) -> Path:
        if shutil.which("mvn"):
            try:
                return _by_maven(coordinates, scratch, name)
            except Unavailable:
                pass  # a Maven that is not set up for this network; Spark's Ivy may be
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
