"""Names of Headrace's internal topics in the settings."""

from __future__ import annotations

from headrace.settings import HeadraceSettings


def own_topics(settings: HeadraceSettings) -> frozenset[str]:
    """Return the names of all internal topics of Headrace.

    Topic patterns of datastreams do not match internal topics, and no topic is mirrored into an internal
    topic.

    Topics of the sampler are not included, because they may be mirrored for another Cruise Control.
    """
    mirror, pmp = settings.mirror, settings.pmp
    return frozenset(
        {
            mirror.progress_topic,
            mirror.metrics_topic,
            mirror.events_topic,
            mirror.audit.topic,
            pmp.topic,
            pmp.hourly_topic,
            pmp.dead_letter_topic,
            settings.monitor.incidents_topic,
            settings.monitor.incident_rows_topic,
        }
        - {""}
    )
