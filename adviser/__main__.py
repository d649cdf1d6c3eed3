"""``python -m adviser``: the commands of this room."""

from adviser.cli import advise, guard, provenance, replay, stacks, why, why_not
from common.cli import group, run

if __name__ == "__main__":
    commands = (advise, why, why_not, guard, replay, provenance, stacks)
    raise SystemExit(run(group("adviser", "Gets advice out of evidence.", *commands)))
