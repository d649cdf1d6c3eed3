"""Logs: text in a terminal, JSON lines elsewhere, always on standard error, without secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

#: Attributes that every record has; what else a record carries came in ``extra``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


#: What looks like a secret, wherever a library's message or a traceback quotes it; the groups stay.
_SECRETS = (
    re.compile(r"(thoth_[\w-]{6})[\w-]{14,}"),
    re.compile(r"(?i)(\bbearer\s+)[^\s\"',]{8,}"),
    re.compile(r"(?i)([?&;](?:access_|api_)?(?:token|key|password|secret)=)[^&\s\"'#]+"),
    re.compile(r"(://[^/\s:@\"']*:)[^/\s@\"']+(?=@)"),
)


def scrubbed(text: str) -> str:
    """``text`` without tokens and passwords of URLs.

    >>> scrubbed("cannot reach postgresql://me:hunter2@db.example/x?token=abc")
    'cannot reach postgresql://me:***@db.example/x?token=***'
    """
    for secret in _SECRETS:
        text = secret.sub(r"\1***", text)
    return text


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextFormatter(logging.Formatter):
    """``12:30:01 info inspection_ingested document_id=…``"""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{moment} {record.levelname.lower()} {record.getMessage()}{fields}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return scrubbed(line)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``event`` and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return scrubbed(json.dumps(line, default=str))


def set_up_logs(verbose: bool = False) -> None:
    """Send this project's logs to standard error; libraries stay at warnings."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter() if sys.stderr.isatty() else JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for room in ("common", "pis", "graph", "ingest", "adviser", "api"):
        logging.getLogger(room).setLevel(logging.INFO if verbose else logging.WARNING)
    # The driver reports every query hint as a warning; the cookbook's tests look at them.
    logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)
    if not verbose:
        # What the driver retries or gives up is told once, as an error of ours.
        logging.getLogger("neo4j").setLevel(logging.CRITICAL)
        logging.getLogger("ingest.projector").setLevel(logging.ERROR)
