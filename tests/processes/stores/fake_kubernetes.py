"""A fake Kubernetes API server for ConfigMaps: versions, conflicts, label selectors, and faults on demand."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lightkube import Client, KubeConfig

from icemirror.stores.kubernetes import KubernetesStore
from icemirror.stores.kubernetes_api import ApiCalls

MAX_BYTES = 1024 * 1024
Answer = tuple[int, dict[str, Any]]


def refusal(code: int, message: str) -> Answer:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}


@dataclass
class FakeCluster:
    """The objects by namespace and name. `fault(method, answer)` may answer instead of `answer()`."""

    namespaces: tuple[str, ...] = ("icemirror",)
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    fault: Callable[[str, Callable[[], Answer]], Answer | None] | None = None
    requests: list[str] = field(default_factory=list)
    _version: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> Answer | None:
        with self._lock:
            self.requests.append(method)

            def answer() -> Answer:
                return self._answer(method, path, query, body)

            return self.fault(method, answer) if self.fault else answer()

    def put(self, name: str, kind: str, **data: str) -> None:
        """Add an object of another program."""
        self._version += 1
        metadata = {"name": name, "namespace": "icemirror", "resourceVersion": str(self._version)}
        self.objects["icemirror", name] = {
            "metadata": {**metadata, "labels": {"icemirror/kind": kind}},
            "data": data,
        }

    def _answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> Answer:
        _, _, _, namespace, plural, *rest = path.strip("/").split("/")
        assert plural == "configmaps"
        if method == "GET" and not rest:
            selector = query.get("labelSelector", [""])[0]
            items = [
                item for (item_namespace, _), item in self.objects.items() if item_namespace == namespace
            ]
            return 200, {
                "kind": "ConfigMapList",
                "metadata": {"resourceVersion": str(self._version)},
                "items": [item for item in items if _matches(item["metadata"]["labels"], selector)],
            }
        sent = json.loads(body) if method in ("POST", "PUT") else {}
        name = rest[0] if rest else sent["metadata"]["name"]
        existing = self.objects.get((namespace, name))
        match method:
            case "POST" if namespace not in self.namespaces:
                return refusal(404, f'namespaces "{namespace}" not found')
            case "POST" if existing is not None:
                return refusal(409, f'configmaps "{name}" already exists')
            case "GET" | "PUT" | "DELETE" if existing is None:
                return refusal(404, f'configmaps "{name}" not found')
            case "GET":
                return 200, existing or {}
            case "DELETE":
                return 200, self.objects.pop((namespace, name))
        if existing and sent["metadata"].get("resourceVersion") not in (
            None,
            existing["metadata"]["resourceVersion"],
        ):
            return refusal(409, f'Operation cannot be fulfilled on configmaps "{name}"')
        if sum(map(len, sent["data"].values())) > MAX_BYTES:
            return refusal(422, "[]: Too long: may not be more than 1048576 bytes")
        self._version += 1
        sent["metadata"] |= {"resourceVersion": str(self._version)}
        self.objects[namespace, name] = sent
        return 201, sent


def _matches(labels: dict[str, str], selector: str) -> bool:
    """Match `key in (a,b)` or `key=a`, the only selectors in use."""
    key, _, values = selector.replace("=", " in ").partition(" in ")
    return labels.get(key) in values.strip("()").split(",")


@contextmanager
def fake_kubernetes(folder: Path) -> Iterator[tuple[Path, FakeCluster]]:
    """Run the server; yield a kubeconfig for it and the cluster."""
    cluster = FakeCluster()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            address = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            answer = cluster.handle(
                self.command, address.path, parse_qs(address.query), self.rfile.read(length)
            )
            if answer is None:  # the connection closes without a response
                self.close_connection = True
                return
            body = json.dumps(answer[1]).encode()
            self.send_response(answer[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 (names of the standard library)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield write_kubeconfig(folder, f"http://127.0.0.1:{server.server_port}"), cluster
    server.shutdown()
    server.server_close()
    thread.join()


def write_kubeconfig(folder: Path, server: str, token: str = "none", ca: str | None = None) -> Path:  # noqa: S107
    """Write a file for `KUBECONFIG`."""
    path = folder / f"kubeconfig-{hashlib.sha256(token.encode()).hexdigest()[:12]}"
    cluster = {"server": server, **({"certificate-authority": ca} if ca else {})}
    document = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": token}}],
    }
    path.write_text(json.dumps(document))
    return path


def open_kubeconfig(
    kubeconfig: Path,
    namespace: str = "icemirror",
    kept_results: int = 5,
    kept_letters: int = 4,
    attempts: int = 3,
) -> KubernetesStore:
    """Open a store; a module-level function, so that other processes can unpickle it."""
    client = Client(KubeConfig.from_file(kubeconfig), namespace=namespace, trust_env=False)
    calls = ApiCalls(namespace, attempts)
    return KubernetesStore(
        client, namespace, kept_results=kept_results, kept_letters=kept_letters, calls=calls
    )
