"""Bundles an indicator into one script that runs without an installation of this product.

The bundle contains the indicator's module and, before it, the modules that it imports. Comments and
docstrings are removed: results are compared only if their scripts have equal digests, and a better
explanation must not change the digest.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from model.errors import ProjectError
from pis.catalogue import module_of

_PACKAGE = "pis.indicators."


class CannotBundle(ProjectError):
    """A module of an indicator uses imports that cannot be bundled."""


@cache
def script_of(name: str) -> str:
    """Return the script of the indicator ``name``, which is the same on every machine.

    :raises UnknownIndicator: if there is no such indicator
    """
    entry = module_of(name).removeprefix(_PACKAGE)
    modules = _in_order(entry)
    imports = sorted({line for module in modules for line in module_imports(source_of(module))})
    bodies = [_body(module, entry=module == entry) for module in modules]
    head = [f'"""Performance indicator {name} of thoth, as one script (Apache-2.0)."""', ""]
    text = "\n".join([*head, "from __future__ import annotations", "", *imports, "", *bodies])
    return text.rstrip("\n") + "\n"


def script_sha256(name: str) -> str:
    """Return the SHA-256 digest of the indicator's script, hexadecimal."""
    return hashlib.sha256(script_of(name).encode()).hexdigest()


def source_of(module: str) -> str:
    """Return the source of a module of ``pis.indicators``; ``module`` omits the package name."""
    return files("pis.indicators").joinpath(f"{module}.py").read_text(encoding="utf-8")


def _in_order(entry: str) -> list[str]:
    """Return ``entry`` and all its imports, in an order where modules follow their own imports.

    :raises CannotBundle: if modules import each other in a circle
    """
    done: list[str] = []

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            raise CannotBundle(f"modules import each other: {' → '.join((*path, module))}")
        if module not in done:
            for sibling in siblings_of(source_of(module), module):
                visit(sibling, (*path, module))
            done.append(module)

    visit(entry, ())
    return done


def siblings_of(source: str, module: str = "") -> list[str]:
    """Return the modules of ``pis.indicators`` that ``source`` imports, sorted.

    :raises CannotBundle: for an import that cannot be bundled, such as one with ``as``

    >>> siblings_of("from pis.indicators.clock import Clock, clock_of")
    ['clock']
    """
    tree = ast.parse(source)
    siblings = set()
    for node in ast.walk(tree):
        if not _is_ours(node):
            continue
        if node not in tree.body or not isinstance(node, ast.ImportFrom) or _renames(node):
            raise CannotBundle(
                f"{module}, line {getattr(node, 'lineno', 0)}: siblings are imported at the top, "
                "as `from pis.indicators.MODULE import NAME`"
            )
        siblings.add(str(node.module).removeprefix(_PACKAGE))
    return sorted(siblings)


def _is_ours(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level > 0 or str(node.module).partition(".")[0] in ("pis", "common", "model")
    return isinstance(node, ast.Import) and any(
        alias.name.partition(".")[0] in ("pis", "common", "model") for alias in node.names
    )


def _renames(node: ast.ImportFrom) -> bool:
    return (
        not str(node.module).startswith(_PACKAGE)
        or node.level > 0
        or any(alias.asname or alias.name == "*" for alias in node.names)
    )


def module_imports(source: str) -> Iterator[str]:
    """Yield the top-level imports of ``source`` from other packages, one name per line.

    >>> list(module_imports("import os\\nfrom typing import Any, Callable"))
    ['import os', 'from typing import Any', 'from typing import Callable']
    """
    for node in ast.parse(source).body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)) or _is_ours(node):
            continue
        if isinstance(node, ast.ImportFrom):
            if node.module == "__future__":
                continue
            start = f"from {node.module} import "
        else:
            start = "import "
        for alias in node.names:
            yield start + alias.name + (f" as {alias.asname}" if alias.asname else "")


def _body(module: str, *, entry: bool) -> str:
    """Return the module's code without imports, docstrings and comments."""
    source = source_of(module)
    lines = _without_comments(source).splitlines()
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (_starts(node) and not entry):
            _blank(lines, node)
    for node in _docstrings(tree):
        _blank(lines, node)
    kept = [line.rstrip() for line in lines if line.strip()]
    return "\n".join([f"# {module}", *kept, ""])


def _starts(node: ast.stmt) -> bool:
    """Whether a statement declares or runs an indicator, which only the entry does."""
    if isinstance(node, ast.Assign):
        return [ast.unparse(target) for target in node.targets] == ["INDICATOR"]
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)


def _blank(lines: list[str], node: ast.stmt) -> None:
    assert node.end_lineno is not None  # noqa: S101
    for number in range(node.lineno - 1, node.end_lineno):
        lines[number] = ""


def _docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield all docstrings, except those that are the only statement of a body."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        alone = len(node.body) == 1 and not isinstance(node, ast.Module)
        if not alone and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0]


def _without_comments(source: str) -> str:
    """Remove all comments; strings do not change."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(lines)
