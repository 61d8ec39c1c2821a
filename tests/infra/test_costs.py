"""What docs/deploy-aws.md says of costs is what `scripts/costs.py` prints, for what Terraform makes."""

from __future__ import annotations

import re
import runpy

from tests.unit.house.tracked import ROOT

COSTS = runpy.run_path(str(ROOT / "scripts" / "costs.py"))
WORKERS = ("worker_vcpu", "worker_memory_gb")
TERRAFORM = ROOT / "infra" / "terraform"


def test_the_page_shows_what_the_script_prints() -> None:
    assert f"\n{COSTS['table']()}\n" in (ROOT / "docs" / "deploy-aws.md").read_text()


def test_the_script_counts_what_terraform_makes() -> None:
    watching = (TERRAFORM / "modules" / "observability" / "alarms.tf").read_text()
    assert len(re.findall(r"^      says +=", watching, re.MULTILINE)) + 1 == COSTS["ALARMS"]
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
