"""The command `python -m stack.traffic BOOTSTRAP [RATES]`: write records at given rates.

Reads rates from stdin, or takes constant rates as an argument; see `writer.py`.
"""

from __future__ import annotations

import signal
import sys
import threading

from stack.traffic.writer import Traffic


def main(bootstrap: str, rates: str = "") -> None:
    """Follow rates on stdin; or write at `rates`, one line of that format, until SIGTERM."""
    traffic = Traffic(bootstrap)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: traffic.stop())

    def follow() -> None:
        for line in sys.stdin:
            traffic.set_rates(line)
        traffic.stop()

    if rates:
        traffic.set_rates(rates)
    else:
        threading.Thread(target=follow, name="stdin", daemon=True).start()
    traffic.run()
    sys.stdout.write(f"{traffic.written}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
