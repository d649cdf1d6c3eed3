"""``thoth provenance``: compare every file of a lock with the files that indexes serve."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from adviser.answering.file_listings import places_of, recorded_listings, served_listings
from adviser.answering.index_selection import called_indexes, foreign_indexes, stages_of_lock
from adviser.projects.parsing import PIPFILE, PIPFILE_LOCK
from adviser.projects.project import Project
from adviser.provenance import KnownIndexes, check_lock
from adviser.scoring.assessment_types import NoteLevel
from cli.console import print_canonical_json, print_lines, print_note
from cli.options import NamedPath, as_json_option
from cli.project_files import read_project
from cli.request_options import index_from_project, lock_options, lock_selection
from common.formats.locks.entries import LockSelection
from common.index.configuration import configured_indexes, index_of
from common.settings import Settings
from graph.migrate import migrated_stores
from model.errors import InvalidArgument
from model.packages.environments import environment


@click.command()
@click.argument("lock", type=NamedPath(path_type=Path), default=Path())
@click.option("--index", "indexes", multiple=True, metavar="NAME",
              help="An allowed index; repeat for more.  [default: all configured]")  # fmt: skip
@lock_options
@click.option("--python", "python_version", metavar="VERSION",
              help="Check only what this Python installs.  [default: every version]")  # fmt: skip
@click.option("--platform", metavar="TAG",
              help="Check only what this platform installs.  [default: every one]")  # fmt: skip
@index_from_project
@click.option("--live", is_flag=True, help="Query the indexes now instead of using recorded data.")
@as_json_option
@click.pass_context
def provenance(
    context: click.Context,
    /,
    lock: Path,
    indexes: tuple[str, ...],
    python_version: str | None,
    platform: str | None,
    live: bool,
    as_json: bool,
    **selection: Any,
) -> None:
    """Check where every file of a lock comes from.

    LOCK is a lock or the folder of a project; by default, it is the current folder. Each issue has
    an identifier, a severity and a remedy. Exit code 1 if an issue is an error; 3 if an index or a
    store does not answer.
    """
    settings: Settings = context.obj
    project = _project_of(lock, lock_selection(selection))
    if python_version or platform:
        markers = environment(python_version, platform).markers
        held = tuple(it for it in project.lock_entries if it.holds(markers))
        project = replace(project, lock_entries=held)
    if project.locked is None:
        where = lock if lock.is_file() else "the project"
        raise InvalidArgument(f"{where} has no lock whose packages are all pinned")
    known = list(configured_indexes(settings))
    allowed = [index_of(settings, it).name for it in indexes] or known
    called = called_indexes(settings, project)
    if live:
        stages = stages_of_lock(settings, project, indexes)
        listings = served_listings(settings, {it: stage for it, stage in stages.items() if stage})
        unread = {(it.name, it.version) for it, stage in stages.items() if not stage}
    else:
        with migrated_stores(settings, graph=False) as stores:
            listings = recorded_listings(stores, project.lock_entries)
        unread = {(it.name, it.version) for it in project.lock_entries}
    foreign = (it for it in foreign_indexes(settings, project) if not it.explicit)
    barrier = next(foreign, None) if live else None
    served = KnownIndexes(listings, allowed, called, places_of(settings), unread, barrier)
    issues = check_lock(project, served)
    if as_json:
        print_canonical_json([it.document() for it in issues])
    else:
        for issue in issues:
            what = f"{issue.package_name} {issue.package_version}: " if issue.package_name else ""
            digest = f" ({issue.digest})" if issue.digest else ""
            text = f"{what}{issue.justification}{digest}; {issue.remedy}"
            print_lines([f"{issue.type.value}: {issue.id.value}: {text}"])
        if not issues:
            print_lines(["every file is the one that its index serves"])
    context.exit(1 if any(it.type is NoteLevel.ERROR for it in issues) else 0)


def _project_of(path: Path, selection: LockSelection) -> Project:
    """Return the project of a lock; a ``Pipfile.lock`` is read with the Pipfile beside it."""
    if path.name != PIPFILE_LOCK or not path.is_file():
        return read_project(path, selection)
    manifest = path.with_name(PIPFILE)
    if not manifest.is_file():
        print_note(f"there is no {PIPFILE} beside {path}, so the lock is not compared with it")
        return read_project(path, selection)
    project = read_project(manifest, selection)
    return project if project.lock_source == path.name else read_project(path, selection)
