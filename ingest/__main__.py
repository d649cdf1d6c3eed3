"""``python -m ingest``: the commands of this room, as ``thoth ingest`` has them."""

from common.cli import run
from ingest.cli import ingest

if __name__ == "__main__":
    raise SystemExit(run(ingest))
