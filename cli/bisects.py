"""``thoth bisects``: recorded searches of ``thoth bisect``."""

import click
from packaging.utils import canonicalize_name

from adviser.bisect.search import SearchState
from cli.console import Column, Table, cut_list, moment_text, print_field, print_json
from cli.options import as_json_option, limit_option
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.bisects import BisectFilter, RecordedBisect, bisect_named, browse_bisects
from model.errors import InvalidArgument
from model.text import printable


@click.command()
@click.argument("bisect_id", required=False, metavar="[ID]")
@click.option("--package", metavar="NAME", help="Only searches in releases of this package.")
@click.option("--state", type=click.Choice([it.value for it in SearchState]),
              help="Only searches in this state.")  # fmt: skip
@limit_option("searches to list, last started first")
@as_json_option
@click.pass_obj
def bisects(
    settings: Settings,
    bisect_id: str | None,
    package: str | None,
    state: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the searches of `thoth bisect`, or show the one with ID.

    A search appears when it starts, and its state is stored after each block. A search that is
    interrupted or stopped continues with its command.
    """
    name = None if package is None else canonicalize_name(package)
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        if bisect_id is not None:
            known = bisect_named(connection, bisect_id)
            if known is None:
                raise InvalidArgument(f"ID: no search {bisect_id!r}; see `thoth bisects`")
            _print_one(known, as_json=as_json)
            return
        listed = browse_bisects(connection, BisectFilter(name, None, state), limit=limit + 1)
    listed, truncated = cut_list(listed, limit, "newest")
    if as_json:
        print_json({"bisects": listed, "truncated": truncated})
        return
    if not listed:
        click.echo("No search is recorded. `thoth bisect` finds the release that changed a speed.")
        return
    table = Table([
        Column("search"), Column("started"), Column("subjects", wraps=True), Column("indicator"),
        Column("state"), Column("jobs", right=True), Column("answer", wraps=True),
    ])  # fmt: skip
    for search in listed:
        answer = search.reason or (search.searches[-1]["sentence"] if search.searches else "")
        table.add(
            search.bisect_id, moment_text(search.started_at), " ".join(search.subjects),
            search.indicator, search.state, str(search.jobs), answer,
        )  # fmt: skip
    table.print()


def _print_one(bisect: RecordedBisect, *, as_json: bool) -> None:
    if as_json:
        print_json(bisect)
        return
    reason = f": {printable(bisect.reason)}" if bisect.reason else ""
    print_field("state", bisect.state + reason)
    print_field("started", moment_text(bisect.started_at))
    print_field("last block", moment_text(bisect.updated_at))
    print_field("hardware", printable(bisect.hardware_label))
    print_field("jobs", f"{bisect.jobs} of at most {bisect.max_jobs}")
    for search in bisect.searches:
        print_field(search["series"], printable(search["sentence"]))
        for skipped in search["skipped"]:
            print_field("skipped", printable(f"{skipped['stack']}: {skipped['reason'][:300]}"))
        if (posterior := search["posterior"]) is not None:
            steps = [("no step", posterior["none"])]
            steps += [(f"step at {it['after']}", it["chance"]) for it in posterior["steps"]]
            for name, chance in sorted(steps, key=lambda it: -it[1])[:5]:
                if chance >= 0.005:
                    print_field("", printable(f"{100 * chance:.0f} % {name}"))
    print_field("command", printable(bisect.command))
