"""Load time and screenshots of the web pages."""
