"""The light packages load no heavy module, and need only the base dependencies."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import icemirror
import trigger
from tests.processes.house.light_imports import ADAPTER_MODULES, closure, import_all, light_modules

HEAVY = ("pyspark", "pyarrow", "pyiceberg", "pandas", "numpy", "duckdb")
# Loaded only where they are used: in the Lambda function they cost more than everything else.
LAZY = ("opentelemetry", "sentry_sdk", "prometheus_client")


def base_modules() -> list[str]:
    """Return the top-level modules of the base dependencies and their dependencies."""
    from importlib.metadata import packages_distributions

    seen = closure("icemirror")
    modules = {
        module
        for module, distributions in packages_distributions().items()
        if {name.lower().replace("_", "-") for name in distributions}
        & {name.replace("_", "-") for name in seen}
    }
    return sorted(modules | {"icemirror", "trigger"})


def test_light_packages_load_no_heavy_module() -> None:
    assert import_all(light_modules(), None, HEAVY + LAZY) == {}


def test_light_packages_need_only_the_base_dependencies() -> None:
    assert import_all(light_modules(), base_modules(), HEAVY + LAZY) == {}


def test_client_of_a_store_is_loaded_only_if_configured() -> None:
    assert import_all(["icemirror.stores.from_settings", "icemirror.cli.main"], None, ADAPTER_MODULES) == {}


def test_checks_detect_violations() -> None:
    assert "loads ['numpy']" in str(import_all(["numpy"], None, HEAVY))
    assert "No module named" in str(import_all(["hypothesis"], base_modules(), HEAVY))


def test_base_dependencies_are_those_of_the_project() -> None:
    base = base_modules()
    assert {"click", "pydantic", "yaml", "rich"} <= set(base)
    assert not set(base) & {*HEAVY, *LAZY, *ADAPTER_MODULES}


ALONE = "import boto3; from pydantic import BaseModel, Field, TypeAdapter"
HANDLER = "import boto3; import trigger.handler"
# The share of icemirror in a cold start: every such function imports boto3 and pydantic.
MAX_RATIO = 1.5
MAX_BYTES = 60 << 20


def seconds(code: str, cache: Path) -> float:
    """Return the CPU seconds of an import in a new process, with compiled modules."""
    timed = f"import time; began = time.process_time(); {code}; print(time.process_time() - began)"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = str(cache)
    completed = subprocess.run(
        [sys.executable, "-c", timed], capture_output=True, text=True, check=True, env=environ
    )
    return float(completed.stdout)


def test_lambda_function_imports_quickly(tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    seconds(HANDLER, tmp_path)  # compiles
    # On a busy machine larger imports slow down more: only the fastest runs count.
    alone, handler = [seconds(ALONE, tmp_path)], [seconds(HANDLER, tmp_path)]
    while len(alone) < 6 or (len(alone) < 30 and min(handler) > MAX_RATIO * min(alone)):
        alone.append(seconds(ALONE, tmp_path))
        handler.append(seconds(HANDLER, tmp_path))
    assert min(handler) <= MAX_RATIO * min(alone), f"{sorted(handler)} against {sorted(alone)}"


def test_lambda_function_with_dependencies_is_small() -> None:
    pytest.importorskip("boto3")
    own_files = [
        file
        for package in (icemirror, trigger)
        for folder in package.__path__
        for file in Path(folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    dependency_files = [
        Path(str(distribution(name).locate_file(file)))
        for name in closure("icemirror", "boto3") - {"icemirror"}
        for file in distribution(name).files or []
        if file.suffix != ".pyc"
    ]
    size = sum(file.stat().st_size for file in {*own_files, *dependency_files} if file.is_file())
    assert 10 << 20 < size < MAX_BYTES, f"{size / (1 << 20):.1f} MB"
