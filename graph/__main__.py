"""``python -m graph``: this room's commands without the others."""

import sys

from common.cli import group, run
from graph import cli

if __name__ == "__main__":
    commands = (getattr(cli, name) for name in cli.__all__)
    sys.exit(run(group("graph", "The stores: PostgreSQL and the graph.", *commands)))
