"""Sentences that describe a decision, from the plan before and after. Imports coordination's stores and
model."""
