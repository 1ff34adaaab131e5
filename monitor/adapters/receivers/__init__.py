"""Receivers of alerts: Alertmanager, webhooks, mail. Each implements `alerts.deliveries.ports.Receiver`.

Sending a message never takes longer than the time-out, whatever the server does. Error messages contain no
credentials and no URLs that may be secret, because they are logged. Read `http_call.py` first.
"""
