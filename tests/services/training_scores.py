"""Scores of MLPerf Training by MLCommons' own code, in an environment that has it.

Usage: ``training_scores.py FOLDER``. Prints JSON: for each folder of an entry below FOLDER, the
minutes of its runs, their score, and how many runs the checker of compliance accepts.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from mlperf_logging.compliance_checker.mlp_compliance import main, make_checker
from mlperf_logging.compliance_checker.mlp_parser import parse_file
from mlperf_logging.result_summarizer import result_summarizer

_RULES = "0.6.0"


def scores(folder: Path) -> dict[str, dict[str, Any]]:
    """Scores by path of the folder."""
    entries: dict[str, dict[str, Any]] = {}
    for log in sorted(folder.glob("*/results/*/*/result_*.txt")):
        lines, _ = parse_file(str(log), ruleset=_RULES)
        try:
            start, stop = result_summarizer._query_run_start_stop(lines)
        except ValueError:
            continue
        place = log.parent.relative_to(folder).as_posix()
        entry = entries.setdefault(place, {"minutes": [], "compliant": 0})
        entry["minutes"].append((stop - start) / 60)
        try:
            checker = make_checker("training", _RULES, True, False)
            entry["compliant"] += bool(main(str(log), f"training_{_RULES}/common.yaml", checker)[0])
        except FileNotFoundError:  # the log names a benchmark that has no rules
            continue
    for entry in entries.values():
        entry["score"] = result_summarizer._compute_olympic_average(list(entry["minutes"]), 0, 1)
    return entries


if __name__ == "__main__":
    logging.disable()
    json.dump(scores(Path(sys.argv[1])), sys.stdout)
