"""Whether a requirement can matter anywhere: its marker, with most of the environment left open.

One crawl serves every Python and platform, so a requirement is followed unless its marker is
false in all of them. Only Python and the extra are given values; any other comparison counts as
one that may hold. Markers have no negation, so that this errs on the side of following.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

#: Minor versions of Python 3 that a marker is tried with; Python 2 is nobody's target any more.
_PYTHONS = tuple(f"3.{minor}" for minor in range(25))
#: PEP 508's operators that are none in Python.
_FOREIGN = re.compile(r"(?<=\s)(~=|===)(?=\s)")
_STANDS_FOR = {"~=": "@", "===": "=="}

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@lru_cache(maxsize=131_072)
def could_hold(marker: str | None, extra: str = "") -> bool:
    """Whether ``marker`` holds in some environment of Python 3.

    :param marker: canonical text, as :func:`common.releases.parse_requirement` gives it
    :param extra: the one extra that is asked for, normalised; empty for none
    :returns: ``True`` also for a marker that this cannot read

    >>> could_hold('python_version < "3" and os_name == "nt"')
    False
    >>> could_hold('extra == "net" and os_name == "nt"'), could_hold('extra == "net"', "net")
    (False, True)
    """
    if marker is None:
        return True
    try:
        # The text of a marker is an expression in Python as well.
        tree = ast.parse(_FOREIGN.sub(lambda it: _STANDS_FOR[it[0]], marker), mode="eval").body
        return any(_holds(tree, {"python": python, "extra": extra}) for python in _PYTHONS)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True


def _holds(node: ast.expr, environment: Mapping[str, str]) -> bool:
    if isinstance(node, ast.BoolOp):
        joined: Callable[..., bool] = all if isinstance(node.op, ast.And) else any
        return joined(_holds(value, environment) for value in node.values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compares(node, environment)
    return True


def _compares(node: ast.Compare, environment: Mapping[str, str]) -> bool:
    left, right = node.left, node.comparators[0]
    operator = _OPERATORS.get(type(node.ops[0]))
    if isinstance(left, ast.Constant):
        left, right = right, left
        operator = _MIRRORED.get(operator or "", operator)
    if not (isinstance(left, ast.Name) and isinstance(right, ast.Constant)):
        return True
    if left.id == "extra":
        return _extra_compares(operator, environment["extra"], str(right.value))
    if left.id in ("python_version", "python_full_version") and operator:
        return _python_compares(left.id, operator, environment["python"], str(right.value))
    return True


def _extra_compares(operator: str | None, extra: str, value: str) -> bool:
    if operator == "!=":
        return extra != canonicalize_name(value)
    return operator != "==" or extra == canonicalize_name(value)


@lru_cache(maxsize=16_384)
def _python_compares(variable: str, operator: str, python: str, value: str) -> bool:
    """Whether some release of this minor version compares so with ``value``."""
    releases = [python] if variable == "python_version" else [f"{python}.{n}" for n in range(30)]
    try:
        wanted = SpecifierSet(f"{operator}{value}")
    except InvalidSpecifier:
        return True
    return any(wanted.contains(release, prereleases=True) for release in releases)
