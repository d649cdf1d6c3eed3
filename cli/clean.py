"""``thoth clean``: remove what can be made again, such as old environments and cached pages."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import click

from cli.console import print_json
from cli.options import as_json_option
from cli.stores import size_of
from common.settings import Settings
from model.measurements.units import byte_size
from model.text import counted
from pis.amun.free_machine import free_machine

_DAY_S = 86_400
#: Folders of ``INDEX_CACHE``.
_CACHES = ("indexes", "requests")


@click.command()
@click.option("--days", type=click.FloatRange(0), default=30, show_default=True, metavar="N",
              help="Remove environments that no inspection has used for so many days.")  # fmt: skip
@click.option("--cache", is_flag=True, help="Also remove the cached pages of package indexes.")
@click.option("--dry-run", is_flag=True, help="Remove nothing; show what would be removed.")
@as_json_option
@click.pass_obj
def clean(settings: Settings, days: float, cache: bool, dry_run: bool, as_json: bool) -> None:
    """Remove old environments of inspections, and cached pages.

    Everything that is removed is made or read again when it is needed. Measurements, documents and
    stores stay. Exit code 5 while a measurement runs on this machine.
    """
    with free_machine(0):
        folders = list(_old_environments(settings.home / "environments", days))
        if cache:
            folders += filter(Path.is_dir, (settings.index_cache / it for it in _CACHES))
        sizes = {str(folder): size_of(folder) for folder in folders}
        if not dry_run:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
                folder.with_name(f"{folder.name}.lock").unlink(missing_ok=True)
    if as_json:
        print_json({"dry_run": dry_run, "folders": sizes, "bytes": sum(sizes.values())})
        return
    for name, size in sizes.items():
        click.echo(f"{byte_size(size):>9}  {name}")
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{counted(len(sizes), 'folder')} {verb}, {byte_size(sum(sizes.values()))}")


def _old_environments(home: Path, days: float) -> Iterator[Path]:
    """Environments whose description, which each use touches, is old."""
    for description in sorted(home.glob("*/environment.json")):
        if description.stat().st_mtime <= time.time() - days * _DAY_S:
            yield description.parent
