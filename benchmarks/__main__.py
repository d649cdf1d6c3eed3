"""``make bench``: every measurement, or those that are named."""

from __future__ import annotations

import sys

from benchmarks import identical, indicators, ingest, interruptions

MEASUREMENTS = {
    "ingest": ingest.main,
    "interruptions": interruptions.main,
    "indicators": indicators.main,
    "identical": identical.main,
}


def main() -> None:
    """Run the measurements named on the command line, all by default."""
    for name in sys.argv[1:] or MEASUREMENTS:
        print(f"== {name}")
        MEASUREMENTS[name]()


if __name__ == "__main__":
    main()
