"""Traffic for demonstrations: `writer.py` writes records at given rates, `arrivals.py` reads them."""
