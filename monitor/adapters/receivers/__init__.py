"""Receivers of alerts: Alertmanager, webhooks, mail. Each implements `alerts.deliveries.ports.Receiver`.

A message never takes longer than the time-out, whatever the server does. Errors are logged, so they contain
no URL that may be a secret and no credentials. Read `http_call.py` first.
"""
