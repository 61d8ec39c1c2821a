from __future__ import annotations

import pytest

from tests.unit.icemirror.settings.samples import CATALOG, TABLES, Load, Refuse


def test_variables_are_replaced_alone_and_inside_text(load: Load) -> None:
    settings = load(
        f"project_ref: ${{NAME}}\nenvironment: ${{A}}-${{B}}\n{CATALOG}{TABLES}",
        {"NAME": "shop", "A": "x", "B": "y"},
    )
    assert (settings.project_ref, settings.environment) == ("shop", "x-y")


def test_numbers_can_come_from_the_environment(load: Load) -> None:
    settings = load(f"batch_size: ${{N}}\nmerge_interval: ${{T}}\n{CATALOG}{TABLES}", {"N": "100", "T": "5m"})
    assert (settings.batch_size, settings.merge_interval) == (100, 300)


def test_two_dollars_are_a_literal_dollar(load: Load) -> None:
    settings = load(f"project_ref: $${{NAME}}\nenvironment: a$b\n{CATALOG}{TABLES}")
    assert (settings.project_ref, settings.environment) == ("${NAME}", "a$b")


def test_trailing_newline_of_a_secret_is_dropped(load: Load) -> None:
    settings = load(f"sentry: {{dsn: '${{DSN}}'}}\n{CATALOG}{TABLES}", {"DSN": "https://k@sentry/1\n"})
    assert settings.sentry is not None
    assert settings.sentry.dsn.get_secret_value() == "https://k@sentry/1"


def test_variables_in_values_are_not_replaced(load: Load) -> None:
    settings = load(f"project_ref: ${{A}}\n{CATALOG}{TABLES}", {"A": "${B}", "B": "no"})
    assert settings.project_ref == "${B}"


def test_every_unset_variable_is_reported_with_its_line(refuse: Refuse) -> None:
    text = f"iceberg:\n  catalog_url: https://${{HOST}}:${{PORT}}\n  catalog_token: ${{TOKEN}}\n{TABLES}"
    assert refuse(text, {"HOST": "h"}) == [
        "icemirror.yaml:2: iceberg.catalog_url: the environment variable PORT is not set (or empty)",
        "icemirror.yaml:3: iceberg.catalog_token: the environment variable TOKEN is not set (or empty)",
    ]


def test_empty_variable_counts_as_unset_if_it_is_the_whole_value(refuse: Refuse, load: Load) -> None:
    assert (
        "NAME is not set (or empty)" in refuse(f"project_ref: ${{NAME}}\n{CATALOG}{TABLES}", {"NAME": ""})[0]
    )
    assert load(f"project_ref: a${{NAME}}\n{CATALOG}{TABLES}", {"NAME": ""}).project_ref == "a"


def test_consequences_of_an_unset_variable_are_not_reported(refuse: Refuse) -> None:
    assert len(refuse(f"batch_size: ${{N}}\n{CATALOG}{TABLES}")) == 1


@pytest.mark.parametrize("reference", ["${FOO:-x}", "${}", "${1A}", "${A B}", "${OPEN"])
def test_invalid_variable_reference_is_refused(refuse: Refuse, reference: str) -> None:
    found = refuse(f"project_ref: '{reference}'\n{CATALOG}{TABLES}")
    assert "is not a variable: write ${NAME}, or $${ for a literal ${" in found[0]


def test_section_with_only_unset_variables_is_disabled(load: Load) -> None:
    text = (
        'sentry: {dsn: "${SENTRY_DSN}"}\ntelemetry: {otlp: "${OTLP}"}\n'
        'trigger: {sources: {http: {token: "${TOKEN}"}, kafka: {bootstrap_servers: "${KAFKA}"}}}\n'
    )
    settings = load(text + CATALOG + TABLES)
    assert settings.sentry is None
    assert settings.telemetry.otlp is None
    assert settings.trigger.sources.http is None
    assert settings.trigger.sources.kafka is None


def test_partly_set_section_requires_all_its_variables(refuse: Refuse) -> None:
    text = 'trigger: {sources: {kafka: {bootstrap_servers: "${KAFKA}", topics: [events]}}}\n'
    (problem,) = refuse(text + CATALOG + TABLES)
    assert problem.startswith("icemirror.yaml:1: trigger.sources.kafka.bootstrap_servers: the environment")


def test_required_section_is_not_disabled(refuse: Refuse) -> None:
    assert "URL is not set" in refuse(f"iceberg: {{catalog_url: '${{URL}}'}}\n{TABLES}")[0]


def test_sentry_is_enabled_by_its_variable_unless_set_to_null(load: Load) -> None:
    environ = {"SENTRY_DSN": "https://k@sentry/1"}
    assert load(CATALOG + TABLES, environ).sentry is not None
    assert load(CATALOG + TABLES).sentry is None
    assert load(f"sentry: null\n{CATALOG}{TABLES}", environ).sentry is None
