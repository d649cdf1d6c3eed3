"""Reads files of a revision, such as ``main:uv.lock``, from the Git repository of this folder."""

from __future__ import annotations

import os
import posixpath
import subprocess
from dataclasses import dataclass
from pathlib import Path

from adviser.projects.documents import MAX_BYTES
from model.errors import InvalidArgument

_HINT = "name a file, or a revision and a file as `git show` does: main:app/uv.lock, main:./uv.lock"


@dataclass(frozen=True, slots=True)
class RevisionFile:
    """A file of a revision.

    :param revision: anything that Git understands; empty for the index
    :param folder: folder of the file in the repository, or from here if it begins with ``./``
    """

    revision: str
    folder: str
    name: str

    def content(self, name: str) -> bytes | None:
        """A file in the same folder, at most one byte more than parsing admits.

        :returns: ``None`` if the revision has no such file
        :raises InvalidArgument: outside a repository, or if the revision is unknown
        """
        path = posixpath.normpath(posixpath.join(self.folder, name))
        if self.folder.startswith("."):
            path = f"./{path}"
        done = _git("cat-file", "blob", f"{self.revision}:{path}")
        return done.stdout[: MAX_BYTES + 1] if done.returncode == 0 else None


def revision_file(text: str) -> RevisionFile | None:
    """The file that a text such as ``HEAD~3:app/poetry.lock`` names.

    :returns: ``None`` if the text names no revision, or a file on disk has this name
    :raises InvalidArgument: if there is no such revision or file
    """
    revision, colon, path = text.partition(":")
    if not colon or not path or os.path.lexists(text) or (os.name == "nt" and len(revision) == 1):
        return None
    if revision.startswith("-"):
        raise InvalidArgument(f"{text}: a revision does not begin with a dash", hint=_HINT)
    folder, name = posixpath.split(path)
    file = RevisionFile(revision, folder, name)
    done = _git("cat-file", "-t", text)
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["Git failed"]
        message = lines[0].removeprefix("fatal: ")
        if _git("rev-parse", "--git-dir").returncode:
            message = f"there is no such file, and {Path.cwd()} is not in a Git repository"
        raise InvalidArgument(f"{text}: {message}", hint=_HINT)
    if done.stdout.strip() != b"blob":
        raise InvalidArgument(f"{text}: is a folder; name the file in it", hint=_HINT)
    return file


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    # `git cat-file` runs neither filters nor programs that a repository configures, unless it
    # fetches what a partial clone lacks.
    quiet = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    environment = {**os.environ, **quiet}
    try:
        return subprocess.run(
            ["git", *arguments],  # noqa: S607 - Git is where the user has it
            capture_output=True, check=False, env=environment,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        raise InvalidArgument("revisions of files need Git, which is not installed") from None
