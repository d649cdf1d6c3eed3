"""Names that a wheel makes importable, derived from the paths of its files.

A name is the shallowest regular package or module on its path: ``flask``, ``google.protobuf``. The
namespace packages above it are names as well, so ``google`` and ``google.protobuf`` stand for a
package ``protobuf`` inside the namespace ``google``.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from keyword import iskeyword


class ImportSource(StrEnum):
    """How the names of a release were learnt; the values are stored and never renamed."""

    #: All paths in the central directory of one of its wheels.
    DIRECTORY = "central-directory"
    #: ``Import-Name`` and ``Import-Namespace`` of its metadata (PEP 794).
    DECLARED = "metadata"
    #: The end of a large central directory; only top-level names, and some may be missing.
    DIRECTORY_END = "central-directory-end"


@dataclass(frozen=True, slots=True)
class ImportNames:
    """The names that a release makes importable.

    :param names: dotted, sorted, at most :data:`MAX_NAMES` and the namespaces above them; none if
        the release has no Python module
    """

    names: tuple[str, ...]
    source: ImportSource

    @property
    def complete(self) -> bool:
        """Whether the list of names is complete."""
        return self.source is not ImportSource.DIRECTORY_END

    def provides(self, module: str) -> str | None:
        """The longest name that equals ``module`` or contains it; ``None`` if there is none.

        >>> protobuf = ImportNames(("google", "google.protobuf"), ImportSource.DIRECTORY)
        >>> protobuf.provides("google.protobuf.json_format"), protobuf.provides("google.cloud")
        ('google.protobuf', None)
        >>> protobuf.provides("google")
        'google'
        """
        known = set(self.names)
        if module in known:
            return module
        name = next((it for it in parents_of(module) if it in known), None)
        if name is None or any(it.startswith(f"{name}.") for it in known):
            return None
        return name


#: Maximum number of names of a release; with more, the deepest names are replaced by their parents.
MAX_NAMES = 100
#: Maximum characters of a dotted name.
_LONGEST_NAME = 200
#: A file of a module, with the tags of an extension module if any.
_MODULE = re.compile(r"([^\W\d]\w*)((?:\.[\w-]+)*)\.(py|pyc|so|pyd)")
_SUFFIXES = (".py", ".pyc", ".so", ".pyd")
#: Folders of ``.data`` that are installed beside the other modules.
_INSTALLED = ("purelib", "platlib")

_Name = tuple[str, ...]


def parents_of(module: str) -> Iterator[str]:
    """The packages above a dotted name, the nearest first.

    >>> list(parents_of("a.b.c"))
    ['a.b', 'a']
    """
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def names_in_wheel(paths: Iterable[str], namespaces: Collection[str] = ()) -> ImportNames:
    """All names of a wheel with these files.

    :param namespaces: dotted names of packages that other wheels share although they have a file
        ``__init__.py`` (``namespace_packages.txt``)

    >>> names_in_wheel(["six.py", "google/_upb/_message.abi3.so", "x.libs/libx.so",
    ...                 "x-1.data/purelib/d/__init__.py", "x-1.dist-info/METADATA"]).names
    ('d', 'google', 'google._upb', 'google._upb._message', 'six')
    """
    folders = _folders_in(paths)
    shared = {tuple(it.split(".")) for it in namespaces}
    regular = {it for it, modules in folders.items() if "__init__" in modules} - shared
    names: set[_Name] = set()
    for folder, modules in folders.items():
        depths = (depth for depth in range(1, len(folder) + 1) if folder[:depth] in regular)
        depth = next(depths, None)
        if depth is not None:
            names.add(folder[:depth])
        else:
            names.update((*folder, module) for module in modules if module != "__init__")
    return ImportNames(_written(names), ImportSource.DIRECTORY)


def names_at_end(paths: Iterable[str], top_level: str = "", entry_points: str = "") -> ImportNames:
    """The top-level names of a wheel, as far as the given files show them.

    :param top_level: content of ``top_level.txt``
    :param entry_points: content of ``entry_points.txt``

    >>> names_at_end(["b/model.py"], "a\\n", "[console_scripts]\\nrun = c.run:main").names
    ('a', 'b', 'c')
    """
    listed = (line.strip().replace("/", ".") for line in top_level.splitlines())
    targets = (match[1] for match in map(_ENTRY_POINT.match, entry_points.splitlines()) if match)
    written = (tuple(it.split(".")[:1]) for it in (*listed, *targets))
    names = {it for it in written if _is_name(it)}
    for folder, modules in _folders_in(paths).items():
        names.update([folder[:1]] if folder else [(module,) for module in modules])
    return ImportNames(_written(names), ImportSource.DIRECTORY_END)


#: A line such as ``flask = flask.cli:main``.
_ENTRY_POINT = re.compile(r"\s*[^=\[#;]+=\s*([\w.]+)")


def declared_names(names: Iterable[str], namespaces: Iterable[str]) -> ImportNames:
    """The names that metadata declares (PEP 794); a declaration may end with ``; private``.

    >>> declared_names(["spam._c ; private", ""], ["spam"]).names
    ('spam', 'spam._c')
    """
    texts = (it.partition(";")[0].strip() for it in (*names, *namespaces))
    parsed = {tuple(it.split(".")) for it in texts if is_import_name(it)}
    return ImportNames(_written(parsed), ImportSource.DECLARED)


def is_import_name(text: str) -> bool:
    """Whether a text is a dotted name that can be recorded."""
    return len(text) <= _LONGEST_NAME and _is_name(tuple(text.split(".")))


def _folders_in(paths: Iterable[str]) -> dict[_Name, set[str]]:
    """The modules in each folder; ``__init__`` is one of them, except at the top."""
    # Most wheels have few folders, so paths are split once and their parts checked by folder.
    files: dict[str, list[str]] = {}
    for path in paths:
        if path.endswith(_SUFFIXES):
            folder, _, filename = path.rpartition("/")
            files.setdefault(folder, []).append(filename)
    folders: dict[_Name, set[str]] = {}
    for folder, filenames in files.items():
        parts = tuple(folder.split("/")) if folder else ()
        if len(parts) > 1 and parts[0].endswith(".data") and parts[1] in _INSTALLED:
            parts = parts[2:]
        if not _is_name(parts) or "__pycache__" in parts:
            continue
        modules = {name for it in filenames if (name := _module_of(it))}
        if not parts:
            modules -= {"__init__", "__main__"}  # nobody can import these by name
        if modules:
            folders.setdefault(parts, set()).update(modules)
    return folders


def _module_of(filename: str) -> str | None:
    match = _MODULE.fullmatch(filename)
    if match is None or iskeyword(match[1]):
        return None
    if match[3] == "so" and not match[2] and match[1].startswith("lib"):
        return None  # a shared library such as libgomp.so
    return match[1]


def _is_name(parts: _Name) -> bool:
    return all(it.isidentifier() and not iskeyword(it) for it in parts)


def _written(names: set[_Name]) -> tuple[str, ...]:
    """Dotted names with the namespaces above them, sorted and bounded."""
    depth = max(map(len, names), default=0)
    while len(names) > MAX_NAMES and depth > 1:
        depth -= 1
        names = {it[:depth] for it in names}
    names = {it for it in names if sum(map(len, it)) + len(it) - 1 <= _LONGEST_NAME}
    kept = sorted(names)[:MAX_NAMES]
    return tuple(sorted({".".join(it[:depth]) for it in kept for depth in range(1, len(it) + 1)}))
