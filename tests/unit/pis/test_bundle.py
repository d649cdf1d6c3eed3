"""An indicator as one text."""

import ast
import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pis.bundle import CannotBundle, script_of, siblings_of
from pis.catalogue import INDICATORS, UnknownIndicator

NAMES = list(INDICATORS)


def defined(tree: ast.Module) -> Iterator[str]:
    """Names that the top level of a module defines or imports."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (name for target in targets for name in ast.walk(target))
            yield from (name.id for name in names if isinstance(name, ast.Name))


@pytest.mark.parametrize("name", NAMES)
def test_bundled_script_needs_only_python_3_8_and_its_standard_library(name: str) -> None:
    script = ast.parse(script_of(name), feature_version=(3, 8))
    times = Counter(defined(script))
    assert {name for name, count in times.items() if count > 1} == set()
    for node in ast.walk(script):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        for module in modules:
            assert module.partition(".")[0] in sys.stdlib_module_names, module


@pytest.mark.slow
def test_bundled_script_bytes_are_reproducible() -> None:
    program = (
        "import json; from pis.bundle import script_sha256; from pis.catalogue import INDICATORS;"
        " print(json.dumps({it: script_sha256(it) for it in INDICATORS}))"
    )
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment
    )
    digests = {name: hashlib.sha256(script_of(name).encode()).hexdigest() for name in NAMES}
    assert json.loads(done.stdout) == digests


def test_a_bundled_script_has_no_comments_and_docstrings() -> None:
    text = script_of("matmul")
    assert not [it for it in ("Whole text", ":param", "# noqa", "#: ") if it in text]


def test_bundled_script_runs_without_thoth(tmp_path: Path) -> None:
    script = tmp_path / "anything.py"
    script.write_text(script_of("matmul"), encoding="utf-8")
    # The folder of NumPy and nothing of this product: neither its path nor its other libraries.
    program = "import sys, runpy; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
    flags = ["--matrix-size=16", "--reps=2", "--min-time=0.001", "--threads=1"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(script), *flags],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        env={},
    )
    assert done.returncode == 0, done.stderr.decode()
    document = json.loads(done.stdout)
    assert document["name"] == "PiMatmul"
    assert document["threads"]["requested"] == 1


def test_unknown_indicator_name_is_refused() -> None:
    with pytest.raises(UnknownIndicator, match="matmul"):
        script_of("nonsense")


@pytest.mark.parametrize(
    "source",
    [
        "from pis.indicators import clock",
        "import pis.indicators.clock",
        "from pis.indicators.clock import Clock as Watch",
        "from pis.indicators.clock import *",
        "from .clock import Clock",
        "from model.errors import ProjectError",
        "def late():\n    from pis.indicators.clock import Clock",
    ],
)
def test_import_that_cannot_be_bundled_is_refused(source: str) -> None:
    with pytest.raises(CannotBundle, match="siblings are imported at the top"):
        siblings_of(source)
