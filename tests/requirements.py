"""Programs that some tests need and a machine may lack.

A test that needs one is marked ``@needs("bwrap")``: where the program is missing,
``tests/conftest.py`` skips the test and says why. ``pytest -m optional_programs`` runs these tests
alone; ``pytest --without-programs`` runs their modules as if this machine had no such program.
"""

import functools
import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from pis.amun.launchers import BuildFailed
from pis.amun.launchers.images import find_engine
from pis.amun.sandbox import CannotConfine, require_confinement
from tests.services.neo4j import server as neo4j

#: What ``.ci/run`` installs: there, a test that needs it fails instead of being skipped.
INSTALLED_ON_CI = ("bwrap", "neo4j", "chromium", "notebooks", "promtool")

#: What ``--without-programs`` hides.
OPTIONAL_PROGRAMS = (
    *("bwrap", "java", "mvn"),
    *("docker", "podman", "buildah", "crun", "runc"),
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "firefox"),
    *("kubectl", "pipenv", "promtool", "readelf"),
)
#: Variables that lead to them, and the one by which a missing program is a failure.
HIDDEN_VARIABLES = ("JAVA_HOME", "NEO4J_TEST_URL", "CI")


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test, with a reason, where one of ``programs`` is missing."""
    return pytest.mark.optional_programs(*programs)


@functools.cache
def missing(program: str) -> str | None:
    """Why ``program`` cannot be used here; None if it can."""
    return _CHECKS.get(program, functools.partial(_not_on_path, program))()


def _not_on_path(program: str) -> str | None:
    return None if shutil.which(program) else f"{program} is not installed"


def _bwrap() -> str | None:
    try:
        require_confinement()
    except CannotConfine as error:
        return f"{error}: {error.hint}"
    return None


def _container_engine() -> str | None:
    try:
        find_engine()
    except BuildFailed as error:
        return str(error)
    return None


def _notebooks() -> str | None:
    packages = ("duckdb", "ipykernel", "nbconvert", "pandas", "pyarrow")
    absent = [name for name in packages if find_spec(name) is None]
    return f"{', '.join(absent)}: the extra `notebooks` is not installed" if absent else None


#: Where it is not enough that a program is on the PATH.
_CHECKS: dict[str, Callable[[], str | None]] = {
    "bwrap": _bwrap,
    "container engine": _container_engine,
    "neo4j": neo4j.missing,
    "notebooks": _notebooks,
}


def hide_programs(folder: Path) -> None:
    """Hide the optional programs from this process and from all that it starts.

    :param folder: an empty one, for links to the programs that stay
    """
    for name in HIDDEN_VARIABLES:
        os.environ.pop(name, None)
    places = []
    for number, place in enumerate(os.environ["PATH"].split(os.pathsep)):
        if any((Path(place) / name).exists() for name in OPTIONAL_PROGRAMS):
            links = folder / str(number)
            links.mkdir()
            for program in Path(place).iterdir():
                if program.name not in OPTIONAL_PROGRAMS:
                    (links / program.name).symlink_to(program)
            places.append(str(links))
        else:
            places.append(place)
    os.environ["PATH"] = os.pathsep.join(places)
