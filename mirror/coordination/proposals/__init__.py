"""Plans for review. A reviewed plan is applied exactly as shown, or not at all."""
