"""Logging to standard error, without secrets: text on a terminal, JSON lines elsewhere."""

import json
import logging
from datetime import UTC, datetime

from model.redaction import scrubbed

#: Attributes of every log record; all others come from ``extra``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


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


def set_up_logs(verbose: bool = False, *, as_json: bool = False) -> None:
    """Send this project's logs to standard error; libraries stay at warnings."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for room in ("common", "pis", "graph", "ingest", "adviser", "loop", "api", "cli"):
        logging.getLogger(room).setLevel(logging.INFO if verbose else logging.WARNING)
    # The driver reports every query hint as a warning; the tests of the cookbook check them.
    logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)
    if not verbose:
        # Retries and failures of the driver are reported once, as our own error.
        logging.getLogger("neo4j").setLevel(logging.CRITICAL)
        logging.getLogger("ingest.record").setLevel(logging.ERROR)
