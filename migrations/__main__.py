"""Write the next PostgreSQL version: ``python -m migrations "add the outbox"``.

It holds what differs between ``graph.tables`` and the migrated database, to be read
and corrected by a person before it is committed.
"""

import sys

from common.settings import Settings
from graph.migrate import migrated_stores, write_revision


def main() -> None:
    """Migrate to the newest version, then write the one after it."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with migrated_stores(Settings.from_env(), graph=False) as stores:
        sys.stdout.write(f"{write_revision(stores.engine, sys.argv[1])}\n")


if __name__ == "__main__":
    main()
