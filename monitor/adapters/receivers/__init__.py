"""Receivers of alerts: Alertmanager, webhooks, mail. Each implements `alerts.deliveries.ports.Receiver`.

Sending a message never takes longer than the timeout. Error messages are logged, so they contain no
credentials and no URLs that may be secret. Start with `http_call.py`.
"""
