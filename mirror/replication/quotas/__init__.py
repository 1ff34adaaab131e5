"""Limits the rate of lanes by quotas, and reports which quota delays which lane."""
