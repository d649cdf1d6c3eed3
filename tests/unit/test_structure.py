"""The structure of the product: no import circles, and one public class of each name."""

from __future__ import annotations

import ast
from collections import defaultdict
from configparser import ConfigParser
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]


def rooms() -> list[str]:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config["importlinter"]["root_packages"].split()


#: ``Indicator`` of ``pis`` is part of the scripts, whose digests name what was measured.
EXCEPTIONS = {"Indicator"}


def test_no_module_imports_itself_by_way_of_others() -> None:
    imports = grimp.build_graph(*rooms(), cache_dir=None)
    uses = {it: set(imports.find_modules_directly_imported_by(it)) for it in imports.modules}
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        raise AssertionError("import circle: " + " → ".join(error.args[1])) from None


def test_every_public_class_has_a_name_of_its_own() -> None:
    homes = defaultdict(list)
    for room in rooms():
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    several = {name: places for name, places in homes.items() if len(places) > 1}
    assert {it: places for it, places in several.items() if it not in EXCEPTIONS} == {}
