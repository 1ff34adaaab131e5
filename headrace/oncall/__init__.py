"""Whom the monitor calls, and what is kept of incidents, built from the settings."""
