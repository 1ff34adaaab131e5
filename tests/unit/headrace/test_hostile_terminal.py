"""Test that external text cannot control the terminal: escape sequences, overrides, markup, line breaks."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from headrace.brooklin.importer import TakeOver
from headrace.brooklin.verdicts import ImportFinding, ImportVerdict
from headrace.commands.import_brooklin import _finding_document
from headrace.commands.import_brooklin import _print_outcome as tell_take_over
from headrace.console.escapes import json_text, visible, visible_lines
from headrace.console.terminal import complain, console, print_json, print_table, print_text
from headrace.process.logs import VisibleFormatter, configure_logs, log_first_to_stderr, log_to_stderr
from headrace.settings import LogSettings
from mirror.loggers import get_logger
from monitor.records.record import IncidentRecord, Phase
from tests.builders import a_datastream
from tests.fakes.in_process import InProcess
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace, Serve

HOSTILE: Final = "\x1b[2J\x1b]8;;http://x\x07\x9b31m\u202egnp\u2066\r\n\u2028headrace: all is well\x00\x7f"
MARKUP: Final = "[red]x[/red] [link=http://x] [/] :warning: [bold"
PATH: Final = ("datastream", "x")


class Hostile(httpx.BaseTransport):
    """A service that appends characters unsafe for terminals to all strings in responses but field names."""

    def __init__(self, site: Site) -> None:
        self._inner = InProcess(site.app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the real response with the unsafe characters added."""
        answer = self._inner.handle_request(request)
        body = json.dumps(spoilt(json.loads(answer.content))) if answer.content else None
        return httpx.Response(
            answer.status_code, headers={"ETag": answer.headers.get("ETag", "*")}, text=body
        )


def spoilt(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: one if key == "kind" else spoilt(one) for key, one in value.items()}
    if isinstance(value, list):
        return list(map(spoilt, value))
    return value + HOSTILE + MARKUP if isinstance(value, str) else value


def check(shown: str) -> None:
    """Assert that the output is printable and contains no forged line."""
    assert visible_lines(shown) == shown
    assert not any(line.startswith("headrace: all is well") for line in shown.splitlines())


@pytest.fixture
def hostile(serve: Serve) -> Site:
    site = Site()
    site.create("orders")
    body = {"partitions": {"t": "1"}, "reason": "to see", "requested_by": "me"}
    site.client.post("/v1/datastreams/orders/pause-partitions", json=body)
    site.client.post("/v1/datastreams/orders/plan", json={})
    site.incidents = [IncidentRecord("orders-1", "orders", "east", 1).noted(1, Phase.DETECTED, "late")]
    serve(Hostile(site))
    return site


@pytest.mark.parametrize(
    "arguments",
    [
        "datastream list",
        "datastream list --json",
        "datastream list -o yaml",
        "datastream get orders",
        "datastream get orders -o yaml",
        "datastream lag orders",
        "datastream gaps orders",
        "datastream create more --topics t --owner me --rename m.*",
        "datastream update orders --topics u --yes",
        "datastream update orders --topics u --dry-run",
        "datastream pause orders --reason why --by me",
        "datastream stop orders",
        "datastream stop orders --json",
        "datastream pause-partitions orders t:0 --reason why",
        "datastream resume-partitions orders t:0",
        "datastream pause-group orders --reason why",
        "datastream pause-group orders --dry-run",
        "datastream move orders one t-0",
        "datastream move orders one t-0 --dry-run",
        "datastream plan orders",
        "datastream show-plan p-0000000000",
        "datastream apply-plan p-0000000000",
        "datastream delete orders",
        "rebalance orders",
        "events",
        "events --json",
        "incidents",
        "incidents --json",
    ],
)
def test_every_command_shows_what_a_service_says(arguments: str, hostile: Site, headrace: Headrace) -> None:
    shown = headrace(*arguments.split())
    assert shown.code == 0, shown.err
    assert shown.out
    check(shown.out)
    check(shown.err)
    if "--json" not in arguments and "yaml" not in arguments and "get" not in arguments:
        assert MARKUP in shown.out or "will move" in shown.out


@pytest.mark.parametrize(
    "arguments",
    [
        "datastream get nothing",
        "datastream update orders --topics u",
        "datastream update orders --max-tasks 3 --min-tasks 5",
        "datastream create orders --topics t --owner me",
        "audit nothing",
        "rebalance nothing",
    ],
)
def test_every_error_of_a_service_is_one_line(arguments: str, hostile: Site, headrace: Headrace) -> None:
    shown = headrace(*arguments.split())
    assert shown.code in (1, 2)
    check(shown.err)
    (line,) = shown.err.splitlines()
    assert line.startswith("headrace: ")
    assert "\\x1b[2J" in line


