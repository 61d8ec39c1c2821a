"""A Kubernetes API server with its etcd, built once from Go modules. No kubelet and no controllers: objects only."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.processes.stores.fake_kubernetes import write_kubeconfig
from tests.provision.cache import fetch_once
from tests.provision.go_programs import run_go
from tests.services.processes import HOST, answers, free_port, running

_VERSION, _ETCD_VERSION = "1.34.1", "v3.6.4"
_ADMIN = "admin-of-the-tests"
_MAINS = {
    "kube-apiserver": """package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
""",
    "etcd": """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
""",
}


@dataclass(frozen=True)
class KubeApiServer:
    """A running API server. The tests act as its administrator; service accounts have the permissions of RBAC."""

    port: int
    certificate: Path
    folder: Path

    @property
    def address(self) -> str:
        return f"https://{HOST}:{self.port}"

    def kubeconfig(self, token: str = _ADMIN) -> Path:
        """Write a kubeconfig with this token."""
        return write_kubeconfig(self.folder, self.address, token, str(self.certificate))

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send a request as the administrator; an existing object is not an error."""
        request = urllib.request.Request(  # noqa: S310 (loopback)
            f"{self.address}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {_ADMIN}", "Content-Type": "application/json"},
        )
        trust = ssl.create_default_context(cafile=str(self.certificate))
        try:
            with urllib.request.urlopen(request, timeout=30, context=trust) as response:  # noqa: S310
                return json.load(response)
        except urllib.error.HTTPError as refusal:
            with refusal:
                status = json.load(refusal)
            if status.get("reason") == "AlreadyExists":
                return status
            raise AssertionError(status.get("message")) from refusal

    def apply(self, manifest: Path) -> None:
        """Create the objects of a manifest."""
        for document in yaml.safe_load_all(manifest.read_text()):
            group = document["apiVersion"]
            root = f"/apis/{group}" if "/" in group else f"/api/{group}"
            namespace = document["metadata"].get("namespace")
            namespace_path = f"/namespaces/{namespace}" if namespace else ""
            self.call("POST", f"{root}{namespace_path}/{document['kind'].lower()}s", document)

    def allows(self, service_account: str, namespace: str, verb: str, resource: str, group: str = "") -> bool:
        """Return whether RBAC allows this now; changes apply with a short delay."""
        attributes = {"verb": verb, "resource": resource, "namespace": namespace, "group": group}
        user = f"system:serviceaccount:{namespace}:{service_account}"
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        response = self.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(response["status"]["allowed"])

    def token(self, namespace: str, service_account: str) -> str:
        """Return a token of a service account, as a pod gets it."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.call("POST", path, request)["status"]["token"])


def _build(scratch: Path) -> Path:
    module, programs = scratch / "module", scratch / "bin"
    for name, source in _MAINS.items():
        (module / name).mkdir(parents=True)
        (module / name / "main.go").write_text(source)
    requires = f"require k8s.io/kubernetes v{_VERSION}\nrequire go.etcd.io/etcd/server/v3 {_ETCD_VERSION}\n"
    (module / "go.mod").write_text(f"module icemirror.tests/kubernetes\n\ngo 1.24.0\n\n{requires}")
    # Kubernetes replaces some modules with folders of its tree: a dependent must pin their releases.
    found = json.loads(run_go(module, "mod", "download", "-json", f"k8s.io/kubernetes@v{_VERSION}"))
    staged = re.findall(r"(k8s\.io/\S+) => \./staging/", Path(found["GoMod"]).read_text())
    with (module / "go.mod").open("a") as file:
        file.writelines(f"replace {name} => {name} v0.{_VERSION[2:]}\n" for name in staged)
    run_go(module, "build", "-mod=mod", "-o", f"{programs}/", *(f"./{name}" for name in _MAINS))
    return programs


def kubernetes_programs() -> Path:
    """Return a folder with kube-apiserver and etcd."""
    return fetch_once(f"servers/kubernetes-{_VERSION}", _build)


@contextmanager
def kube_apiserver(folder: Path) -> Iterator[KubeApiServer]:
    """Run the server with RBAC and a temporary etcd."""
    programs = kubernetes_programs()
    with _etcd(programs, folder) as etcd:
        port = free_port()
        certificates = folder / "certificates"
        key = folder / "service-account.key"
        key.write_bytes(_private_key())
        tokens = folder / "tokens.csv"
        tokens.write_text(f"{_ADMIN},admin,1,system:masters\n")
        options = {
            "etcd-servers": etcd,
            "bind-address": HOST,
            "secure-port": str(port),
            "cert-dir": str(certificates),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(key),
            "service-account-signing-key-file": str(key),
            "service-cluster-ip-range": "10.0.0.0/24",
            "authorization-mode": "RBAC",
            "token-auth-file": str(tokens),
            "disable-admission-plugins": "ServiceAccount",  # no controller creates the default account
        }
        command = [
            str(programs / "kube-apiserver"),
            *(f"--{name}={value}" for name, value in options.items()),
        ]
        server = KubeApiServer(port, certificates / "apiserver.crt", folder)
        with running(command, folder / "kube-apiserver.log", lambda: _ready(server), seconds=240):
            yield server


@contextmanager
def _etcd(programs: Path, folder: Path) -> Iterator[str]:
    clients, peers = (f"http://{HOST}:{free_port()}" for _ in range(2))
    options = {
        "data-dir": str(folder / "etcd"),
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": peers,
        "initial-advertise-peer-urls": peers,
        "initial-cluster": f"default={peers}",
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }
    command = [str(programs / "etcd"), *(f"--{name}={value}" for name, value in options.items())]
    with running(command, folder / "etcd.log", lambda: answers(f"{clients}/health")):
        yield clients


def _private_key() -> bytes:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _ready(server: KubeApiServer) -> bool:
    if not server.certificate.exists():
        return False
    trust = ssl.create_default_context(cafile=str(server.certificate))
    try:
        with urllib.request.urlopen(f"{server.address}/readyz", timeout=2, context=trust):  # noqa: S310
            return True
    except (OSError, ssl.SSLError):
        return False
