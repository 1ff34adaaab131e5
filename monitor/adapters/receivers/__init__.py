"""Receivers of alerts: Alertmanager, webhooks, mail. Each implements `alerts.deliveries.ports.Receiver`.

Sending a message never takes longer than the timeout. Error messages are logged, and therefore contain no
credentials and no URLs, which may be secret.
"""
