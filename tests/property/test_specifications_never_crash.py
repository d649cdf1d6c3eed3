"""Whatever a specification holds, it is taken or refused by field, never the cause of a crash."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pis.amun.locks import read_pylock, read_requirements
from pis.amun.schema import InvalidSpecification, SpecificationProblem, field_paths
from pis.amun.specification import load_specification
from tests.effort import examples
from tests.factories.specifications import HASH, SCRIPT, specification

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)

FULL = specification(
    identifier="mine",
    base="an/image:1",
    batch_size=2,
    timeout_s=5,
    packages=["gcc"],
    python_packages=["pip"],
    parameters={"matrix_size": 5},
    environment=[{"name": "OMP_NUM_THREADS", "value": "1"}],
    run={"requests": {"cpu": "2", "memory": "1Gi", "hardware": {"cpu_family": 6}}},
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within ``value``."""
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value if isinstance(value, list) else ())
    )
    return [at, *(place for key, inner in pairs for place in places(inner, (*at, key)))]


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    changed = copy.copy(value)
    changed[place[0]] = replaced(value[place[0]], place[1:], new)
    return changed


def taken_or_refused(value: Any) -> None:
    problems: tuple[SpecificationProblem, ...] = ()
    try:
        document = json.loads(json.dumps(load_specification(value).document))
    except InvalidSpecification as error:
        problems = error.problems
    else:
        assert load_specification(document).document == document
        return
    assert problems
    assert all(problem.field and problem.message for problem in problems)


@given(values)
def test_any_json(value: Any) -> None:
    taken_or_refused(value)


@settings(max_examples=examples(300))
@given(st.sampled_from(places(FULL)), values)
def test_any_value_in_any_place(place: tuple[Any, ...], value: Any) -> None:
    taken_or_refused(replaced(FULL, place, value))


@given(
    st.sampled_from([path.partition(".")[0].partition("[")[0] for path in field_paths()]), values
)
def test_any_value_of_any_field_beside_a_script(name: str, value: Any) -> None:
    taken_or_refused({"script": SCRIPT, **{name: value}})


lines = st.lists(
    st.sampled_from(
        ["numpy==1", f" --hash={HASH}", "\\\n", "\n", "# word", " ; os_name == 'posix'", "-r x",
         "[a]", "@ https://x", " --hash", " --", "==", "1.*", "\x00", "'"]
    ) | st.text(max_size=5),
    max_size=12,
)  # fmt: skip


@settings(max_examples=examples(300))
@given(lines)
def test_any_requirements(parts: list[str]) -> None:
    lock, problems = read_requirements("".join(parts), "txt", "3.11")
    for package in lock.packages:
        assert package.hashes
        assert package.requirement.isprintable()
    assert all(problem.field.startswith("txt") for problem in problems)


@given(st.text(max_size=200))
def test_any_pylock(text: str) -> None:
    lock, problems = read_pylock(text, "pylock", {})
    assert problems or not lock.packages
