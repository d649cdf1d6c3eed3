"""What this machine, or an image, provides to native libraries."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from common.errors import InvalidArgument
from common.native_interfaces import EnvironmentAnalysis, EnvironmentKind
from ingest.native.documents import environment_analysis
from ingest.native.images import open_image
from ingest.native.loader import libraries_of, os_release
from ingest.native.trees import FolderTree, Tree

logger = logging.getLogger(__name__)

_LONGEST_NAME = 200


def analyze_host(name: str | None = None, root: Path = Path("/")) -> EnvironmentAnalysis:
    """Read the libraries of this machine; takes about a millisecond each.

    :param name: what to call it; the system's name and version if unset, never the host's
    """
    return _analyzed(EnvironmentKind.HOST, name, FolderTree(root), platform.machine(), os.environ)


def analyze_image(wanted: str, name: str | None = None) -> EnvironmentAnalysis:
    """Read the libraries of an image, by the path of its files or by its name.

    :param name: what to call it; what it calls itself, or the last part of its path, if unset
    :raises InvalidArgument: if there is no such image
    :raises InvalidDocument: if it is broken
    """
    with open_image(wanted) as image:
        called = name or image.name or Path(wanted).name or "root"
        return _analyzed(
            EnvironmentKind.IMAGE, called, image.tree, image.architecture, image.environ
        )


def _analyzed(
    kind: EnvironmentKind, name: str | None, tree: Tree, architecture: str | None,
    environ: Mapping[str, str],
) -> EnvironmentAnalysis:  # fmt: skip
    found = libraries_of(tree, environ)
    system = os_release(tree)
    machine = architecture or found.architecture() or "unknown"
    provides = tuple(found.provides(machine))
    if found.files and not provides:
        logger.warning(
            "native_libraries_of_other_machines",
            extra={"wanted": [machine], "found": [found.architecture()]},
        )
    words = (system.get("ID", "unknown"), system.get("VERSION_ID", ""), machine)
    called = name or "-".join(filter(None, words))
    if not called.isprintable() or len(called) > _LONGEST_NAME:
        raise InvalidArgument(f"an environment cannot be called {called[:80]!r}: use --name")
    return environment_analysis(
        kind=kind,
        name=called,
        architecture=machine,
        os_release=(system.get("ID"), system.get("VERSION_ID")),
        provides=provides,
        skipped=found.skipped,
    )
