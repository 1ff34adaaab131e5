"""Callers by tokens of an OpenID Connect provider. Loaded only where the settings have one."""
