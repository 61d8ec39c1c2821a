"""Every `${NAME}` in the sample configurations of the docs is a key of a documented Secret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from icemirror.config_file.load import load_settings
from icemirror.settings.trigger import KubernetesLauncherSettings
from tests.infra.kubernetes import Manifest, helm, pod_templates
from tests.provision.cache import Unavailable
from tests.support.need import do_without
from tests.unit.house.tracked import ROOT

pytestmark = pytest.mark.timeout(3000)  # includes the first build of Helm

_CREATED = re.compile(r"create secret generic (\S+) ((?:--from-literal=\S+\s*)+)")


def document(name: str) -> str:
    return (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8")


def samples(text: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def secrets(text: str) -> dict[str, set[str]]:
    """Return the Secrets that a page creates, with their keys."""
    return {
        name: set(re.findall(r"--from-literal=([^=\s]+)=", keys)) for name, keys in _CREATED.findall(text)
    }


def assert_supplied(
    config: str, launcher: KubernetesLauncherSettings, documented: dict[str, set[str]]
) -> None:
    """Assert that jobs receive every `${NAME}` of the configuration."""
    for name in set(re.findall(r"\$\{(\w+)\}", config)):
        secret, _, key = launcher.secrets[name].partition("/")
        assert key in documented[secret], f"{name}: the Secret {secret} has {documented[secret]}"


def load_launcher(config: str, environ: dict[str, str], folder: Path) -> KubernetesLauncherSettings:
    path = folder / "icemirror.yaml"
    path.write_text(config)
    launcher = load_settings(path, environ).trigger.launcher
    assert isinstance(launcher, KubernetesLauncherSettings)
    return launcher


def test_helm_sample_has_its_secrets(tmp_path: Path) -> None:
    text = document("deploy-kubernetes.md")
    (sample,) = [block for block in samples(text) if block.startswith("# values.yaml")]
    values = tmp_path / "values.yaml"
    values.write_text(sample)
    try:
        objects = helm("icemirror", "icemirror", values)
    except Unavailable as error:
        do_without(str(error))
    (config,) = [
        manifest["data"]["icemirror.yaml"]
        for manifest in objects
        if "icemirror.yaml" in manifest.get("data", {})
    ]
    documented = secrets(text)
    for template in pod_templates(objects).values():
        environ = {name: "x" for secret in environment_secrets(template) for name in documented[secret]}
        assert_supplied(config, load_launcher(config, environ, tmp_path), documented)


def environment_secrets(template: Manifest) -> list[str]:
    """Return the Secrets whose keys become the environment of a pod."""
    sources: list[dict[str, Any]] = template["spec"]["containers"][0]["envFrom"]
    return [source["secretRef"]["name"] for source in sources]


def test_jobs_sample_has_its_secrets(tmp_path: Path) -> None:
    text = document("jobs.md")
    (sample,) = [block for block in samples(text) if "type: kubernetes" in block]
    documented = secrets(text)
    environ = {name: "x" for keys in documented.values() for name in keys}
    assert_supplied(sample, load_launcher(sample, environ, tmp_path), documented)
