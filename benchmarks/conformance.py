"""Thousands of generated requests against the live service: is each answer as documented?

Run as ``python -m benchmarks.conformance --cases 5000``; runs with one seed
after the other, until so many cases were made.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.fresh_stores import FreshHome, fresh_home
from benchmarks.service_requests import import_data
from benchmarks.services import thoth_service, token_of
from common.logs import set_up_logs
from tests.services.conformance import conformance
from tests.services.ports import closed_port

SCOPES = ("read", "advise", "ingest", "inspect", "cypher", "admin")
EXAMPLES = 25


def main() -> None:
    """Run and print; ends with 1 if an answer was not as documented."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conformance")
    parser.add_argument("--cases", type=int, default=5000, help="at least so many")
    wanted = parser.parse_args().cases
    # Generated requests must not read a package index.
    os.environ["PACKAGE_INDEXES"] = f"pypi=http://127.0.0.1:{closed_port()}/simple"
    with fresh_home() as home:
        import_data(home)
        failures = _run(home, wanted)
    sys.exit(1 if failures else 0)


def _run(home: FreshHome, wanted: int) -> int:
    cases = failures = 0
    token = token_of(home, *SCOPES)
    # Only the queue of short jobs has a worker, so that no generated inspection is run.
    with thoth_service(home, queues=("people",)) as service, tempfile.TemporaryDirectory() as name:
        began, before, seed = time.monotonic(), service.memory_mib(), 0
        while cases < wanted:
            seed += 1
            url = f"http://127.0.0.1:{service.port}"
            options = ("--max-examples", str(EXAMPLES), "--seed", str(seed))
            ran = conformance(url, token, Path(name), *options)
            cases, failures = cases + ran.cases, failures + ran.failures
            print(
                f"  seed {seed}: {ran.cases} cases of {ran.operations} operations in "
                f"{ran.seconds:.0f} s, {ran.failures} not as documented",
                flush=True,
            )
            if ran.failures:
                print(ran.output)
        seconds = time.monotonic() - began
        print(
            f"{cases} cases, {failures} not as documented; {cases / seconds:.0f}/s; memory (PSS) "
            f"{before:.0f} MiB before, {service.memory_mib():.0f} MiB after"
        )
    return failures


if __name__ == "__main__":
    set_up_logs()
    main()
