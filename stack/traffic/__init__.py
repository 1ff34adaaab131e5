"""Records for demonstrations: `writer.py` writes them at given rates, `arrivals.py` reads them."""
