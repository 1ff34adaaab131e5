"""`headrace serve`: run an instance of the service."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.commands.options import ConfigOption
from headrace.console.access.document import OFFSET_VARIABLE, config_file
from headrace.process.stop_signals import on_stop_signals
from mirror.loggers import Logger, get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from headrace.settings import HeadraceSettings
    from headrace.wiring import BuiltInstance
    from mirror.background_thread import BackgroundThread
    from mirror.instance.health import Health
    from mirror.model.identifiers import InstanceName

_MONITOR_STOP_SECONDS: Final = 12.0


def serve(
    config: ConfigOption = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="REST port; 0 picks a free port.")
    ] = None,
    port_offset: Annotated[
        int | None, typer.Option(help="Offset added to every default port, as in headrace-dev stack up.")
    ] = None,
    address_file: Annotated[
        Path | None, typer.Option(help="File for the host:port of REST, written once it listens.")
    ] = None,
) -> None:
    """Run an instance of the service until SIGTERM or SIGINT."""
    gc.disable()  # until `collect_seldom`: imports leave no garbage
    from api.app import create_app
    from api.fleet.reads import kept_up
    from headrace.console.files import write_file
    from headrace.process.interpreter import collect_seldom, switch_often
    from headrace.process.rest import RestServer, advertised_address, brooklin_listener
    from headrace.settings import load_settings
    from headrace.wiring import build_instance, instance_name

    if port_offset is not None:
        os.environ[OFFSET_VARIABLE] = str(port_offset)  # for worker processes too
    collect_seldom()
    switch_often()
    settings = load_settings(config)
    settings.api.check_exposure()
    rest_port = settings.api.port if port is None else port
    name = instance_name(settings, rest_port)
    log = _log_of_service(settings, name)
    rest = RestServer(settings.api.host, rest_port, settings.api.tls, limits=settings.api.limits)
    rest.bind()
    address = advertised_address(settings.api, rest.address)
    built = build_instance(settings, config_file(config), name, address)
    app = create_app(built.services)
    rest.attach(app)
    listeners = [rest, *brooklin_listener(settings.api, app)]
    asked_to_stop = threading.Event()
    on_stop_signals(asked_to_stop.set)
    _report_gaps(settings, built.instance.health)
    start_threads, stop_threads = _background_threads(settings, config, address, built, app.state.registry)
    built.instance.start()
    try:
        for listener in listeners:
            listener.start()
        if address_file is not None:
            write_file(address_file, rest.address)
        start_threads()
        log.info("serving", rest=rest.address)
        with kept_up(app):
            while not asked_to_stop.wait(0.2) and not built.instance.health.has_died.is_set():
                pass
    finally:
        stop_threads()
        for listener in listeners:
            listener.stop(5.0)
        built.instance.stop(settings.mirror.worker.stop_deadline_seconds)
        built.event_topic.close(5.0)
    if built.instance.health.has_died.is_set():
        raise typer.Exit(1)
    log.info("stopped")


def _report_gaps(settings: HeadraceSettings, health: Health) -> None:
    """Report missing protections and a missing planner in the health of the instance."""
    from headrace.placement.planners import report_planner

    settings.api.report_exposure(health)
    report_planner(settings, health)


def _log_of_service(settings: HeadraceSettings, name: InstanceName) -> Logger:
    """Set up logging, log the version and the kind of data plane, and return the logger of the service."""
    from importlib.metadata import version

    from headrace.process.logs import configure_logs
    from headrace.process.machine_code import COMPILED, INTERPRETED, SWITCH, found

    configure_logs(settings.logging, instance=name)
    log = get_logger("headrace.serve")
    log.info("starting", version=version("headrace"), data_plane=COMPILED if found() else INTERPRETED)
    if not found():
        log.warning(
            "data plane is interpreted: copying may use twice the CPU time",
            advice=f"run `make setup` with a C compiler installed, and unset {SWITCH}=0",
        )
    return log


def _background_threads(
    settings: HeadraceSettings,
    config: Path | None,
    address: str,
    built: BuiltInstance,
    registry: CollectorRegistry,
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return functions that start and stop the background threads of an instance. The threads run audits and,
    on the leader, sizing advice, consumer groups, use of topics, and its own monitor."""
    from api.metrics.collector import AdviceCollector, AuditCollector, GroupCollector

    registry.register(AdviceCollector(lambda: built.foresight.advice))
    registry.register(AuditCollector(built.audit.audits, built.services.clock))
    registry.register(GroupCollector(lambda: built.synchroniser.statuses, built.services.clock))
    threads: list[BackgroundThread] = [built.foresight, built.synchroniser, built.topic_watch, built.audit]
    if settings.monitor.enabled:
        from headrace.oncall.own_monitor import OwnMonitor

        own = OwnMonitor(settings, config, address, built.services, registry)
        threads.append(own.within(built.instance.health))

    def begin() -> None:
        for thread in threads:
            thread.start()

    def end() -> None:
        for thread in reversed(threads):
            thread.stop(_MONITOR_STOP_SECONDS)

    return begin, end
