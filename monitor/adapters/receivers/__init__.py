"""Receivers of alerts: Alertmanager, webhooks, mail. Each satisfies `alerts.deliveries.ports.Receiver`.

None of them takes longer than its time-out for a message, whatever the other side does. What they raise is
logged, so it names no address that may be a secret and no credentials. Read `http_call.py` first.
"""
