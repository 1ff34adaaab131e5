"""Throttling of lanes by quotas: when lanes fetch more, and which quota delays them."""
