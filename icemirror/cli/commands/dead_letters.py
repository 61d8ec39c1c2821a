"""`icemirror dead-letters`: hints that could not be parsed."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.terminal.columns import Column, fit_columns
from icemirror.cli.terminal.console import out, print_error, print_hint, print_json, print_result, printable
from icemirror.cli.terminal.text import examples
from icemirror.errors import Exit, exit_code, worst_exit
from icemirror.telemetry.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icemirror.errors import IcemirrorError
    from icemirror.settings import Settings
    from icemirror.stores.dead_letters import DeadLetter

_LIST, _REDRIVE, _DROP = "list", "redrive", "drop"
_SHOWN_CHARACTERS = 60


@click.command(
    epilog=examples(
        "icemirror dead-letters", "icemirror dead-letters redrive", "icemirror dead-letters drop --all"
    )
)
@config_option
@click.argument("action", required=False, default=_LIST, type=click.Choice([_LIST, _REDRIVE, _DROP]))
@click.option("--id", "ids", multiple=True, metavar="ID", help="Only this dead letter; may be repeated.")
@click.option("--all", "all_letters", is_flag=True, help="With drop: remove all.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per dead letter on stdout, with its body."
)
def dead_letters(
    config: str | None, action: str, ids: tuple[str, ...], all_letters: bool, as_json: bool
) -> int | None:
    """List, redrive or drop events that could not be parsed, with the reason.

    \b
    list     show them (the default), oldest first
    redrive  parse them again, all or those of --id; accepted ones are removed
    drop     remove those of --id, or --all

    Dropping loses no data: events are hints, and the next sweep finds the commits that they report.
    """
    if action == _DROP and bool(ids) == all_letters:
        raise click.UsageError("give either --id or --all")
    settings = load_configuration(config)
    from icemirror.stores.from_settings import read_letters

    letters = _choose(read_letters(settings), ids)
    match action:
        case "redrive":
            return _redrive(settings, letters, as_json=as_json)
        case "drop":
            _drop(settings, letters, as_json=as_json)
        case _:
            _show(letters, as_json=as_json)
    return None


def _choose(letters: Sequence[DeadLetter], ids: tuple[str, ...]) -> list[DeadLetter]:
    letter_by_id = {letter.id: letter for letter in letters}
    if missing := [letter_id for letter_id in ids if letter_id not in letter_by_id]:
        raise click.UsageError(
            f"no dead letter has the id {missing[0]}: list them with `icemirror dead-letters`"
        )
    return [letter_by_id[letter_id] for letter_id in ids] if ids else list(letters)


def _redrive(settings: Settings, letters: Sequence[DeadLetter], *, as_json: bool) -> int:
    from icemirror.stores.dead_letters import redrive_letters
    from icemirror.stores.from_settings import open_store
    from icemirror.telemetry.metrics import NoMetrics
    from trigger.dispatch.ingest import EventIngest
    from trigger.wiring import build_dispatcher

    codes: list[Exit] = []
    if not letters:
        _print_none(as_json=as_json)
        return Exit.DONE
    with open_store(settings) as store:
        dispatcher = build_dispatcher(settings, store, NoMetrics(), os.environ)
        with closing(dispatcher.registry):
            dispatcher.registry.refresh()
            for letter, error in redrive_letters(
                letters, EventIngest(dispatcher).redrive, store.remove_letter
            ):
                codes.append(Exit.DONE if error is None else exit_code(error))
                _print_outcome(letter, "taken" if error is None else "refused", error, as_json=as_json)
    return worst_exit(codes)


def _drop(settings: Settings, letters: Sequence[DeadLetter], *, as_json: bool) -> None:
    from icemirror.stores.from_settings import open_store

    if not letters:
        _print_none(as_json=as_json)
        return
    with open_store(settings) as store:
        for letter in letters:
            store.remove_letter(letter.id)
            _print_outcome(letter, "dropped", None, as_json=as_json)


def _print_outcome(letter: DeadLetter, outcome: str, error: IcemirrorError | None, *, as_json: bool) -> None:
    """Print what happened to one letter."""
    if as_json:
        failure = None if error is None else {"kind": error.kind, "message": redact(str(error))}
        print_json({"id": letter.id, "source": letter.source, "outcome": outcome, "error": failure})
    elif error is None:
        text = "accepted" if outcome == "taken" else outcome  # (the JSON value is a contract)
        out.print(Text(f"{letter.id}: {text}"), soft_wrap=True)
    else:
        print_error(f"{letter.id}: {error}")


def _show(letters: Sequence[DeadLetter], *, as_json: bool) -> None:
    if as_json:
        for letter in letters:
            print_json(_document(letter))
        return
    if not letters:
        _print_none(as_json=False)
        return
    documents = [_document(letter) for letter in letters]
    events = [printable(" ".join(letter["body"].split()))[:_SHOWN_CHARACTERS] for letter in documents]
    columns = [
        Column("id", [Text(letter["id"]) for letter in documents]),
        Column("source", [Text(letter["source"]) for letter in documents]),
        Column("received", [Text(letter["received_at"][:19]) for letter in documents]),
        Column(
            "reason",
            [Text(printable(" ".join(letter["reason"].split()))) for letter in documents],
            wraps=True,
        ),
        Column("event", [Text(event) for event in events], wraps=True, drop_rank=1),
    ]
    print_result(fit_columns(columns, out.width))


def _print_none(*, as_json: bool) -> None:
    if not as_json:
        print_hint("no dead letters")


def _document(letter: DeadLetter) -> dict[str, Any]:
    received = datetime.fromtimestamp(letter.received_at, UTC).isoformat(timespec="milliseconds")
    return {
        "id": letter.id,
        "source": letter.source,
        "reason": redact(letter.reason),
        "received_at": received,
        "body": redact(letter.body),
        "whole": letter.whole,
    }
