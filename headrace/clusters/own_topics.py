"""Topics that Headrace writes for itself, by the names that the settings give them."""

from __future__ import annotations

from headrace.settings import HeadraceSettings


def own_topics(settings: HeadraceSettings) -> frozenset[str]:
    """No expression takes them by accident, and nothing is mirrored into them. The sampler's are not among
    them: they are Cruise Control's, and another Cruise Control may want to read them elsewhere."""
    mirror, pmp = settings.mirror, settings.pmp
    return frozenset(
        {
            mirror.progress_topic,
            mirror.metrics_topic,
            mirror.events_topic,
            pmp.topic,
            pmp.hourly_topic,
            pmp.dead_letter_topic,
            settings.monitor.incidents_topic,
            settings.monitor.incident_rows_topic,
        }
        - {""}
    )
