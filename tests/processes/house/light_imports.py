"""The modules that import without Spark, and the distributions that they need."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import icemirror
import trigger

# Adapters of a cloud, a cluster or a queue may import these at module level.
ADAPTER_MODULES = ("boto3", "botocore", "aiokafka", "lightkube", "httpx", "httpx2")


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
    """Import modules in a new process; return those that failed or loaded a heavy module."""
    argument = json.dumps([names, allowed, heavy, ADAPTER_MODULES])
    completed = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, argument], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    problems = json.loads(completed.stdout)
    assert isinstance(problems, dict)
    return problems


def closure(*names: str) -> set[str]:
    """Return distributions without extras, and all their dependencies."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement

    pending, seen = list(names), set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for text in requires(name) or []:
            requirement = Requirement(text)
            if not requirement.marker or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name.lower())
    return seen
