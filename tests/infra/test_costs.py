"""The costs in docs/how-to/deploy-aws.md are the output of `scripts/costs.py`, which counts Terraform's resources."""

from __future__ import annotations

import re
import runpy

from tests.unit.house.tracked import ROOT

COSTS = runpy.run_path(str(ROOT / "scripts" / "costs.py"))
WORKERS = ("worker_vcpu", "worker_memory_gb")
TERRAFORM = ROOT / "infra" / "terraform"


def test_docs_show_the_output_of_the_script() -> None:
    assert f"\n{COSTS['table']()}\n" in (ROOT / "docs" / "how-to" / "deploy-aws.md").read_text()


def test_script_counts_the_resources_of_terraform() -> None:
    alarms = (TERRAFORM / "modules" / "observability" / "alarms.tf").read_text()
    assert len(re.findall(r"^      description +=", alarms, re.MULTILINE)) + 1 == COSTS["ALARMS"]
    metrics = (TERRAFORM / "modules" / "observability" / "main.tf").read_text()
    assert metrics.count("{ pattern = ") == COSTS["METRICS"]
    function = (TERRAFORM / "modules" / "trigger" / "main.tf").read_text()
    assert f"memory_size   = {COSTS['FUNCTION_GB'] * 1024:.0f}\n" in function
    variables = (TERRAFORM / "variables.tf").read_text()
    workers = [re.search(rf"{name} += optional\(number, (\d+)\)", variables) for name in WORKERS]
    assert [int(found[1]) for found in workers if found] == [COSTS["WORKER_VCPU"], COSTS["WORKER_GB"]]
    sweep = re.search(r'variable "sweep_minutes" \{.*?default +=(.*?)\n', variables, re.DOTALL)
    assert sweep
    assert COSTS["HOURS_OF_MONTH"] * 60 / float(sweep[1]) == COSTS["SWEEPS"]
