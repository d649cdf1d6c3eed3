"""Requirements files in pip's format: logical lines, options and references.

Variables are not expanded, and included files are not opened.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit
from urllib.request import url2pathname

from common.formats.file_decoding import refuse, value_text
from model.errors import Reason
from model.packages.identity import version_of

_COMMENT = re.compile(r"(?:^|\s)#.*$")
#: Characters for which ``shlex`` does more than split at blanks.
_QUOTING = re.compile(r"""['"\\]""")
#: Maximum characters of quoted options: ``shlex`` is quadratic in the length of a word.
_MAX_QUOTED = 4_096
_BLANKS = re.compile(r"[ \t\r\n]+")
_BEGINS_OPTIONS = re.compile(r"(?:^|\s)(?=-)")
#: An editable requirement, and the options after it.
_EDITABLE = re.compile(
    r"(?:-e\s*|--editable[\s=]\s*)(?P<reference>[^\s'\"=-].*?)(?P<options>\s--\S.*)?$"
)
#: Blanks of a name or a marker.
_BLANKS_OF_REFERENCE = re.compile(r"\s@\s|\s;|;\s")
#: Aliases of options, and the options that take a value.
_SHORT = {"-r": "--requirement", "-c": "--constraint", "-e": "--editable", "-i": "--index-url",
          "-f": "--find-links", "-C": "--config-settings"}  # fmt: skip
_LONG = {"--pypi-url": "--index-url", "--config-setting": "--config-settings"}
_WITH_VALUE = frozenset(
    {
        "--requirement", "--constraint", "--editable", "--index-url", "--extra-index-url",
        "--find-links", "--trusted-host", "--no-binary", "--only-binary", "--use-feature",
        "--all-releases", "--only-final", "--hash", "--config-settings", "--global-option",
        "--install-option",
    }
)  # fmt: skip
_FLAGS = frozenset(
    {"--pre", "--no-index", "--prefer-binary", "--require-hashes", "--no-require-hashes",
     "--process-dependency-links", "--always-unzip", "-Z"}
)  # fmt: skip
#: Options that may follow a requirement.
OF_REQUIREMENT = frozenset({"--hash", "--config-settings", "--global-option", "--install-option"})


_REPOSITORY = re.compile(r"(?:git|hg|svn|bzr)\+", re.IGNORECASE)
#: URL schemes that installers support; a single letter is a drive.
_SCHEME = re.compile(
    r"(?:https?|ftp|file|(?:git|hg|svn|bzr|ssh|sftp)(?:\+[a-z]+)?):", re.IGNORECASE
)
_DRIVE = re.compile(r"[a-z]:[\\/]", re.IGNORECASE)
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_ARCHIVE = re.compile(
    r"\.(?:whl|zip|tar|tar\.(?:gz|bz2|xz|Z|lzma)|tgz|tbz|txz|tlz)$", re.IGNORECASE
)
#: The name of a direct reference (PEP 508); without blanks around ``@``, a URL must follow.
_REFERENCE_NAME = re.compile(
    r"[a-z0-9][a-z0-9._-]*+\s*+(?:\[[^\]]*+\]\s*+)?(?:(?<=\s)@\s*+|@\s++|@(?=[a-z+]+:))",
    re.IGNORECASE,
)
#: Where the marker of a direct reference begins.
_BEGINS_MARKER = re.compile(r"\s;|;\s")
_EXTRAS = re.compile(r"\[[^\[\]/\\]*\]$")
_VARIABLE = re.compile(r"\$(?:\{\w+\}|[A-Z_]\w*)")


class SourceKind(StrEnum):
    """A source of a package that is not an index."""

    EDITABLE = "editable"
    LOCAL_PATH = "local_path"
    REPOSITORY = "repository"
    ADDRESS = "address"


#: Keys of pipenv's entries that name such a source; the first one present decides.
SOURCE_KEYS: Mapping[str, SourceKind] = {
    "editable": SourceKind.EDITABLE, "git": SourceKind.REPOSITORY, "hg": SourceKind.REPOSITORY,
    "svn": SourceKind.REPOSITORY, "bzr": SourceKind.REPOSITORY, "path": SourceKind.LOCAL_PATH,
    "file": SourceKind.ADDRESS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """A logical line.

    :param number: of its first physical line, from 1
    :param requirement: empty for a line of options
    :param options: name and value, in order; the value of a flag is empty
    :param ignored: what pip reads and ignores: text after an option, such as a marker, and options
        that must not stand after a requirement, or only there
    """

    number: int
    requirement: str
    options: tuple[tuple[str, str], ...]
    ignored: str = ""

    def values(self, option: str) -> list[str]:
        """The values of an option."""
        return [value for name, value in self.options if name == option]


def lines_of(text: str, name: str) -> Iterator[Line]:
    """The logical lines of a requirements file; variables are not expanded.

    :param name: of the file
    :raises InvalidFile: at an option that pip does not document for such files
    """
    for number, line in logical_lines(text):
        yield parse_line(line, number, f"{name}:{number}")


def parse_line(line: str, number: int, at: str) -> Line:
    """Split a logical line into its requirement and its options.

    :param at: file and line, for errors
    :raises InvalidFile: at an option that pip does not document for such files
    """
    requirement, options = line, ""
    editable = _EDITABLE.match(line)
    if editable and _BLANKS_OF_REFERENCE.search(editable["reference"]):
        # pip requires quotes around the whole reference; uv does not.
        reference = shlex.quote(editable["reference"].strip())
        requirement, options = "", f"--editable {reference}{editable['options'] or ''}"
    elif start := _BEGINS_OPTIONS.search(line):
        requirement, options = line[: start.start()].strip(), line[start.end() :]
    return Line(number, requirement, *_options(options, bool(requirement), at))


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined with their continuations, without comments; each with its first line number."""
    held, began = list[str](), 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        began = began or number
        comment = line.lstrip().startswith("#")
        if line.endswith("\\") and not comment:
            held.append(line.strip("\\"))
            continue
        if not comment:
            held.append(line)
        whole = _COMMENT.sub("", "".join(held)).strip()
        if whole:
            yield began, whole
        held, began = [], 0


def _options(text: str, behind: bool, at: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """The options of a line, and the text that pip ignores."""
    options, ignored = list[tuple[str, str]](), list[str]()
    pending, editable = iter(split_words(text, at)), False
    for word in pending:
        if not word.startswith("-") or (word in ("-", "--") and (behind or options)):
            ignored.append(word)
            continue
        option, inline = _option(word)
        if option in _WITH_VALUE:
            value = next(pending, None) if inline is None else inline
            if not value:
                refuse(Reason.MISSING_FIELD, f"{option} without a value", at, "give it one")
        elif option in _FLAGS and inline is None:
            value = ""
        else:
            refuse(
                Reason.INVALID_REQUIREMENT,
                f"{value_text(word)} is not an option of a requirements file",
                at,
                "see pip's reference of the requirements file format",
            )
        of_requirement = option in OF_REQUIREMENT
        if behind != of_requirement and not (editable and of_requirement):
            ignored.append(f"{option} {value}".strip())
            continue
        if value.endswith(";"):
            value = value.removesuffix(";")
            ignored.append(";")
        editable |= option == "--editable"
        options.append((option, value))
    if editable:  # the line is a requirement, so options of the whole file have no effect in it
        beside = [it for it in options if it[0] not in {"--editable", *OF_REQUIREMENT}]
        ignored += [" ".join(it).strip() for it in beside]
        options = [it for it in options if it not in beside]
    return tuple(options), " ".join(ignored)


def split_words(text: str, at: str) -> list[str]:
    """Split into shell words. Most lines only have hashes and need no shell rules.

    :raises InvalidFile: if a quote is not closed, or if a long text has quotes
    """
    if not _QUOTING.search(text):
        return [word for word in _BLANKS.split(text) if word]
    if len(text) > _MAX_QUOTED:
        refuse(
            Reason.OUT_OF_RANGE,
            f"{len(text)} characters of options with quotes or backslashes, limit {_MAX_QUOTED}",
            at,
            "give each option a line of its own",
        )
    try:
        return shlex.split(text)
    except ValueError as error:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"options {value_text(text)} cannot be split: {error}",
            at,
            "close the quote",
        )


def _option(word: str) -> tuple[str, str | None]:
    """The full name of an option, and its value if the same word contains the value.

    As in pip, the beginning of a name suffices if no other option begins so.
    """
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        alike = [it for it in (*_WITH_VALUE, *_FLAGS, *_LONG) if it.startswith(name)]
        name = alike[0] if len(alike) == 1 else name
        return _LONG.get(name, name), value if equals else None
    short = _SHORT.get(word[:2])
    if short is None:
        return word, None
    return short, word[2:].removeprefix("=") or None


def kind_of_reference(text: str) -> SourceKind:
    """The kind of source of a direct reference.

    >>> [kind_of_reference(it).value for it in ("git+https://h/r", "file:///w", "https://h/x.whl")]
    ['repository', 'local_path', 'address']
    """
    if _REPOSITORY.match(text):
        return SourceKind.REPOSITORY
    return SourceKind.LOCAL_PATH if text.lower().startswith("file:") else SourceKind.ADDRESS


def reference_without_name(text: str) -> SourceKind | None:
    """The kind of source of a line that is only a URL or a path; ``None`` for other lines.

    If a text starts with another prefix and a colon, it does not count as a path. Otherwise,
    arbitrary files with colons could be mistaken for requirements files.

    >>> [reference_without_name(it) for it in ("./here", "a-1.whl", "https://h/a.zip#egg=a", "a>1")]
    [<SourceKind.LOCAL_PATH: 'local_path'>, <SourceKind.LOCAL_PATH: 'local_path'>, \
<SourceKind.ADDRESS: 'address'>, None]
    """
    head = text.partition(";")[0].strip()
    if _SCHEME.match(head):
        return kind_of_reference(head)
    if _DRIVE.match(head):
        return SourceKind.LOCAL_PATH
    if _OTHER_SCHEME.match(head):
        return None
    if "@" in head and not head.startswith((".", "/", "~")):
        return None
    bare = head.partition("[")[0].strip()
    if head.startswith((".", "/", "~")) or "\\" in bare or "/" in bare or _ARCHIVE.search(bare):
        return SourceKind.LOCAL_PATH
    return None


def is_remote(where: str) -> bool:
    """Whether a URL leads to another machine.

    >>> [is_remote(it) for it in ("./here", "file:///w.whl", "git+ssh://h/r", "HTTPS://h/a.whl")]
    [False, False, True, True]
    """
    return _SCHEME.match(where) is not None and not where.lower().startswith("file:")


def split_marker(reference: str) -> tuple[str, str | None]:
    """A direct reference and its marker, as they are written.

    >>> split_marker("./here ; os_name == 'nt'"), split_marker("file:///a;b")
    (('./here', "os_name == 'nt'"), ('file:///a;b', None))
    """
    begin = _BEGINS_MARKER.search(reference)
    if begin is None:
        return reference.strip(), None
    return reference[: begin.start()].strip(), reference[begin.end() :].strip()


def without_name(reference: str) -> str:
    """The URL or the path of a direct reference.

    >>> [without_name(it) for it in ("a @ ./here", "a[b]@file:///w", "./a@b", "git+ssh://me@h/r")]
    ['./here', 'file:///w', './a@b', 'git+ssh://me@h/r']
    """
    name = _REFERENCE_NAME.match(reference)
    return reference if name is None else reference[name.end() :]


def local_path(reference: str) -> str | None:
    """The path in a direct reference to a file or folder on this machine; ``None`` for others.

    >>> [local_path(it) for it in ("./here[a]", "a @ file:///w/a.whl ; os_name=='nt'", "a @ https://h")]
    ['./here', '/w/a.whl', None]
    """
    where = without_name(split_marker(reference)[0])
    if is_remote(where) or has_variable(where):
        return None
    if where.lower().startswith("file:"):
        url = urlsplit(where)
        return url2pathname(url.path) if url.netloc in ("", "localhost") else None
    return _EXTRAS.sub("", where.partition("#")[0]) or None


def has_variable(text: str) -> bool:
    """Whether a text contains a variable that tools would expand.

    >>> has_variable("https://${TOKEN}@h/simple"), has_variable("https://h/$x")
    (True, False)
    """
    return _VARIABLE.search(text) is not None


def exact_version(specifier: str) -> str | None:
    """The only version that a specifier allows, normalised; ``None`` if it allows several.

    >>> [exact_version(it) for it in ("==1.0RC1", "==1.*", "===2.0", "==1.0,>0")]
    ['1.0rc1', None, '2.0', None]
    """
    version = specifier.removeprefix("===") if specifier[:3] == "===" else specifier[2:]
    if not specifier.startswith("==") or "," in specifier or version.endswith(".*"):
        return None
    parsed = version_of(version)
    return version if parsed is None else str(parsed)
