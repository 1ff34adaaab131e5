"""Construction of monitors, alerts and stored incidents from the settings."""
