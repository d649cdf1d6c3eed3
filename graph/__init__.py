"""The two stores: PostgreSQL holds the record, and the graph can be rebuilt from the record."""

import sys
from types import ModuleType

# The neo4j driver imports NumPy and pandas if they are installed, only to accept their values as
# parameters. That takes half of the start-up time of a command, so an empty module stands in for
# its import. If a later release of the driver imports them elsewhere, commands only start more
# slowly.
_absent = ModuleType("neo4j._optional_deps")
vars(_absent).update(dict.fromkeys(("np", "pa", "pa_compute", "pd")))
sys.modules.setdefault(_absent.__name__, _absent)
