"""What a specification may say, in files or not, and that every refusal names its field."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from pis.amun.schema import InvalidSpecification, field_paths
from pis.amun.specification import load_specification, read_specification
from tests.factories.specifications import HASH, SCRIPT, locked, pipfile_lock, specification

ROOT = Path(__file__).parents[4]
REQUIREMENTS = f"numpy==2.2.6 --hash={HASH}\n"
OTHER = REQUIREMENTS.replace("2.2.6", "2.0")
TORCH = {"requirements_locked": pipfile_lock({"torch": locked()})}
MATMUL_ON_CUDA = [{"name": "MATMUL_DEVICE", "value": "gpu"}]


def problems_of(value: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpecification) as refused:
        load_specification(value)
    return {problem.field: problem.message for problem in refused.value.problems}


def test_specification_defaults_are_applied_and_not_written() -> None:
    loaded = load_specification(specification())
    assert (loaded.script, loaded.batch_size, loaded.timeout_s) == ("matmul", 1, 600.0)
    assert loaded.lock.version_of("numpy") == "2.2.6"
    assert loaded.python_version == "3.11"
    assert loaded.run.cpus is None
    assert "run" not in load_specification(specification()).document


def test_huge_number_in_a_specification_is_refused_with_its_field(tmp_path: Path) -> None:
    path = tmp_path / "specification.json"
    path.write_text(f'{{"script": "matmul", "batch_size": 1{"0" * 300}}}')
    assert list(problems_of(read_specification(str(path)))) == ["batch_size"]


def test_specification_values_are_converted_to_their_types() -> None:
    requests = {"requests": {"cpu": "1500m", "memory": "256Mi", "hardware": {"cpu_family": 6}}}
    run = load_specification(specification(run=requests)).run
    assert (run.cpus, run.memory_bytes, run.hardware.cpu_family) == (1.5, 256 * 2**20, 6)
    variables = [{"name": "OMP_NUM_THREADS", "value": "2"}]
    loaded = load_specification(specification(environment=variables))
    assert loaded.environment == (("OMP_NUM_THREADS", "2"),)
    loaded = load_specification(specification(parameters={"matrix_size": "64"}))
    assert loaded.parameters == {"framework": "numpy", "matrix_size": 64}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"batchsize": 2}, "batchsize"),
        ({"batch_size": "2"}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
        ({"batch_size": 0}, "batch_size"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"identifier": "../up"}, "identifier"),
        ({"identifier": None}, "identifier"),
        ({"base": "-v /:/x"}, "base"),
        ({"update": "yes"}, "update"),
        ({"package_manager": "conda"}, "package_manager"),
        ({"packages": ["a; rm -rf /"]}, "packages[0]"),
        ({"packages": ["-o"]}, "packages[0]"),
        ({"packages": "gcc"}, "packages"),
        ({"python_packages": ["pip", "requests==2.0"]}, "python_packages[1]"),
        ({"run": {"requests": {"cpu": "two"}}}, "run.requests.cpu"),
        ({"run": {"requests": {"cpu": 0}}}, "run.requests.cpu"),
        ({"run": {"requests": {"memory": "1Q"}}}, "run.requests.memory"),
        ({"run": {"requests": {"memory": "1ki"}}}, "run.requests.memory"),
        ({"run": {"requests": {"cpu": 10**5000}}}, "run.requests.cpu"),
        ({"parameters": {"matrix_size": 10**400}}, "parameters.matrix_size"),
        ({"python": {"requirements_locked": {**pipfile_lock(), "x": [2**63]}}},
         "python.requirements_locked.x[0]"),
        ({"run": {"requests": {"hardware": {"gpu": 1}}}}, "run.requests.hardware.gpu"),
        ({"build": {"request": {}}}, "build.request"),
        ({"script": "https://x.example/matmul.py"}, "script"),
        ({"script": "matmull"}, "script"),
        ({"parameters": {"matrix_sice": 5}}, "parameters.matrix_sice"),
        ({"parameters": {"matrix_size": "many"}}, "parameters.matrix_size"),
        ({"parameters": {"framework": "jax"}}, "parameters.framework"),
        ({"script": SCRIPT, "parameters": {"matrix_size": 5}}, "parameters"),
        ({"script": SCRIPT, "files": [{"path": "/etc/x", "content": ""}]}, "files[0].path"),
        ({"script": SCRIPT, "files": [{"path": "a/../../x", "content": ""}]}, "files[0].path"),
        ({"script": SCRIPT, "files": [{"path": "x"}]}, "files[0].content"),
        ({"environment": [{"name": "A=B", "value": ""}]}, "environment[0].name"),
        ({"environment": [{"name": "OMP_NUM_THREADS"}]}, "environment[0].value"),
        ({"python": {"requirements": {}}}, "python"),
        ({"python": {"requirements_txt": "a==1"}}, "python.requirements_txt:1"),
        ({"python": 5}, "python"),
        *(({"script": it, "parameters": {"matrix_size": 4}}, "script") for it in (5, None, ["x"])),
        ({"python": {"requirements_txt": OTHER, **specification()["python"]}}, "python"),
        ({"python": {"requirements_locked": pipfile_lock({})}}, "python"),
        ({"python": {"requirements_locked": pipfile_lock({"requests": locked()})}}, "python"),
        ({"parameters": {"framework": "torch"}}, "parameters.framework"),
        ({"python": TORCH, "parameters": {"framework": "numpy"}}, "parameters.framework"),
        ({"parameters": {"device": "gpu"}}, "parameters.device"),
        ({"parameters": {"dtype": "bfloat16"}}, "parameters.dtype"),
        ({"environment": MATMUL_ON_CUDA}, "environment[0].value"),
        ({"environment": [{"name": "MATMUL_MATRIX_SIZE", "value": "zz"}]}, "environment[0].value"),
        ({"environment": [{"name": "OMP_X", "value": "1"}] * 2}, "environment[1].name"),
    ],
)  # fmt: skip
def test_invalid_field_of_a_specification_is_named(fields: dict[str, Any], field: str) -> None:
    assert list(problems_of(specification(**fields))) == [field]


def test_all_problems_of_a_specification_are_reported_together() -> None:
    lock = pipfile_lock({"numpy": {"version": "==1"}})
    told = problems_of(
        {"script": "no", "batch_size": -1, "extra": 1, "python": {"requirements_locked": lock}}
    )
    hashes = "python.requirements_locked.default.numpy.hashes"
    assert set(told) == {"script", "batch_size", "extra", hashes}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"files": [{"path": "numpy.py", "content": "forged"}]}, "files"),
        ({"environment": [{"name": "PYTHONPATH", "value": "x"}]}, "environment[0].name"),
        ({"environment": [{"name": "LD_PRELOAD", "value": "x"}]}, "environment[0].name"),
        ({"environment": [{"name": "OMP_TOOL_LIBRARIES", "value": "/x"}]}, "environment[0].value"),
    ],
)
def test_specification_cannot_inject_code_into_an_indicator(
    fields: dict[str, Any], field: str
) -> None:
    assert list(problems_of(specification(**fields))) == [field]
    load_specification(specification(script=SCRIPT, **fields))


@pytest.mark.parametrize(
    ("packages", "framework"),
    [
        ({"numpy": locked()}, "numpy"),
        ({"torch": locked(), "numpy": locked()}, "torch"),
        ({"tensorflow-cpu": locked()}, "tensorflow"),
        ({"tensorflow-gpu": locked()}, "tensorflow"),
        ({"tensorflow": locked(), "torch": locked(), "numpy": locked()}, "numpy"),
    ],
)
def test_framework_is_derived_from_the_locked_stack(
    packages: dict[str, Any], framework: str
) -> None:
    python = {"requirements_locked": pipfile_lock(packages)}
    assert load_specification(specification(python=python)).parameters["framework"] == framework


@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_indicator_of_several_libraries_measures_the_locked_library(package: str) -> None:
    python = {"requirements_locked": pipfile_lock({package: locked(), "numpy": locked()})}
    loaded = load_specification({"script": "boosting", "python": python})
    assert loaded.parameters["framework"] == package


def test_written_specification_contains_its_lock_and_can_be_loaded_again() -> None:
    loaded = load_specification({"script": "matmul", "python": {"requirements_txt": REQUIREMENTS}})
    python = loaded.document["python"]
    assert python["requirements_locked"]["default"] == {"numpy": locked()}
    assert python["requirements_txt"] == REQUIREMENTS
    assert "requirements" in python
    first = load_specification({"script": "matmul", "python": {"requirements_txt": REQUIREMENTS}})
    assert load_specification(json.loads(json.dumps(first.document))).document == first.document


def test_specification_with_contradicting_python_versions_is_refused() -> None:
    python = {**specification()["python"], "runtime_environment": {"python_version": "3.12"}}
    assert len(problems_of(specification(python=python))) == 1
    python["runtime_environment"] = {"python_full_version": "3.11.7"}
    assert load_specification(specification(python=python)).python_version == "3.11.7"


def test_specification_can_use_only_configured_indexes() -> None:
    lock = pipfile_lock({"numpy": locked(index="own")})
    lock["_meta"]["sources"] = [{"name": "own", "url": "https://own.example/simple"}]
    value = specification(python={"requirements_locked": lock})
    told = problems_of(value)
    assert "own.example" not in str(told)
    assert "PACKAGE_INDEXES" in told["python.requirements_locked.default.numpy.index"]
    loaded = load_specification(value, {"own": "https://mine.example/simple"})
    assert loaded.lock.packages[0].index == "own"


def test_credentials_in_urls_of_a_specification_are_not_written() -> None:
    lock = pipfile_lock()
    lock["_meta"]["sources"] = [{"name": "pypi", "url": "https://me:secret@own.example/simple"}]
    loaded = load_specification(specification(python={"requirements_locked": lock}))
    assert "secret" not in json.dumps(loaded.document)
    assert "own.example" in json.dumps(loaded.document)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        *((it, ["the specification"]) for it in (None, [], "text", 5)),
        ({}, ["script"]),
        ({"script": "print('\ud800')\n"}, ["script"]),
        ({"script": SCRIPT, "files": [{"path": "a", "content": "\ud800"}]}, ["files[0].content"]),
        ({"script": SCRIPT, "\ud800": 1}, ["the specification"]),
        (
            {"script": "matmul", "python": {"requirements_locked": {"x": ["\udfff"]}}},
            ["python.requirements_locked.x[0]"],
        ),
        (
            {"script": "matmul", "python": {"requirements_txt": "\udc80"}},
            ["python.requirements_txt"],
        ),
    ],
)
def test_invalid_specification_is_refused_without_repeating_its_text(
    value: Any, fields: list[str]
) -> None:
    told = problems_of(json.loads(json.dumps(value)))
    assert list(told) == fields
    str(told).encode()


def test_too_deeply_nested_specification_is_refused() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": deep}
    (told,) = problems_of(specification(python={"requirements": deep})).values()
    assert "nested deeper" in told


@pytest.mark.parametrize(
    "paths",
    [["a", "a/b"], ["a/b/c", "a"], ["x", "x"], ["x", "./x"], ["a/x", "a//x"], ["x" * 256],
     ["é" * 128], ["/".join(["x" * 200] * 11)]],
)  # fmt: skip
def test_conflicting_specification_file_paths_are_refused(paths: list[str]) -> None:
    files = [{"path": path, "content": ""} for path in paths]
    (field,) = problems_of(specification(script=SCRIPT, files=files))
    assert field == f"files[{len(paths) - 1}].path"


#: Files that share folders.
APART = ("a/b", "a/c/d", "ab", "a.b", "x" * 255)


@pytest.mark.parametrize(
    "fields",
    [
        {"python": TORCH, "parameters": {"device": "cuda", "dtype": "bfloat16"}},
        {"environment": MATMUL_ON_CUDA, "parameters": {"device": "cpu"}},
        {"environment": [{"name": "MATMUL_MATRIX_SIZE", "value": "64"}]},
        {"environment": [{"name": "MATMUL_MATRIX_SIZE", "value": ""}]},
        {"script": SCRIPT, "environment": [{"name": "MATMUL_MATRIX_SIZE", "value": "zz"}]},
        {"script": SCRIPT, "files": [{"path": it, "content": ""} for it in APART]},
    ],
)
def test_valid_specification_fields_are_accepted(fields: dict[str, Any]) -> None:
    load_specification(specification(**fields))


def documented() -> set[str]:
    text = (ROOT / "docs/reference/specification.md").read_text(encoding="utf-8")
    heads = re.findall(r"(?m)^- (`[^:\n]+):", text)
    return {name for head in heads for name in re.findall(r"`([^`]+)`", head)}


def test_documentation_and_schema_have_every_specification_field() -> None:
    assert documented() == set(field_paths())
    path = ROOT / "docs/reference/specification.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    assert set(published_paths(schema, "")) == set(field_paths())


def published_paths(schema: dict[str, Any], at: str) -> list[str]:
    paths = []
    for name, field in schema["properties"].items():
        listed = "properties" in field.get("items", {})
        inner = field["items"] if listed else field
        path = (f"{at}.{name}" if at else name) + ("[]" if listed else "")
        assert inner.get("additionalProperties") is False or "properties" not in inner, path
        paths += published_paths(inner, path) if "properties" in inner else [path]
    return paths


def refusal(path: Path | str) -> str:
    with pytest.raises(InvalidSpecification) as refused:
        read_specification(str(path))
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
        (b"", "nothing in it"),
        (b'{"a": 1, "a": 2}', "a: the key 'a' occurs twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "\xff"}', "byte 7"),
        (b"[" * 100_000, "nested deeper"),
        (b"1" + b"0" * 5_000, "thousands of digits"),
    ],
)
def test_invalid_json_specification_is_refused(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "spec.json"
    path.write_bytes(text)
    assert said in refusal(path)
    assert str(path) in refusal(path)


def test_missing_specification_file_is_named(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.json")


def test_files_referenced_by_a_specification_are_included(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy==1\n")
    (tmp_path / "script.py").write_text("print()\n")
    (tmp_path / "Pipfile.lock").write_text('{"default": {}}')
    (tmp_path / "Pipfile").write_text('[packages]\nnumpy = "*"\n')
    value = {
        "script": {"file": "script.py"},
        "python": {
            "requirements": {"file": "Pipfile"},
            "requirements_locked": {"file": "Pipfile.lock"},
            "requirements_txt": {"file": "requirements.txt"},
        },
        "files": [{"path": "a", "content": {"file": "script.py"}}],
    }
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(value))
    assert read_specification(str(path)) == {
        "script": "print()\n",
        "python": {
            "requirements": {"packages": {"numpy": "*"}},
            "requirements_locked": {"default": {}},
            "requirements_txt": "numpy==1\n",
        },
        "files": [{"path": "a", "content": "print()\n"}],
    }


def test_all_missing_or_broken_referenced_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "Pipfile.lock").write_text("{")
    python = {"requirements_txt": {"file": "none"}, "requirements_locked": {"file": "Pipfile.lock"}}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"python": python, "script": {"file": 5}}))
    told = refusal(path)
    assert "python.requirements_txt.file" in told
    assert "python.requirements_locked.file" in told
    assert "script.file" in told


def referring(folder: Path, value: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "spec.json"
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize(
    "value",
    [
        {"files": [{"path": "s", "content": {"file": "../home/secrets.json"}}]},
        {"script": {"file": "/etc/passwd"}},
        {"script": {"file": "link"}},
        {"script": {"file": "folder/secrets.json"}},
        {"python": {"requirements_txt": {"file": "a/../../home/secrets.json"}}},
    ],
)
def test_referenced_file_outside_the_specification_folder_is_not_read(
    tmp_path: Path, value: dict[str, Any]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/secrets.json").write_text('{"hidden": 1}')
    path = referring(tmp_path / "specs", value)
    (path.parent / "link").symlink_to(tmp_path / "home/secrets.json")
    (path.parent / "folder").symlink_to(tmp_path / "home")
    assert ".file: " in refusal(path)
    assert "in the specification's folder" in refusal(path)


def test_referenced_link_within_the_specification_folder_is_followed(tmp_path: Path) -> None:
    path = referring(tmp_path / "specs", {"script": {"file": "below/link"}})
    (path.parent / "script.py").write_text("print()")
    (path.parent / "below").mkdir()
    (path.parent / "below/link").symlink_to("../script.py")
    assert read_specification(str(path)) == {"script": "print()"}


def test_only_regular_files_are_read_as_specification(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")
    assert "not a regular file" in refusal("/dev/zero")
    assert "not a regular file" in refusal(tmp_path)
    (tmp_path / "circle").symlink_to("circle")
    for name in ("pipe", ".", "circle"):
        assert "script.file: " in refusal(referring(tmp_path, {"script": {"file": name}}))


def test_referenced_files_together_must_not_exceed_the_specification_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pis.amun.specification._MOST_BYTES", 1000)
    (tmp_path / "half").write_text("x" * 600)
    assert read_specification(str(referring(tmp_path, {"script": {"file": "half"}})))
    files = [{"path": name, "content": {"file": "half"}} for name in ("a", "b")]
    assert "files[1].content.file: 'half': over" in refusal(referring(tmp_path, {"files": files}))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_referenced_lock_that_is_not_strict_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    value = {"python": {"requirements_locked": {"file": "lock"}}}
    assert "python.requirements_locked.file: " in refusal(referring(tmp_path, value))
