"""Errors of ours that one package or release brings to light."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

#: The code of what failed by an error of this program, and not by one of the index.
INTERNAL = "internal"


def bug_words(error: Exception, name: str, version: str | None = None) -> str:
    """Log an error that nobody foresaw, and say for the record that it is ours.

    One package of a thousand must not cost the others, and no bug passes unseen: it is an
    error in the log, a state of the package, and a reason for exit code 1.
    """
    kind = type(error).__name__
    fields = {"package": name, "version": version, "error": kind}
    logger.error("crawl_met_a_bug", exc_info=error, extra=fields)
    return f"an error of this program: {kind}; the log has its traceback"
