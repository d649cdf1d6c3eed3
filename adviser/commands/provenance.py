"""``thoth provenance``: every file of a lock against what indexes serve."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.settings import Settings

if TYPE_CHECKING:
    from adviser.projects.project import LockedPackage
    from adviser.provenance import Issue, Listing
    from common.indexes.pages import ProjectPage


@click.command()
@click.argument("lock", type=click.Path(path_type=Path))
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar="NAME",
    help="An index that packages may come from; every configured one by default.",
)
@click.option("--live", is_flag=True, help="Ask the indexes now, rather than the record.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def provenance(
    context: click.Context, lock: Path, indexes: tuple[str, ...], live: bool, as_json: bool
) -> None:
    """Check where every file of LOCK comes from, a lock or a project's folder.

    Each issue has an identifier, a severity and a remedy. Exit code 1 if one is an error; 3 if
    an index or a store does not answer.
    """  # fmt: skip
    from adviser.commands.files import read_project
    from adviser.commands.options import asked_indexes
    from adviser.commands.printing import print_json, print_lines
    from adviser.provenance import Served, check_lock
    from adviser.scoring.assessments import Weight
    from common.errors import InvalidArgument
    from common.indexes.configured import configured_indexes, index_of

    settings: Settings = context.obj
    project = read_project(lock)
    if project.locked is None:
        raise InvalidArgument(f"{lock} has no lock whose packages are all pinned")
    known = list(configured_indexes(settings))
    allowed = [index_of(settings, it).name for it in indexes] or known
    listings = (_live if live else _recorded)(settings, project.locked, known)
    called = {it.called: it.name for it in asked_indexes(settings, project)}
    issues = check_lock(project, Served(listings, allowed, called))
    if as_json:
        print_json([it.document() for it in issues])
    else:
        print_lines(_lines(issues))
    context.exit(1 if any(it.type is Weight.ERROR for it in issues) else 0)


def _lines(issues: list[Issue]) -> Iterator[str]:
    for it in issues:
        what = f"{it.package_name} {it.package_version}: " if it.package_name else ""
        digest = f" ({it.digest})" if it.digest else ""
        yield f"{it.type.value}: {it.id.value}: {what}{it.justification}{digest}; {it.remedy}"
    if not issues:
        yield "every file is the one that its index serves"


def _recorded(
    settings: Settings, locked: Mapping[str, LockedPackage], indexes: list[str]
) -> dict[str, list[Listing]]:
    """What the record has of the locked versions, on every index that has them."""
    from adviser.provenance import Listing
    from graph.migrate import migrated_stores
    from graph.repositories.release_files import recorded_listings

    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        rows = recorded_listings(connection, {name: it.version for name, it in locked.items()})
    found: dict[str, list[Listing]] = defaultdict(list)
    for it in rows:
        found[it.name].append(
            Listing(it.index, it.files, it.gone, it.complete, it.yanked, it.yanked_reason, it.as_of)
        )
    return found


def _live(
    settings: Settings, locked: Mapping[str, LockedPackage], indexes: list[str]
) -> dict[str, list[Listing]]:
    """The same, asked of every configured index now."""
    from adviser.commands.addresses import pages_of

    wanted = {(index, name) for index in indexes for name in locked}
    pages = pages_of(settings, wanted, max_age_s=0.0)
    found: dict[str, list[Listing]] = defaultdict(list)
    for (index, name), page in sorted(pages.items()):
        listing = _listing(index, page, locked[name].version)
        if listing is not None:
            found[name].append(listing)
    return found


def _listing(index: str, page: ProjectPage, version: str) -> Listing | None:
    from adviser.provenance import Listing
    from common.releases import ReleaseFile

    there = page.releases.get(version)
    if not there:
        return None
    files = tuple(
        ReleaseFile(
            it.filename, it.sha256, it.kind, it.size_bytes, it.requires_python, it.yanked,
            it.yanked_reason, it.uploaded_at, it.metadata_sha256, it.attested,
        )
        for it in there
    )  # fmt: skip
    reason = next((it.yanked_reason for it in files if it.yanked_reason), None)
    yanked = all(it.yanked for it in files)
    return Listing(index, files, yanked=yanked, yanked_reason=reason, as_of=page.as_of)
