"""The light packages load nothing heavy, and need only the base dependencies."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import icemirror
import trigger

HEAVY = ("pyspark", "pyarrow", "pyiceberg", "pandas", "numpy", "duckdb")
# Loaded only where they are used: on the Lambda path they cost more than everything else.
LAZY = ("opentelemetry", "sentry_sdk", "prometheus_client")
# What modules that use a cloud, a cluster or a queue may import at their top.
OF_ADAPTERS = ("boto3", "botocore", "aiokafka", "lightkube", "httpx", "httpx2")

IMPORT_ALL = """
import importlib, json, sys, sysconfig
names, allowed, heavy, adapters = json.loads(sys.argv[1])

if allowed is not None:
    class OnlyBase:
        "Hides every installed package that is not in the base."
        def find_spec(self, name, path=None, target=None):
            top = name.partition(".")[0]
            if not top.startswith("_") and top not in sys.stdlib_module_names and top not in allowed:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, OnlyBase())

problems = {}
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in adapters:
            problems[name] = str(missing)
    loaded = sorted({module.partition(".")[0] for module in sys.modules} & set(heavy))
    if loaded:
        problems[name] = f"loads {loaded}"
        break
print(json.dumps(problems))
"""


def light_modules() -> list[str]:
    """Return all modules of trigger, and of icemirror except the command line."""
    found = {
        module.name
        for package in (icemirror, trigger)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not module.name.startswith(("icemirror.cli", "icemirror.__main__"))
    }
    return sorted({"icemirror", "trigger"} | found - {"icemirror.telemetry.otel"})


def import_all(names: list[str], allowed: list[str] | None, heavy: tuple[str, ...]) -> dict[str, str]:
    """Import modules in a fresh process; return those that failed or loaded something heavy."""
    argument = json.dumps([names, allowed, heavy, OF_ADAPTERS])
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, argument], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    problems = json.loads(done.stdout)
    assert isinstance(problems, dict)
    return problems


def closure(*wanted_first: str) -> set[str]:
    """Return distributions without extras, and all their dependencies."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement

    wanted, seen = list(wanted_first), set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        for text in requires(name) or []:
            requirement = Requirement(text)
            if not requirement.marker or requirement.marker.evaluate({"extra": ""}):
                wanted.append(requirement.name.lower())
    return seen


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


def test_the_light_part_loads_nothing_heavy() -> None:
    assert import_all(light_modules(), None, HEAVY + LAZY) == {}


def test_the_light_part_needs_only_the_base_dependencies() -> None:
    assert import_all(light_modules(), base_modules(), HEAVY + LAZY) == {}


def test_a_store_brings_its_client_along_only_where_it_is_configured() -> None:
    assert import_all(["icemirror.stores.from_settings", "icemirror.cli.main"], None, OF_ADAPTERS) == {}


def test_the_checks_can_fail() -> None:
    assert "loads ['numpy']" in str(import_all(["numpy"], None, HEAVY))
    assert "No module named" in str(import_all(["hypothesis"], base_modules(), HEAVY))


def test_the_base_is_what_the_project_says() -> None:
    base = base_modules()
    assert {"click", "pydantic", "yaml", "rich"} <= set(base)
    assert not set(base) & {*HEAVY, *LAZY, *OF_ADAPTERS}


ALONE = "import boto3; from pydantic import BaseModel, Field, TypeAdapter"
HANDLER = "import boto3; import trigger.handler"
# Our share of a cold start: every function of this kind imports boto3 and pydantic.
MOST_TIMES = 1.5
MOST_BYTES = 60 << 20


def seconds(code: str, cache: Path) -> float:
    """Return the CPU seconds of an import in a fresh process, with compiled modules."""
    timed = f"import time; began = time.process_time(); {code}; print(time.process_time() - began)"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", timed], capture_output=True, text=True, check=True, env=environ
    )
    return float(done.stdout)


def test_the_import_of_the_lambda_function_is_quick(tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    seconds(HANDLER, tmp_path)  # compiles
    # On a busy machine every run takes longer, the more so the more it loads: only the fastest count.
    alone, handler = [seconds(ALONE, tmp_path)], [seconds(HANDLER, tmp_path)]
    while len(alone) < 6 or (len(alone) < 30 and min(handler) > MOST_TIMES * min(alone)):
        alone.append(seconds(ALONE, tmp_path))
        handler.append(seconds(HANDLER, tmp_path))
    assert min(handler) <= MOST_TIMES * min(alone), f"{sorted(handler)} against {sorted(alone)}"


def test_the_lambda_function_is_small_with_all_that_it_needs() -> None:
    pytest.importorskip("boto3")
    ours = [
        file
        for package in (icemirror, trigger)
        for folder in package.__path__
        for file in Path(folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    theirs = [
        Path(str(distribution(name).locate_file(file)))
        for name in closure("icemirror", "boto3") - {"icemirror"}
        for file in distribution(name).files or []
        if file.suffix != ".pyc"
    ]
    size = sum(file.stat().st_size for file in {*ours, *theirs} if file.is_file())
    assert 10 << 20 < size < MOST_BYTES, f"{size / (1 << 20):.1f} MB"
