"""Monitors, alerts and stored incidents, built from the settings."""
