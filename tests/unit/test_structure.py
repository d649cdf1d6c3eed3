"""The structure of the product: no import circles, unique class names, names that say something."""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from configparser import ConfigParser
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]


def rooms() -> list[str]:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config["importlinter"]["root_packages"].split()


def test_migrations_are_numbered_consecutively() -> None:
    files = sorted((ROOT / "migrations" / "versions").glob("0*.py"))
    chain = [(f"{number:04}", f"{number - 1:04}") for number in range(29, 28 + len(files))]
    links = []
    for file in files[1:]:
        body = ast.parse(file.read_text("utf-8")).body
        values = {
            target.id: node.value.value
            for node in body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        assert file.name.startswith(f"{values['revision']}_"), file.name
        links.append((values["revision"], values["down_revision"]))
    assert links == chain


def test_modules_have_no_circular_imports() -> None:
    imports = grimp.build_graph(*rooms(), cache_dir=None)
    uses = {it: set(imports.find_modules_directly_imported_by(it)) for it in imports.modules}
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        raise AssertionError("import circle: " + " → ".join(error.args[1])) from None


def test_public_class_names_are_unique() -> None:
    homes = defaultdict(list)
    for room in (*rooms(), "benchmarks"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    several = {name: places for name, places in homes.items() if len(places) > 1}
    assert several == {}


#: Words that say nothing about what a variable holds.
FILLERS = {"asked", "found", "given", "it", "one", "said", "some", "those", "told", "words"}
#: Lines of a comprehension in which ``it`` is still short-lived.
SHORT = 6


def test_long_lived_variables_have_no_filler_name() -> None:
    fillers = set()
    for path in (path for room in (*rooms(), "benchmarks") for path in (ROOT / room).rglob("*.py")):
        if not path.is_relative_to(ROOT / "pis/indicators"):  # their digests must not change
            for line, name in _lasting_fillers(ast.parse(path.read_text())):
                fillers.add(f"{path.relative_to(ROOT)}:{line}: {name}")
    assert fillers == set()


def _lasting_fillers(module: ast.Module) -> Iterator[tuple[int, str]]:
    for function in ast.walk(module):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = function.args
            parameters = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
            lasts = function.body[-1].end_lineno != function.body[0].lineno
            names = [(it.lineno, it.arg) for it in parameters if it is not None and lasts]
            for node in ast.walk(function):
                for target in _targets(node):
                    inner = (it for it in ast.walk(target) if isinstance(it, ast.Name))
                    names += [(it.lineno, it.id) for it in inner if isinstance(it.ctx, ast.Store)]
            yield from ((line, name) for line, name in names if name in FILLERS)


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a statement binds for longer than its own line."""
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        return [node.target]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [it.optional_vars for it in node.items if it.optional_vars is not None]
    if isinstance(node, (ast.For, ast.AsyncFor)):
        lasts = node.body[-1].end_lineno != node.body[0].lineno
        return [node.target] if lasts else []
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        lasts = (node.end_lineno or node.lineno) - node.lineno >= SHORT
        return [it.target for it in node.generators] if lasts else []
    return []


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import graph.engine, neo4j", {"pandas", "jpype"}),
        ("import model.packages.snapshot", {"neo4j"}),
        ("import adviser.answering.answers, graph.migrate, adviser.resolver.resolve",
         {"ortools", "pandas", "scipy"}),
        ("import adviser.resolver.worker", {"ortools"}),
        ("from cli.main import run, thoth; run(thoth, ['--help'])",
         {"sqlalchemy", "neo4j", "ortools", "flask", "numpy", "rich", "packaging"}),
    ],
)  # fmt: skip
def test_programs_load_no_unneeded_large_library(program: str, absent: set[str]) -> None:
    loaded = f"import sys\n{program}\nsys.exit(' '.join({absent!r} & sys.modules.keys()) or None)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
