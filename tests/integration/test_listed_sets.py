"""Real sets of requirements in miniature, advised from an index by the whole command."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graph.engine import Stores
from tests.services.commands import WHERE, thoth
from tests.services.index import Index, package_index

CASES = sorted((Path(__file__).parents[1] / "data" / "listed").glob("*.json"))


def serve(index: Index, releases: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Offer releases as wheels, with their metadata beside them.

    ``hidden_requires_python`` is in the metadata, but not on the page. ``source`` holds what a
    source distribution requires. ``wheels`` has tags, or what the wheel of each tag requires
    besides; ``null`` is a wheel that cannot be read.
    """
    for name, versions in releases.items():
        for version, release in versions.items():
            _serve_release(index, name, version, release)


def _serve_release(index: Index, name: str, version: str, release: Mapping[str, Any]) -> None:
    requires: list[str] = release.get("requires", [])
    extras = sorted({it for raw in requires for it in re.findall(r"extra == '(\w+)'", raw)})
    python = release.get("requires_python", release.get("hidden_requires_python"))
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Python: {python}"] if python else []
    lines += [f"Provides-Extra: {it}" for it in extras]
    lines += [f"Requires-Dist: {it}" for it in requires]
    facts = {"requires-python": python} if "requires_python" in release else {}
    facts |= {"upload-time": release["uploaded_at"]} if "uploaded_at" in release else {}
    if "source" in release:
        static = [*lines, *(f"Requires-Dist: {it}" for it in release["source"]), "", ""]
        static[0] = "Metadata-Version: 2.2"
        index.add_source(name, version, information="\n".join(static))
    wheels = release.get("wheels", ["py3-none-any"])
    for tag, own in wheels.items() if isinstance(wheels, dict) else ((it, ()) for it in wheels):
        file = f"{name.replace('-', '_')}-{version}-{tag}.whl"
        index.add_file(name, file, f"{file} is never read".encode(), **facts)
        if own is not None:
            more = [f"Requires-Dist: {it}" for it in own]
            index.offer_metadata(file, "\n".join([*lines, *more, "", ""]).encode())


@pytest.mark.parametrize("path", CASES, ids=lambda it: it.stem)
def test_advice_equals_the_expected_stack_of_each_listed_set(
    path: Path, stores: Stores, tmp_path: Path
) -> None:
    case = json.loads(path.read_text())
    expected = case["expect"]
    (tmp_path / "requirements.in").write_text("\n".join(case["requirements"]), encoding="utf-8")
    with package_index(protected=False, json=True) as index:
        serve(index, case["index"])
        done = thoth(
            stores.settings, "advise", str(tmp_path), *WHERE, *case["options"], "--json",
            PACKAGE_INDEXES=f"pypi={index.url}", INDEX_CACHE=str(tmp_path / "cache"),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["result"]["report"]
    (product,) = report["products"]
    assert {it["name"]: it["version"] for it in product["packages"]} == expected["stack"]
    assert report["certificate"]["status"] == "optimal"
    notes = " ".join(it["message"] for it in report["stack_info"])
    assert [it for it in expected.get("notes", ()) if it not in notes] == []
    assert [it for it in expected.get("warnings", ()) if it not in done.stderr] == []
    counts = re.search(r"read (\d+) of .* in (\d+) rounds?", done.stderr)
    assert counts is not None, done.stderr
    assert int(counts[1]) <= expected.get("read", len(expected["stack"]) * 10)
    assert int(counts[2]) <= expected.get("rounds", 3)
