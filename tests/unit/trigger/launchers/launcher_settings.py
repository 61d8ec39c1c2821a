"""Settings of the launchers for tests, and the matching arguments of the job."""

from __future__ import annotations

from pathlib import Path

from icemirror.config_file.load import load_settings
from icemirror.settings import Settings
from icemirror.settings.trigger import EmrServerlessLauncherSettings, KubernetesLauncherSettings
from tests.platforms.fake_emr import APPLICATION
from tests.platforms.fake_kubernetes import NAMESPACE
from trigger.launchers import emr_request, spark_application
from trigger.launchers.job_arguments import JobArguments, job_arguments

ENVIRON = {"CATALOG_TOKEN": "t0ken", "WAREHOUSE": "s3://lake"}
FILE = """
project_ref: shop
iceberg: {{catalog: {{type: rest, uri: 'http://catalog', token: '${{CATALOG_TOKEN}}', warehouse: '${{WAREHOUSE}}'}}}}
tables: [{{namespace: shop, changelog_table: orders_changelog, mirror_table: orders, primary_keys: [id]}}]
job:
  spark:
    spark.driver.memory: 2g
    spark.executor.memory: 4g
    spark.sql.shuffle.partitions: 8
    spark.hadoop.fs.s3a.secret.key: '${{CATALOG_TOKEN}}'
trigger:
  state: {{type: dynamodb, table: state}}
  launcher: {launcher}
"""
EMR = (
    f"{{type: emr-serverless, application_id: {APPLICATION}, region: eu-west-1, "
    "execution_role_arn: 'arn:aws:iam::123456789012:role/job', entry_point: 's3://code/icemirror_job.py', "
    "archives: ['s3://code/environment.tar.gz'], log_uri: 's3://logs/', tags: {team: lake}, "
    "secrets: {CATALOG_TOKEN: icemirror/catalog}}"
)
KUBERNETES = (
    f"{{type: kubernetes, namespace: {NAMESPACE}, image: 'registry.test/icemirror:1', service_account: spark, "
    "secrets: {CATALOG_TOKEN: catalog/token}, template: {spec: {driver: {cores: 2}}}}"
)


def load(folder: Path, launcher: str) -> Settings:
    path = folder / "icemirror.yaml"
    path.write_text(FILE.format(launcher=launcher))
    return load_settings(path, ENVIRON)


def for_emr(folder: Path, launcher: str = EMR) -> tuple[EmrServerlessLauncherSettings, JobArguments]:
    settings = load(folder, launcher)
    configured = settings.trigger.launcher
    assert isinstance(configured, EmrServerlessLauncherSettings)
    return configured, job_arguments(settings, ENVIRON, configured.secrets, emr_request.PLATFORM_PREFIX)


def for_kubernetes(
    folder: Path, launcher: str = KUBERNETES
) -> tuple[KubernetesLauncherSettings, JobArguments]:
    settings = load(folder, launcher)
    configured = settings.trigger.launcher
    assert isinstance(configured, KubernetesLauncherSettings)
    return configured, job_arguments(settings, ENVIRON, configured.secrets, spark_application.PLATFORM_PREFIX)
