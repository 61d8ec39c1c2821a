"""The samples of the documents: what their configuration reads from the environment is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from icemirror.settings import load_settings
from icemirror.settings.trigger import KubernetesLauncher
from tests.infra.kubernetes import Manifest, helm, pod_templates
from tests.need import do_without
from tests.services.processes import Unavailable
from tests.unit.house.tracked import ROOT

_CREATED = re.compile(r"create secret generic (\S+) ((?:--from-literal=\S+\s*)+)")


def document(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def samples(text: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def secrets(text: str) -> dict[str, set[str]]:
    """The Secrets that the document lets one make, with their keys."""
    return {
        name: set(re.findall(r"--from-literal=([^=\s]+)=", keys)) for name, keys in _CREATED.findall(text)
    }


def supplied(config: str, launcher: KubernetesLauncher, made: dict[str, set[str]]) -> None:
    """Each name of the configuration is a key that jobs are given."""
    for name in set(re.findall(r"\$\{(\w+)\}", config)):
        secret, _, key = launcher.secrets[name].partition("/")
        assert key in made[secret], f"{name}: the Secret {secret} has {made[secret]}"


def loaded(config: str, environ: dict[str, str], folder: Path) -> KubernetesLauncher:
    path = folder / "icemirror.yaml"
    path.write_text(config)
    launcher = load_settings(path, environ).trigger.launcher
    assert isinstance(launcher, KubernetesLauncher)
    return launcher


def test_helms_sample_finds_its_secrets_in_trigger_and_jobs(tmp_path: Path) -> None:
    text = document("deploy-kubernetes.md")
    (sample,) = [one for one in samples(text) if one.startswith("# values.yaml")]
    values = tmp_path / "values.yaml"
    values.write_text(sample)
    try:
        objects = helm("icemirror", "icemirror", values)
    except Unavailable as error:
        do_without(str(error))
    (config,) = [one["data"]["icemirror.yaml"] for one in objects if "icemirror.yaml" in one.get("data", {})]
    made = secrets(text)
    for template in pod_templates(objects).values():
        environ = {name: "x" for secret in read_by(template) for name in made[secret]}
        supplied(config, loaded(config, environ, tmp_path), made)


def read_by(template: Manifest) -> list[str]:
    """The Secrets whose keys become the environment of a pod."""
    sources: list[dict[str, Any]] = template["spec"]["containers"][0]["envFrom"]
    return [one["secretRef"]["name"] for one in sources]


def test_the_sample_of_jobs_finds_its_secrets(tmp_path: Path) -> None:
    text = document("jobs.md")
    (sample,) = [one for one in samples(text) if "type: kubernetes" in one]
    made = secrets(text)
    environ = {name: "x" for keys in made.values() for name in keys}
    supplied(sample, loaded(sample, environ, tmp_path), made)
