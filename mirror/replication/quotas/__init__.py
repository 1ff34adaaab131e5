"""Throttles lanes by quotas, and reports which quota delays them."""
