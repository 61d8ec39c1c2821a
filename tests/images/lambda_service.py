"""A fake of the AWS Lambda runtime API: serves events to a function's image and receives its responses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from typing import Any

_VERSION = "2018-06-01"
_SECONDS = 120


@dataclass
class LambdaService:
    """A server at `address`, the value of AWS_LAMBDA_RUNTIME_API."""

    address: str
    events: SimpleQueue[str] = field(default_factory=SimpleQueue)
    responses: SimpleQueue[tuple[str, str]] = field(default_factory=SimpleQueue)

    def invoke(self, event: dict[str, Any]) -> Any:
        """Invoke the function with an event and return its response."""
        self.events.put(json.dumps(event))
        try:
            kind, body = self.responses.get(timeout=_SECONDS)
        except Empty:
            raise AssertionError("the function requested no event or sent no response") from None
        assert kind == "response", f"{kind}: {body}"
        return json.loads(body)


@contextmanager
def lambda_service() -> Iterator[LambdaService]:
    """Run the service until the end of the block."""
    service = LambdaService("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Wait for the next event and return it."""
            body = service.events.get().encode()
            if not body:  # shutdown: the runtime client exits
                self.close_connection = True
                return
            self.send_response(200)
            self.send_header("Lambda-Runtime-Aws-Request-Id", "1")
            self.send_header("Lambda-Runtime-Deadline-Ms", "9999999999999")
            self.send_header("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-west-1:1:function:it")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            """Receive …/invocation/1/response, …/invocation/1/error or …/init/error."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            service.responses.put((self.path.removeprefix(f"/{_VERSION}/runtime/").rpartition("/")[2], body))
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.address = f"127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield service
    finally:
        service.events.put("")
        server.shutdown()
        server.server_close()
