"""moto's DynamoDB as a server in this process, one request at a time: moto alone does not write atomically."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from icemirror.settings.trigger import DynamoDbState
from icemirror.stores.dynamodb import DynamoDbStore
from icemirror.stores.dynamodb_table import open_client

REGION = "eu-central-1"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "emulated",
    "AWS_SECRET_ACCESS_KEY": "emulated",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
KEY_SCHEMA = [
    {"AttributeName": "kind", "KeyType": "HASH"},
    {"AttributeName": "key", "KeyType": "RANGE"},
]


class SerializedApplication:
    """A WSGI application that serializes requests; `fault`, if set, may answer a request instead."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()
        self.fault: Callable[[Any, Callable[..., Any], Callable[[], Iterable[bytes]]], Any] | None = None

    def __call__(self, environ: Any, start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            if self.fault is not None:
                answer: Iterable[bytes] = self.fault(
                    environ, start, lambda: list(self._application(environ, start))
                )
                return answer
            return list(self._application(environ, start))


@contextmanager
def emulated_dynamodb() -> Iterator[tuple[str, SerializedApplication]]:
    """Run the server; yield its address and the application."""
    application = SerializedApplication(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", application
    server.shutdown()
    server.server_close()
    thread.join()


def state_at(endpoint: str, table: str) -> DynamoDbState:
    return DynamoDbState(type="dynamodb", table=table, region=REGION, endpoint=endpoint)


def create_table(endpoint: str, table: str, key_schema: list[dict[str, str]] = KEY_SCHEMA) -> None:
    client = boto3.client("dynamodb", region_name=REGION, endpoint_url=endpoint)
    client.create_table(
        TableName=table,
        KeySchema=key_schema,
        AttributeDefinitions=[
            {"AttributeName": key["AttributeName"], "AttributeType": "S"} for key in key_schema
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    client.close()


def open_emulated(
    endpoint: str, table: str, kept_results: int = 5, kept_letters: int = 4, attempts: int = 2
) -> DynamoDbStore:
    """Open a store; a module-level function, so that other processes can unpickle it."""
    client = open_client(state_at(endpoint, table), attempts)
    return DynamoDbStore(client, table, kept_results=kept_results, kept_letters=kept_letters)
