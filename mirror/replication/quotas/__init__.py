"""Deliberate throttling of lanes: when they fetch more, and which quota delays them."""
