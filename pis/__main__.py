"""``python -m pis``: the commands of this room, as ``thoth pi`` and ``thoth inspect`` have them."""

from common.cli import group, run
from pis.cli import inspect, pi

if __name__ == "__main__":
    raise SystemExit(run(group("pis", "Performance indicators and the executor.", pi, inspect)))
