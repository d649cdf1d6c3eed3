"""One door to all formats of locks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from adviser.locks.pipfile_lock import pipfile_lock_document, pipfile_lock_text
from adviser.locks.pylock import pylock_text
from adviser.locks.stacks import Chosen, LockFile, LockFormat, LockOptions
from adviser.locks.texts import constraints_text, requirements_text
from adviser.projects.project import Project

_NAMES = {
    LockFormat.PIPFILE_LOCK: "Pipfile.lock",
    LockFormat.REQUIREMENTS: "requirements.txt",
    LockFormat.PYLOCK: "pylock.toml",
    LockFormat.CONSTRAINTS: "constraints.txt",
}


def render_lock(
    format: LockFormat, stack: Iterable[Chosen], project: Project, options: LockOptions
) -> LockFile:
    """Write ``stack`` as a lock of ``project``; its order makes no difference.

    :raises NoLock: if the format needs what is not known, naming package and remedy
    """
    ordered = sorted(stack, key=lambda it: it.name)
    if format is LockFormat.PIPFILE_LOCK:
        text = pipfile_lock_text(pipfile_lock_document(ordered, project, options))
    elif format is LockFormat.REQUIREMENTS:
        text = requirements_text(ordered, options)
    elif format is LockFormat.PYLOCK:
        text = pylock_text(ordered, options)
    else:
        text = constraints_text(ordered, options)
    data = text.encode()
    return LockFile(format, _NAMES[format], data, hashlib.sha256(data).hexdigest())
