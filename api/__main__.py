"""``python -m api``: this room's commands without the others."""

import sys

from api import cli
from common.cli import group, run

if __name__ == "__main__":
    commands = (getattr(cli, name) for name in cli.__all__)
    sys.exit(run(group("api", "The service and its jobs.", *commands)))
