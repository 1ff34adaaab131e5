"""Load time and screenshots of the web pages, and outputs of the notebooks."""
