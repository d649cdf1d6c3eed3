"""Names from a central directory are those that Python finds in the unpacked wheel."""

import io
import sys
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from common.index.wheel_metadata import import_names_in
from ingest.native.wheels import analyze_wheel
from model.packages.import_names import ImportSource
from tests.effort import examples

WHEEL = "parrot-1.0-py3-none-any.whl"
#: The suffix of extension modules of this interpreter; the content is never loaded.
EXTENSION = f".cpython-{sys.version_info[0]}{sys.version_info[1]}-x86_64-linux-gnu.so"

_FOLDERS = st.lists(st.sampled_from(["a", "b", "c", "a-b", "__pycache__"]), max_size=3)
_FILES = st.sampled_from(
    ["__init__.py", "x.py", "y.py", f"_z{EXTENSION}", "libz.so", "data.txt", "x.pyi"]
)
_PREFIXES = st.sampled_from(
    ["", "", "parrot-1.0.data/purelib/", "parrot-1.0.data/scripts/", "parrot.libs/"]
)
_PATHS = st.builds(
    lambda prefix, folders, file: prefix + "/".join([*folders, file]), _PREFIXES, _FOLDERS, _FILES
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(_PATHS, unique=True, max_size=12))
def test_import_names_of_a_wheel_are_what_python_imports(paths: list[str]) -> None:
    with TemporaryDirectory() as folder:
        file, site = Path(folder) / WHEEL, Path(folder) / "site"
        site.mkdir()
        with zipfile.ZipFile(file, "w") as archive:
            for path in paths:
                archive.writestr(path, "")
            archive.writestr("parrot-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        read = import_names_in(io.BytesIO(file.read_bytes()))
        assert read.source is ImportSource.DIRECTORY
        assert read.names == analyze_wheel(file).imports
        install(file, site)
        assert set(read.names) == importable(site)


def install(wheel: Path, site: Path) -> None:
    """Place the modules of a wheel as an installer does."""
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            first, _, rest = path.partition("/")
            if first.endswith(".data"):
                if not rest.startswith("purelib/"):
                    continue
                target = site / rest.removeprefix("purelib/")
            else:
                target = site / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(b"")


def importable(folder: Path, prefix: str = "") -> set[str]:
    """The shallowest packages and modules that Python finds, and the namespaces above them.

    Python takes a folder without any module for a namespace, too; that one is left out here.
    """
    names = set()
    stems = {it.name.partition(".")[0] for it in folder.iterdir()} - {"__init__", "__pycache__"}
    for stem in filter(str.isidentifier, stems):
        spec = PathFinder.find_spec(stem, [str(folder)])
        if spec is None:
            continue
        if spec.loader is not None and spec.origin is not None:
            if not Path(spec.origin).name.startswith("lib"):
                names.add(f"{prefix}{stem}")
            if not spec.submodule_search_locations:
                # A module hides a namespace of its name from Python, but not from a directory.
                names |= below(folder / stem, f"{prefix}{stem}")
            continue
        names |= below(folder / stem, f"{prefix}{stem}")
    return names


def below(folder: Path, name: str) -> set[str]:
    """The names in a namespace, and the namespace itself if there are any."""
    inner = importable(folder, f"{name}.") if folder.is_dir() else set()
    return inner | ({name} if inner else set())
