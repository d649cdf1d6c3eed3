"""Faults that were found with real files, where the folder of these cases is beside the checkout.

``cases.md`` there describes the form of ``case.json``. The cases read from the public index.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from packaging.specifiers import SpecifierSet

from graph.engine import Stores
from model.packages.identity import public_index_url
from tests.services.commands import program, variables

CASES = Path(
    os.environ.get("THOTH_FIELD_CASES")
    or Path(__file__).parents[2].parent / "shared" / "cases" / "field"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CASES.is_dir(), reason=f"no folder {CASES}; set THOTH_FIELD_CASES"),
]


@cache
def _index_unreachable() -> str | None:
    """Why the public index does not answer, if it does not."""
    try:
        httpx.head(f"{public_index_url()}/idna/", timeout=30)
    except httpx.HTTPError as error:
        return f"the public index does not answer: {error}"
    return None


def _former(url: str) -> str:
    """The former address of the public index."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    labels = host.split(".")
    return f"{scheme}://{'.'.join([*labels[:-1], 'python', labels[-1]])}/{path}"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for what cases read from the index, which they share."""
    return str(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize(
    "folder", sorted(it.parent for it in CASES.glob("*/case.json")), ids=lambda it: it.name
)
def test_advice_repairs_a_fault_reported_in_a_real_project(
    folder: Path, stores: Stores, pages: str, tmp_path: Path
) -> None:
    if reason := _index_unreachable():
        pytest.skip(reason)
    case = json.loads((folder / "case.json").read_text("utf-8"))
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    for path in (it for it in copy.rglob("*") if it.is_file()):
        content = path.read_text("utf-8")
        old = content.replace("@PUBLIC_INDEX_OLD@", _former(public_index_url()))
        path.write_text(old.replace("@PUBLIC_INDEX@", public_index_url()), encoding="utf-8")
    cache_folder = str(tmp_path / "cache") if case.get("own_home") else pages
    values = variables(stores.settings, FETCH_MISSING="1", INDEX_CACHE=cache_folder)
    problems = [
        f"{' '.join(step['run'])}: {problem}"
        for step in case["steps"]
        for problem in _problems(step, os.environ | values, copy)
    ]
    assert not problems, "\n".join(problems)


def _problems(step: Mapping[str, Any], values: Mapping[str, str], folder: Path) -> list[str]:
    """What a step's command did otherwise than expected."""
    arguments = tuple(step["run"])
    advises = arguments[0] == "advise"
    done = program().run((*arguments, *(["--json"] if advises else [])), dict(values), folder)
    output = json.loads(done.stdout) if advises and done.stdout.strip() else None
    lines = list(_texts(output)) if advises else [done.stdout]
    text = "\n".join([*lines, done.stderr])
    rows: list[dict[str, Any]] = []
    if any(name in json.dumps(step["expect"]) for name in ('"rows"', '"no_rows"')):
        rows = json.loads(program().run(("benchmarks", "--json"), dict(values), folder).stdout)
    expected = dict(step["expect"])
    choices = expected.pop("any", None)
    # Version of each advised package.
    products = output["result"]["report"]["products"] if output else ()
    packages = {it["name"]: it["version"] for product in products[:1] for it in product["packages"]}
    problems = _differences(expected, done.returncode, packages, text, rows)
    if choices:
        each = [_differences(it, done.returncode, packages, text, rows) for it in choices]
        problems += [] if any(not it for it in each) else [f"none of {each}"]
    return [f"{it}\n{text[-3000:]}" for it in problems]


def _texts(value: Any) -> Iterator[str]:
    """Every text in ``value``; the reason of a package stands behind its name and version."""
    match value:
        case str():
            yield value
        case {"name": name, "version": version, "why": {"message": message}}:
            yield f"{name} {version}: {message}"
        case dict():
            for part in value.values():
                yield from _texts(part)
        case list():
            for part in value:
                yield from _texts(part)


def _differences(
    expected: Mapping[str, Any],
    code: int,
    packages: Mapping[str, str],
    text: str,
    rows: Sequence[Mapping[str, Any]],
) -> list[str]:
    """Expectations that are not met."""
    checks: dict[str, Callable[[Any], bool]] = {
        "exit": lambda codes: code in codes,
        "packages": lambda wanted: all(
            name in packages and packages[name] in SpecifierSet(specifier, prereleases=True)
            for name, specifier in wanted.items()
        ),
        "only": lambda names: packages.keys() == set(names),
        "absent": lambda names: not packages.keys() & set(names),
        "text": lambda patterns: all(re.search(it, text) for it in patterns),
        "no_text": lambda patterns: not any(re.search(it, text) for it in patterns),
        "rows": lambda wanted: all(any(_matches(row, it) for row in rows) for it in wanted),
        "no_rows": lambda wanted: not any(_matches(row, it) for row in rows for it in wanted),
    }
    state = f"exit {code}, {dict(packages)}"
    return [
        f"{name} {wanted} ({state})"
        for name, wanted in expected.items()
        if not checks[name](wanted)
    ]


def _matches(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a row has the wanted fields; ``~`` after a name marks a pattern."""
    for name, value in wanted.items():
        present: Any = row
        for part in name.removesuffix("~").split("."):
            present = present.get(part) if isinstance(present, Mapping) else None
        if name.endswith("~") and not re.search(value, str(present or "")):
            return False
        if not name.endswith("~") and present != value:
            return False
    return True
