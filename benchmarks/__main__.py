"""``make bench``: every measurement, or those that are named."""

import argparse
import sys
import traceback

from benchmarks import (
    advice,
    benchmark_results,
    bisect,
    compare,
    drift,
    false_claims,
    faults,
    identical_stacks,
    indicators,
    ingest,
    interruptions,
    monkey,
    nightly_false_claims,
    pages,
    resolver,
    scale,
    scoring,
    service,
    speed_choices,
    startup,
)
from common.logs import set_up_logs

MEASUREMENTS = {
    it.__name__.rpartition(".")[2]: it.main
    for it in (
        ingest, pages, resolver, scoring, false_claims, drift, speed_choices,
        interruptions, monkey, nightly_false_claims, compare, indicators, identical_stacks, service,
        faults, scale, startup, advice, bisect, benchmark_results,
    )
}  # fmt: skip


def main() -> None:
    """Run the measurements named on the command line, all by default.

    A measurement that fails does not stop the others; the exit code is then 1.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        epilog="Some have options, such as: python -m benchmarks.nightly_false_claims --help",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    names: list[str] = parser.parse_args().names
    if unknown := [name for name in names if name not in MEASUREMENTS]:
        parser.error(f"no measurement is called {unknown[0]}; there are {', '.join(MEASUREMENTS)}")
    set_up_logs()
    failed = [name for name in names or MEASUREMENTS if not _succeeds(name)]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _succeeds(name: str) -> bool:
    print(f"== {name}", flush=True)
    try:
        MEASUREMENTS[name]()
    except SystemExit as end:
        if isinstance(end.code, int) and end.code > 128:  # a signal ends all of them
            raise
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return not end.code
    except Exception:
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    main()
