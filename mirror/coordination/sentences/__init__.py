"""Messages that explain a planning decision. Imports the stores of coordination and model."""