def test_files_are_applied_with_whatever_is_in_them(
    hostile: Site, headrace: Headrace, tmp_path: Path
) -> None:
    file = tmp_path / "hostile.json"
    source = {"cluster": "source", "topics": HOSTILE + MARKUP}
    for name in ("orders", "fine"):
        definition = {"name": name, "owner": HOSTILE, "source": source, HOSTILE: MARKUP}
        file.write_text(json.dumps(definition))
        shown = headrace("apply", "-f", str(file), "--check")
        assert shown.code == 1, shown.err
        check(shown.out + shown.err)
        assert "\\x1b[2J" in shown.out + shown.err
    file.write_text(f"name: {HOSTILE!r}: [")
    shown = headrace("apply", "-f", str(file), "--check")
    assert shown.code == 2
    check(shown.err)
    shown = headrace("datastream", "wait", "orders", "--for", "stopped", "--timeout", "1ms")
    assert "\\x1b[2J" in shown.err
    check(shown.err)


def test_a_plan_shows_the_names_of_its_file(tmp_path: Path, headrace: Headrace) -> None:
    one = {"topic": "a" + HOSTILE, "partition": 0, "bytes_per_second": 1000}
    file = tmp_path / "input.json"
    file.write_text(json.dumps({"partitions": [one], "capacity": {"bytes_per_second": 2000}}))
    for option in ("--json", "--no-json"):
        shown = headrace("plan", "--input", str(file), option)
        check(shown.out + shown.err)


def test_samples_are_printed_a_line_each(monkeypatch: pytest.MonkeyPatch, headrace: Headrace) -> None:
    monkeypatch.setattr("sys.stdin", [HOSTILE])
    shown = headrace("pmp", "decode")
    check(shown.out)
    assert len(shown.out.splitlines()) == 1


def test_what_brooklin_has_stored_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    finding = ImportFinding(HOSTILE, ImportVerdict.IMPOSSIBLE, (HOSTILE + MARKUP,))
    tell_take_over(TakeOver(HOSTILE, (HOSTILE,), applied=False, findings=(finding,)))
    shown = capsys.readouterr().out
    assert shown
    check(shown)


@pytest.mark.parametrize("is_command", [True, False])
def test_logs_for_people_are_lines(is_command: bool, capsys: pytest.CaptureFixture[str]) -> None:
    if is_command:
        log_to_stderr()
    else:
        configure_logs(LogSettings(format="text"))
    log = structlog.get_logger("mirror")
    log.warning("topic" + HOSTILE, name=HOSTILE.replace(" ", ""), names=[HOSTILE])
    try:
        raise ValueError(HOSTILE)  # noqa: TRY301 - what a library raises
    except ValueError:
        log.exception("died")
    shown = capsys.readouterr().err
    assert "ValueError" in shown
    check(shown)


def test_logs_of_workers_of_a_copy_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log_first_to_stderr()
    get_logger("mirror").warning("broker says" + HOSTILE, reason=HOSTILE)
    shown = capsys.readouterr().err
    assert "broker says" in shown
    check(shown)


def test_records_of_libraries_are_lines() -> None:
    record = logging.makeLogRecord({"msg": "broker says %s", "args": (HOSTILE,), "levelname": "WARNING"})
    check(VisibleFormatter("%(levelname)s %(message)s").format(record))


def test_a_message_of_several_lines_has_no_line_that_is_another(capsys: pytest.CaptureFixture[str]) -> None:
    complain("2 settings are wrong\n  a: b\n  c: d\nheadrace: all is well")
    assert capsys.readouterr().err.splitlines() == [
        "headrace: 2 settings are wrong",
        "  a: b",
        "  c: d\\nheadrace: all is well",
    ]


texts = st.text(st.characters() | st.sampled_from(HOSTILE + MARKUP))


@given(texts)
def test_what_can_be_seen_is_all_that_is_printed(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    assert shown == text or not text.isprintable()


@given(
    st.recursive(
        texts | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
    )
)
def test_json_is_the_same_to_a_program(value: Any) -> None:
    for indent in (None, 2):
        text = json_text(value, indent)
        assert json.loads(text) == value
        assert visible_lines(text) == text
        text.encode()


@given(st.lists(st.tuples(texts, texts)), texts)
def test_no_cell_title_or_line_reaches_the_terminal_as_a_command(
    rows: list[tuple[str, str]], text: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        patch.setattr("sys.stdout.write", written.append, raising=False)
        patch.setattr("sys.stdout.flush", lambda: None, raising=False)
        print_table(text, ["a", text], [{"a": a, text: [b, a]} for a, b in rows])
        console().print(text)
        print_text(text)
        print_json(text)
    assert visible_lines("".join(written)) == "".join(written)


def test_a_secret_of_brooklins_definition_is_not_printed() -> None:
    found = a_datastream("orders", metadata={"sasl.jaas.config": "hunter2", "note": "n"})
    document = _finding_document(ImportFinding("orders", ImportVerdict.IMPOSSIBLE, ("why",), found))
    assert "hunter2" not in json.dumps(document)
    assert document["definition"]["metadata"]["note"] == "n"
