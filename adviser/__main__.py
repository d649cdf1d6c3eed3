"""``python -m adviser``: the commands of this room."""

from adviser.cli import stacks
from common.cli import group, run

if __name__ == "__main__":
    raise SystemExit(run(group("adviser", "Gets advice out of evidence.", stacks)))
