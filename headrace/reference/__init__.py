"""Pages of docs/ that are generated: what can be set (`of_settings`), and what is measured (`of_metrics`),
with the names that other mirrors have for it (`other_mirrors`).

May import all wings and the settings. Read `of_settings` first.
"""
