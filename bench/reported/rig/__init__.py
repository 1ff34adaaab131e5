"""The register of situations, and its table."""
