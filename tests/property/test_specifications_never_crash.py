"""Whatever a specification holds, it is taken or refused by field, never the cause of a crash."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pis.amun.locks import read_pylock, read_requirements
from pis.amun.schema import InvalidSpecification, SpecificationProblem, field_paths
from pis.amun.specification import load_specification
from tests.effort import examples
from tests.factories.changed_documents import Path, json_values, paths_of, replaced
from tests.factories.specifications import HASH, SCRIPT, specification

values = json_values(st.integers() | st.floats(allow_nan=False) | st.text(max_size=9), max_leaves=8)

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
def test_any_json_is_read_as_a_specification_or_refused(value: Any) -> None:
    taken_or_refused(value)


@settings(max_examples=examples(300))
@given(st.sampled_from([(), *paths_of(FULL)]), values)
def test_specification_with_any_value_replaced_is_accepted_or_refused(
    path: Path, value: Any
) -> None:
    taken_or_refused(replaced(FULL, path, value))


@given(
    st.sampled_from([path.partition(".")[0].partition("[")[0] for path in field_paths()]), values
)
def test_any_field_beside_a_script_is_accepted_or_refused(name: str, value: Any) -> None:
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
def test_any_requirements_file_is_read_as_a_lock_or_refused(parts: list[str]) -> None:
    lock, problems = read_requirements("".join(parts), "txt", "3.11")
    for package in lock.packages:
        assert package.hashes
        assert package.requirement.isprintable()
    assert all(problem.field.startswith("txt") for problem in problems)


@given(st.text(max_size=200))
def test_any_pylock_is_read_as_a_lock_or_refused(text: str) -> None:
    lock, problems = read_pylock(text, "pylock", {})
    assert problems or not lock.packages
