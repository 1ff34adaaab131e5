"""What a decision says of itself, from the plan before and after. Imports coordination's stores and model."""
