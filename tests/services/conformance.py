"""Schemathesis against a live server: every operation of its OpenAPI document, in all phases."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What every response is held to; negative and positive data are the schemas' own tests.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "missing_required_header",
)
PHASES = ("examples", "coverage", "fuzzing", "stateful")


@dataclass(frozen=True, slots=True)
class Conformance:
    """What came of a run.

    :param cases: requests that were made and checked
    :param output: what the tool printed, with a way to repeat each failure
    """

    cases: int
    failures: int
    operations: int
    seconds: float
    output: str


def conformance(
    base_url: str,
    token: str,
    folder: Path,
    *options: str,
    phases: tuple[str, ...] = PHASES,
    ca: Path | None = None,
) -> Conformance:
    """Run it; ``options`` are those of ``schemathesis run``."""
    report = folder / "report.json"
    command = (
        sys.executable, "-m", "schemathesis.cli", "run", f"{base_url}/openapi.json",
        "--header", f"Authorization: Bearer {token}", "--phases", ",".join(phases),
        "--checks", ",".join(CHECKS), "--report", "json", "--report-json-path", str(report),
        "--continue-on-failure", "--no-shrink", "--no-color",
        *(() if ca is None else ("--tls-verify", str(ca))), *options,
    )  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    if not report.exists():
        raise RuntimeError(output)
    summary: dict[str, Any] = json.loads(report.read_text("utf-8"))
    cases = summary["test_cases"]
    return Conformance(
        cases["generated"],
        cases["unique_failures"] + cases["errored"] + len(summary["errors"]),
        summary["operations"]["tested"],
        summary["running_time"],
        output,
    )
