"""Builds monitors, alerts and stored incidents from the settings."""
