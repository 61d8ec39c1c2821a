"""SparkApplications as the Kubernetes launcher requests them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.trigger.launchers.launcher_settings import KUBERNETES, for_kubernetes
from tests.unit.trigger.launchers.launcher_suite import REQUEST
from trigger.launchers.spark_application import spark_application

KUBEFLOW, APACHE = "sparkoperator.k8s.io/v1beta2", "spark.apache.org/v1"


def make_application(folder: Path, launcher: str = KUBERNETES) -> dict[str, Any]:
    return spark_application(*for_kubernetes(folder, launcher), REQUEST)
