"""`headrace-dev demo`: demonstrate mirroring and rebalancing on real servers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.console.terminal import complain, console, note, print_table
from headrace.errors import explain
from mirror.loggers import get_logger

if TYPE_CHECKING:
    from headrace_dev.demo.claims import DemoFindings
    from headrace_dev.demo.processes import DemoProcesses

_log = get_logger(__name__)
_REPORT: Final = Path("report.html")


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave all processes running at the end, even after a failure.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the processes that --keep left running.")
    ] = False,
    port_offset: Annotated[int, typer.Option(help="Offset added to every port.")] = 0,
) -> None:
    """Demonstrate mirroring and rebalancing on real servers.

    Writes report.html. Exits with 0 only if the demo confirmed every statement in the report."""
    from headrace_dev.demo import words
    from headrace_dev.demo.kept import demo_home, end_released
    from headrace_dev.demo.processes import DemoProcesses
    from headrace_dev.demo.scenario import usual_rates
    from stack.folders import HOME_VARIABLE

    home = demo_home()
    if stop:
        ended = end_released(home)
        _stack_down(home)
        console().print(f"stopped: {', '.join(ended) or 'nothing was running'}")
        return
    for name in [name for name in os.environ if name.startswith("HEADRACE_") and name != HOME_VARIABLE]:
        del os.environ[name]  # settings in the environment would override the file of the demo
    _listen_to_the_end()
    for line in words.INTRODUCTION:
        note(line, soft_wrap=True)
    processes = DemoProcesses(home, port_offset, _Teller().echo)
    try:
        findings = play(processes, _REPORT, _Teller().echo)
        _show(findings)
        if keep:
            if not findings.stopped:
                _Teller().echo("traffic continues, and the killed instance is restarted")
                processes.go_on(usual_rates())
            leave_running(processes)
        for line in words.next_steps(_REPORT, home, kept=keep, stopped=bool(findings.stopped)):
            console().print(line, soft_wrap=True)
    finally:
        processes.stop()
    if not findings.all_held:
        if findings.stopped:
            complain(findings.stopped)
        raise typer.Exit(1)


def play(processes: DemoProcesses, report: Path, echo: Callable[[str], None]) -> DemoFindings:
    """Run the demo. The report is always written. The report covers all parts that ran, and the reason if a
    part failed."""
    from headrace_dev.demo.claims import DemoFindings
    from headrace_dev.demo.page import write_page
    from headrace_dev.demo.words import PARTS

    findings = DemoFindings()
    findings.reach(PARTS["start_stack"])
    try:
        _play(processes, findings, echo)
    except Exception as error:  # noqa: BLE001 - reported, and reflected in the exit code
        findings.stop_at(explain(error) or f"{type(error).__name__}: {error}")
        _log.debug("demo failed", exc_info=True)
    except BaseException:
        findings.stop_at("it was interrupted")
        raise
    finally:
        write_page(findings, report)
    return findings


def _play(processes: DemoProcesses, findings: DemoFindings, echo: Callable[[str], None]) -> None:
    from headrace.settings import load_settings
    from headrace_dev.demo.scenario import TOPICS
    from headrace_dev.demo.story import DemoStory, rates_for_start
    from headrace_dev.demo.watch import Watch
    from headrace_dev.demo.words import PARTS, title
    from stack.traffic.arrivals import Arrivals

    echo(title("start_stack"))
    processes.start_stack()
    processes.make_topics()
    watch = Watch(load_settings(processes.settings_file))
    findings.reach(PARTS["start_service"])
    echo(title("start_service"))
    processes.start_pipeline()
    processes.start_instances()  # before the traffic, which would pile up while code is compiled
    processes.start_traffic(rates_for_start())
    topics = {f"mirror.{name}": count for name, count in TOPICS.items()}
    arrivals = Arrivals(processes.addresses["destination"], topics)
    story = DemoStory(processes, watch, findings, arrivals, echo)
    try:
        for act in (
            story.create_datastream,
            story.by_count,
            story.by_load,
            story.settled,
            story.shift,
            story.kill,
            story.audit,
        ):
            findings.reach(PARTS[act.__name__])
            echo(title(act.__name__))
            act()
        findings.reach("the end")
    finally:
        findings.seconds = watch.seconds()
        arrivals.stop()
        story.close()
        watch.close()


def _show(findings: DemoFindings) -> None:
    rows = [
        {"held": "yes" if claim.held else "NO", "claim": claim.statement, "measured": claim.evidence}
        for claim in findings.claims
    ]
    phases = [
        {"phase": p.title, "p50_ms": round(p.p50_ms), "p99_ms": round(p.p99_ms), "records": p.records}
        for p in findings.latency
    ]
    columns = ["topic", "source_records", "destination_records", "missing", "duplicates", "foreign"]
    if rows:
        print_table("claims", ["held", "claim", "measured"], rows)
    if phases:
        print_table("latency", ["phase", "p50_ms", "p99_ms", "records"], phases)
    if findings.audit:
        print_table("audit", columns, findings.audit)
    if findings.stopped:
        console().print(f"stopped at: {findings.reached}")
    console().print(f"{findings.seconds:.0f} s; report with charts and tables: {_REPORT.absolute()}")


def leave_running(processes: DemoProcesses) -> None:
    """Detach the running processes, and print their addresses and web pages."""
    from headrace_dev.demo import words

    kept = processes.release()
    if not kept:
        console().print("no process is left running")
        return
    for name, address in processes.addresses.items():
        if name.partition("_")[0] in kept:
            console().print(f"{name}: {address}")
    for name in kept:
        if name.startswith("headrace-"):
            for line in words.pages(processes.rest_address(name)):
                console().print(f"{name}: {line}", soft_wrap=True)
    if "pinot" in kept:
        console().print(f"pinot: http://{processes.addresses['pinot_controller']}/  tables and queries")


def _stack_down(home: Path) -> None:
    from stack.supervisor import Stack

    Stack(home / "stack").down()


class _Teller:
    """Prints lines that begin with the seconds since the start of the demo."""

    _began = time.monotonic()

    def echo(self, text: str) -> None:
        line = f"[{time.monotonic() - self._began:5.0f} s] {text}"
        note(line, soft_wrap=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _listen_to_the_end() -> None:
    """Stop the demo on SIGTERM, or when the terminal or the parent process ends. If SIGHUP is ignored
    (nohup), the demo continues after both have ended."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)
        _end_with_parent()


def _end_with_parent() -> None:
    """Stop the demo when its parent process (make) dies."""
    parent = os.getppid()

    def watch() -> None:
        waiting = threading.Event()
        while not waiting.wait(0.5):
            if os.getppid() != parent:
                _Teller().echo(
                    "the parent process has ended, so the demo stops; run it with nohup to keep it"
                )
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
