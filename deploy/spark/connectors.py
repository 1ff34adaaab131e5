"""Print the paths of Spark's Kafka and Avro connectors, separated by commas; missing ones are fetched.

Ends with 1 and one line if they can neither be found nor fetched.
"""

from __future__ import annotations

import sys

import headrace  # noqa: F401 an installed Headrace puts its packages on the path
from stack.errors import StackError
from stack.jars.jar_sets import jar_files


def main() -> None:
    """Print the paths."""
    try:
        found = jar_files("spark", lambda message: sys.stderr.write(f"{message}\n"))
    except StackError as error:
        sys.exit(f"connectors: {error}; or set SPARK_CONNECTORS to their paths")
    print(",".join(map(str, found)))


if __name__ == "__main__":
    main()
