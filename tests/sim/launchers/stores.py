"""The real stores, each on the most realistic backend that needs no other process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs

import httpx2
from lightkube import Client, KubeConfig

from icemirror.settings.trigger import DynamoDbState
from icemirror.stores.dynamodb import DynamoDbStore
from icemirror.stores.dynamodb_table import open_client
from icemirror.stores.kubernetes import KubernetesStore
from icemirror.stores.sqlite import SqliteStore
from icemirror.stores.store import Store
from tests.processes.stores.emulated_dynamodb import CREDENTIALS, KEY_SCHEMA, REGION
from tests.processes.stores.fake_kubernetes import FakeCluster, write_kubeconfig

TABLE = "state"


@contextmanager
def open_store(kind: str, folder: Path) -> Iterator[Store]:
    """Open a new store."""
    match kind:
        case "sqlite":
            with SqliteStore(folder / "state.db") as sqlite:
                yield sqlite
        case "kubernetes":
            config = KubeConfig.from_file(write_kubeconfig(folder, "http://kubernetes.test"))
            with Client(config, transport=InProcess(FakeCluster()), trust_env=False) as client:
                yield KubernetesStore(client, "icemirror")
        case "dynamodb":
            with patch.dict(os.environ, CREDENTIALS), _moto() as client:
                yield DynamoDbStore(client, TABLE)
        case _:
            raise ValueError(kind)


class InProcess(httpx2.BaseTransport):
    """Passes lightkube's requests to a fake cluster without a connection."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        query = parse_qs(request.url.query.decode())
        answer = self._cluster.handle(request.method, request.url.path, query, request.read())
        assert answer is not None
        return httpx2.Response(answer[0], json=answer[1])


@contextmanager
def _moto() -> Iterator[Any]:
    from moto import mock_aws  # slow to load

    os.environ.pop("AWS_PROFILE", None)
    os.environ.pop("AWS_SESSION_TOKEN", None)
    with mock_aws():
        client = open_client(DynamoDbState(type="dynamodb", table=TABLE, region=REGION))
        client.create_table(
            TableName=TABLE,
            KeySchema=KEY_SCHEMA,
            AttributeDefinitions=[
                {"AttributeName": key["AttributeName"], "AttributeType": "S"} for key in KEY_SCHEMA
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        yield client
        client.close()
