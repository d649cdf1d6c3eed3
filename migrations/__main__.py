"""Write the next PostgreSQL version: ``python -m migrations "add the outbox"``.

It holds what differs between ``graph.tables`` and the migrated database, to be read
and corrected by a person before it is committed.
"""

from __future__ import annotations

import sys

from common.settings import Settings
from graph.engine import open_stores
from graph.migrate import ensure_schema, write_revision


def main() -> None:
    """Migrate to the newest version, then write the one after it."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with open_stores(Settings.from_env(), graph=False) as stores:
        ensure_schema(stores)
        sys.stdout.write(f"{write_revision(stores.engine, sys.argv[1])}\n")


if __name__ == "__main__":
    main()
