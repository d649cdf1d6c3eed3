"""The structure of the product: no import circles."""

from __future__ import annotations

from configparser import ConfigParser
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]


def rooms() -> list[str]:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config["importlinter"]["root_packages"].split()


#: Circles that are still to be broken.
KNOWN_CIRCLES = [
    ("adviser.locked_files", "adviser.provenance"),
    ("adviser.projects.choosing", "adviser.projects.project"),
    ("graph.snapshot", "graph.snapshot_json"),
]


def test_no_module_imports_itself_by_way_of_others() -> None:
    imports = grimp.build_graph(*rooms(), cache_dir=None)
    uses = {it: set(imports.find_modules_directly_imported_by(it)) for it in imports.modules}
    for one, other in KNOWN_CIRCLES:
        for circle in {one, other} if {one, other} <= uses.keys() else ():
            uses[circle] -= {one, other}
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        raise AssertionError("import circle: " + " → ".join(error.args[1])) from None
