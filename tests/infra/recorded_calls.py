"""Which calls of AWS a piece of code makes, as IAM would be asked about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.client import BaseClient


@dataclass(frozen=True, order=True)
class Call:
    """An action on a resource."""

    action: str
    resource: str


@dataclass
class Recorder:
    """Notes what clients are asked for, on its way to the service."""

    account: str
    region: str
    calls: set[Call] = field(default_factory=set)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Until the test is over."""
        make = BaseClient._make_api_call

        def noted(client: Any, operation: str, given: dict[str, Any]) -> Any:
            service = client.meta.service_model.service_name
            self.calls |= {Call(f"{service}:{operation}", one) for one in self._resources(service, given)}
            if operation == "StartJobRun":
                self.calls.add(Call("iam:PassRole", given["executionRoleArn"]))
                (application,) = self._resources(service, given)
                self.calls.add(Call("emr-serverless:TagResource", f"{application}/jobruns/00new"))
            return make(client, operation, given)

        monkeypatch.setattr(BaseClient, "_make_api_call", noted)

    def _resources(self, service: str, given: dict[str, Any]) -> Iterator[str]:
        here = f"{self.region}:{self.account}"
        match service, given:
            case "glue", {"Name": database, **rest} | {"DatabaseInput": {"Name": database}, **rest} if (
                "DatabaseName" not in rest
            ):
                yield f"arn:aws:glue:{here}:catalog"
                yield f"arn:aws:glue:{here}:database/{database}"
            case "glue", {"DatabaseName": database, "Name": table} | {
                "DatabaseName": database,
                "TableInput": {"Name": table},
            }:
                yield f"arn:aws:glue:{here}:catalog"
                yield f"arn:aws:glue:{here}:database/{database}"
                yield f"arn:aws:glue:{here}:table/{database}/{table}"
            case "dynamodb", {"TableName": table}:
                yield f"arn:aws:dynamodb:{here}:table/{table}"
            case "dynamodb", {"RequestItems": tables}:
                yield from (f"arn:aws:dynamodb:{here}:table/{table}" for table in tables)
            case "emr-serverless", {"applicationId": application, "jobRunId": run}:
                yield f"arn:aws:emr-serverless:{here}:/applications/{application}/jobruns/{run}"
            case "emr-serverless", {"applicationId": application}:
                yield f"arn:aws:emr-serverless:{here}:/applications/{application}"
            case _:
                raise AssertionError(f"nobody knows which resource {service} is asked about: {sorted(given)}")
