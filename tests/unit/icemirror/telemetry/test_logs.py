"""The contents of log lines, as JSON and as text; secrets are never logged."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from icemirror.config_file.load import load_settings
from icemirror.errors import Invalid
from icemirror.telemetry.logs import bind, bound_fields, configure_logs, get_log
from icemirror.telemetry.redaction import forget_secrets, redact, redact_tree, register_secret
from icemirror.telemetry.start_telemetry import start_logs

CANARY = 'canary/Pa55 "wörd\\&+'


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, show = list(root.handlers), root.level, warnings.showwarning
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    warnings.showwarning = show
    forget_secrets()


def thrown(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """Return the error with a traceback."""
    try:
        raise error from cause
    except type(error) as caught:
        return caught


def json_lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def use_json(level: str = "info") -> None:
    logging.getLogger().handlers.clear()  # pytest's handlers fail on a library's bad message
    configure_logs(log_format="json", log_level=level, project_ref="shop", environment="dev")


def use_text(level: str = "info") -> None:
    configure_logs(log_format="text", log_level=level, project_ref="shop", environment="dev")


def test_every_line_has_project_table_run_and_batch(capsys: pytest.CaptureFixture[str]) -> None:
    use_json()
    log = get_log("spark_job.pipeline")
    log.info("started")
    with bind(table="shop.orders", run="r-1"), bind(batch="b-7"):
        log.info("merged", events=2000, seconds=0.7)
    log.info("ended")
    first, merged, last = json_lines(capsys.readouterr().err)
    assert list(first)[:8] == ["ts", "level", "event", "project_ref", "environment", "table", "run", "batch"]
    assert (first["table"], first["run"], first["batch"]) == (None, None, None)
    assert (merged["table"], merged["run"], merged["batch"]) == ("shop.orders", "r-1", "b-7")
    assert (merged["event"], merged["events"], merged["seconds"]) == ("merged", 2000, 0.7)
    assert (merged["project_ref"], merged["environment"]) == ("shop", "dev")
    assert merged["logger"] == "spark_job.pipeline"
    assert str(merged["ts"]).endswith("Z")
    assert (last["table"], last["run"], last["batch"]) == (None, None, None)


def test_logs_are_not_written_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    use_json()
    get_log("x").warning("careful")
    assert capsys.readouterr().out == ""


def test_inner_binding_overrides_the_outer_and_ends_with_an_error() -> None:
    with bind(table="a", run="1"):
        with bind(table="b"):
            assert bound_fields() == {"table": "b", "run": "1"}
        with pytest.raises(ValueError, match="boom"), bind(table="b"):
            raise ValueError("boom")
        assert bound_fields() == {"table": "a", "run": "1"}


def test_new_thread_has_no_bound_fields() -> None:
    seen: list[object] = []
    with bind(table="a"):
        thread = threading.Thread(target=lambda: seen.append(dict(bound_fields())))
        thread.start()
        thread.join()
    assert seen == [{}]


def test_field_cannot_replace_the_first_keys_of_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    use_json()
    get_log("x").info("real", level="fake", ts="fake", project_ref="fake", event="fake")
    (line,) = json_lines(capsys.readouterr().err)
    assert (line["level"], line["event"], line["project_ref"]) == ("info", "real", "shop")
    assert (line["level_"], line["event_"]) == ("fake", "fake")


def test_every_record_is_one_line_of_valid_json(capsys: pytest.CaptureFixture[str]) -> None:
    use_json()
    log = get_log("x")
    log.info("two\nlines\u2028or three", path="a\r\nb", number=float("nan"), thing=object(), many={1, 2})
    logging.getLogger("library").warning("%d wrong arguments", "no number")
    text = capsys.readouterr().err
    assert text.count("\n") == 2
    first, second = json_lines(text)
    assert first["event"] == "two\nlines\u2028or three"
    assert first["number"] == "nan"
    assert second["event"] == "%d wrong arguments"


def test_log_level_applies_and_libraries_log_only_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    use_json("debug")
    get_log("x").debug("seen")
    for name in ("py4j.clientserver", "pyiceberg.io", "urllib3.connectionpool"):
        logging.getLogger(name).info("chatter")
        logging.getLogger(name).warning("important")
    events = [line["event"] for line in json_lines(capsys.readouterr().err)]
    assert events == ["seen", "important", "important", "important"]
    use_json("warning")
    get_log("x").info("unseen")
    assert capsys.readouterr().err == ""


def test_kubernetes_api_calls_are_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    use_json()
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json={}))
    with httpx2.Client(transport=transport) as client:
        client.get("https://kubernetes.default.svc/api/v1/namespaces/icemirror/configmaps/icemirror-bell")
    assert capsys.readouterr().err == ""
    use_json("debug")
    assert not logging.getLogger("httpcore2.http11").isEnabledFor(logging.INFO)


def test_second_configuration_does_not_duplicate_lines(capsys: pytest.CaptureFixture[str]) -> None:
    use_text()
    use_json()
    get_log("x").info("once")
    assert len(json_lines(capsys.readouterr().err)) == 1


def test_failure_has_kind_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    use_json()
    error = thrown(Invalid("shop.orders: no key column, expected id"))
    get_log("x").failure("table failed", error, table="shop.orders")
    (line,) = json_lines(capsys.readouterr().err)
    assert line["error"] == {
        "kind": "invalid",
        "type": "Invalid",
        "message": "shop.orders: no key column, expected id",
    }
    assert line["table"] == "shop.orders"


@pytest.mark.parametrize(
    ("error", "level", "traced"),
    [(Invalid("named"), "info", False), (Invalid("named"), "debug", True), (KeyError("x"), "info", True)],
)
def test_traceback_is_logged_for_unexpected_errors_and_at_debug_level(
    capsys: pytest.CaptureFixture[str], error: Exception, level: str, traced: bool
) -> None:
    use_json(level)
    get_log("x").failure("table failed", thrown(error))
    (line,) = json_lines(capsys.readouterr().err)
    assert ("traceback" in line) is traced


def test_text_lines_are_short(capsys: pytest.CaptureFixture[str]) -> None:
    use_text()
    with bind(table="shop.orders", run="r-1"):
        get_log("x").info("merged", events=2000, note="two words")
    line = capsys.readouterr().err
    assert line[8:] == ' info    shop.orders merged run=r-1 events=2000 note="two words"\n'
    assert "\x1b" not in line


def test_text_shows_a_known_error_without_and_another_with_its_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    use_text()
    get_log("x").failure("failed", Invalid("say what to do"))
    assert capsys.readouterr().err.splitlines()[1:] == ["  say what to do"]
    get_log("x").failure("failed", thrown(KeyError("surprise")))
    assert "  Traceback (most recent call last):" in capsys.readouterr().err


def test_control_characters_are_removed_from_text_lines(capsys: pytest.CaptureFixture[str]) -> None:
    use_text()
    get_log("x").info("bad \x1b[2J name", path="a\nfake line")
    text = capsys.readouterr().err
    assert "\x1b" not in text
    assert text.count("\n") == 1


@pytest.mark.parametrize("form", ["json", "text"])
def test_registered_secret_is_never_logged(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    register_secret(CANARY)
    use_json() if form == "json" else use_text()
    log = get_log("x")
    log.info(f"connecting with {CANARY}", url=f"s3://u:{CANARY}@host/", nested={"deep": [CANARY], CANARY: 1})
    log.info(
        "quoted", url="https://host/?token=canary%2FPa55%20%22w%C3%B6rd%5C%26%2B", body=json.dumps(CANARY)
    )
    logging.getLogger("library").warning("args %s %r", CANARY, CANARY)
    cause = thrown(ValueError(f"cause {CANARY}"))
    log.failure("failed", thrown(RuntimeError(f"effect {CANARY}"), cause))
    with bind(table=CANARY, run=CANARY):
        log.warning("bound")
    text = capsys.readouterr().err
    assert text
    assert "***" in text
    for piece in ("canary", "Pa55", "rd\\\\", "w%C3"):
        assert piece not in text, text


def test_unregistered_secret_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that the test above can fail: it would pass on an empty log."""
    use_json()
    get_log("x").info(f"connecting with {CANARY}")
    assert "canary" in capsys.readouterr().err


def test_short_values_are_not_secrets() -> None:
    register_secret("")
    register_secret("abc")
    assert redact("abc abc") == "abc abc"


def test_longer_secret_is_masked_before_a_contained_one() -> None:
    register_secret("token")
    register_secret("token-with-tail")
    assert redact("a token-with-tail b token c") == "a *** b *** c"


def test_redacted_tree_is_plain_json() -> None:
    register_secret("hunter2")
    tree = redact_tree({"a": ("hunter2", 1.5, None, True), 2: {"hunter2"}})
    assert tree == {"a": ["***", 1.5, None, True], "2": ["***"]}


@pytest.mark.parametrize(("chosen", "form"), [("", "text"), ("log_format: json", "json")])
def test_terminal_gets_text_unless_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, form: str
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    config = tmp_path / "icemirror.yaml"
    config.write_text(
        "iceberg: {catalog: {type: glue}}\ntables: [{changelog: raw.o, mirror: shop.o}]\n"
        f"telemetry: {{prometheus: null, {chosen}}}\n"
    )
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    start_logs(load_settings(config, {}))
    get_log("t").info("hello")
    assert terminal.getvalue().startswith("{") is (form == "json")
