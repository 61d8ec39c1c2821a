"""Head pointers of AWS Glue: `metadata_location` among a table's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.table_id import TableId

_REFUSED = ("AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException")


class GlueHeads:
    """`GetTable` and `GetTables` through boto3, whose client is made once."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def head(self, table: TableId) -> str | None:
        """The location of the table's current metadata."""
        answer = self._ask("get_table", DatabaseName=".".join(table.namespace), Name=table.name)
        return None if answer is None else answer["Table"].get("Parameters", {}).get("metadata_location")

    def list_tables(self, namespace: str) -> list[str]:
        """The Iceberg tables of a database, page by page."""
        names: list[str] = []
        more: dict[str, str] = {}
        while True:
            answer = self._ask("get_tables", DatabaseName=namespace, **more)
            if answer is None:
                return names
            tables = answer.get("TableList", ())
            names.extend(
                table["Name"] for table in tables if "metadata_location" in table.get("Parameters", {})
            )
            if "NextToken" not in answer:
                return names
            more = {"NextToken": answer["NextToken"]}

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401 (boto3 makes its clients at run time)
        try:
            import boto3
        except ModuleNotFoundError as error:
            raise BadConfig("a Glue catalog needs: pip install boto3") from error
        return boto3.client(
            "glue",
            region_name=self._properties.get("glue.region") or self._properties.get("client.region"),
            endpoint_url=self._properties.get("glue.endpoint"),
        )

    def _ask(self, call: str, **arguments: str) -> dict[str, Any] | None:
        client = self._client
        try:
            answer: dict[str, Any] = getattr(client, call)(**arguments)
        except client.exceptions.EntityNotFoundException:
            return None
        except Exception as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
            kind = Invalid if code in _REFUSED else Transient
            raise kind(f"Glue: {call} failed: {error}") from error
        return answer
