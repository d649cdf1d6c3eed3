"""The stores: PostgreSQL is the record, the graph a projection of it that can be rebuilt."""

import sys
from types import ModuleType

# The graph's driver loads NumPy and pandas where they are installed, half of a command's start,
# for values that it is never handed here. What it has of them is this module; if a release of
# it looks elsewhere, a start takes longer and nothing else changes.
_absent = ModuleType("neo4j._optional_deps")
vars(_absent).update(dict.fromkeys(("np", "pa", "pa_compute", "pd")))
sys.modules.setdefault(_absent.__name__, _absent)
