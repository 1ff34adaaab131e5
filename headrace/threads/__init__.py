"""Threads of `headrace serve` besides those of mirror: audits, consumer groups, unused topics. Each module builds
its thread from the settings."""
