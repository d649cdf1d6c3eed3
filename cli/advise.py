"""``thoth advise``: the best stack of a project; ``check`` and ``replay`` verify past advice."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from adviser.advise import Advice
from adviser.answering.answers import on_hardware, store
from adviser.answering.recorded_advice import (
    check_recorded,
    read_report,
    replay_stored,
    stored_advice,
    unrepeated,
    why_it_may_differ,
)
from adviser.locks.formats import LockFormat
from adviser.projects.project import Project, ProjectFormat
from adviser.reports.checking import check_fix_proof, fix_proof_in
from adviser.reports.documents import lock_of
from adviser.reports.note_codes import remark_of
from adviser.reports.serialization import plain
from adviser.reports.unfetched_versions import missing_packages
from adviser.resolver.results import ResolvedStack
from adviser.resolver.worker import ResolverWorker
from cli.console import (
    Column,
    Styled,
    Table,
    print_canonical_json,
    print_lines,
    print_note,
    print_text,
    shown,
)
from cli.knowledge import knowledge_for, require_projected
from cli.measuring_options import machine_options
from cli.options import BudgetOfTime, as_json_option
from cli.own_benchmarks import confirmation_option
from cli.project_files import (
    keep_manifest,
    keep_project_files,
    lock_format_of,
    read_lock_file,
    refusing_files,
    write_file,
)
from cli.project_tools import LockTool, lock_again, own_lock, show_changes, write_with_tool
from cli.request_options import (
    advice_request_of,
    index_from_project,
    lock_selection,
    project_path,
    request_options,
)
from common.formats.locks.pylock import is_pylock
from common.settings import Settings
from graph.migrate import migrated_stores
from model.measurements.evidence import Evidence
from model.packages.identity import changes_between
from model.packages.snapshot import Snapshot
from model.text import counted, first_few

#: Formats that files with these suffixes usually have.
_USUAL_FORMATS = {
    ".toml": ("pylock",), ".txt": ("requirements", "constraints"), ".json": ("pipfile-lock",)
}  # fmt: skip

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_OUTPUT = click.Path(path_type=Path, dir_okay=False)


#: Notes that are shown in the row of their package although they are not warnings.
_ROW_NOTES = frozenset(
    {"performance_faster", "performance_equivalent", "built_from_sdist", "prerelease"}
)
_STYLES = {"INFO": "dim", "WARNING": "yellow", "ERROR": "red"}
#: Maximum number of vulnerabilities shown of a version that was not chosen.
_MOST_VULNERABILITIES = 2
#: Maximum number of packages shown in which the nearest measured stack differs.
_MOST_DIFFERENCES = 10
#: Missing packages that have a line of their own; if there are more, one line counts them.
_MOST_MISSING = 5
#: Characters of a name with extras before the next extra takes a new line.
_NAME_WIDTH = 36
_SCORE_EXPLAINED = (
    "The score is the sum of the contributions, at most 0. Penalties contribute weight × value. "
    "Others contribute weight × (value - value of the package's best version), so the best "
    "version contributes 0. Newness is compared last, first of direct requirements, then of other "
    "packages: docs/reference/recommendation-types.md"
)


@click.command()
@project_path
@index_from_project
@request_options
@click.option("--measure", "budget", type=BudgetOfTime(), metavar="BUDGET",
              help="First measure what could change the advice for this time, such as 20m. Runs"
                   " the project's benchmarks, or LOOP_INDICATORS if it has none.")  # fmt: skip
@confirmation_option
@machine_options
@click.option("--count", type=click.IntRange(1, 100), default=1, show_default=True, metavar="N",
              help="Number of stacks to advise, best first.")  # fmt: skip
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also show the score, the certificate, the claims, and the nearest measured stack.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document.")
@click.option("-o", "--output", type=_OUTPUT, help="Write the lock of the best stack to a file.")
@click.option("--apply", "applies", is_flag=True,
              help="Write the best stack into the project's lock with the tool that made it: uv,"
                   " Poetry, pip-compile or `uv pip compile`.")  # fmt: skip
@click.option("--dry-run", is_flag=True,
              help="With --apply, only show the changes and the command.")  # fmt: skip
@click.option("--format", "lock_format", type=click.Choice([it.value for it in LockFormat]),
              help="Format of the lock.  [default: according to the file's name]")  # fmt: skip
@click.pass_context
def advise(
    context: click.Context,
    /,
    path: Path | None,
    count: int,
    verbose: bool,
    as_json: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Find the best versions for a project.

    PATH is the project's folder or a file in it; by default, it is the current folder. With
    --format but without -o, the lock is printed. The advice is stored: `thoth replay` computes it
    again, and `thoth check` verifies its report.

    With --measure, the advice rests on new measurements. Run the same command again to continue
    after an interruption.

    Exit code 0 if a stack is advised; 1 if no stack meets the request, the lock cannot be written,
    or its tool chose other versions with --apply; 2 if the project or an option cannot be used; 3
    if a store does not answer, or if there is no stack and something required was not read.
    """
    settings: Settings = context.obj
    _check_options(output, options)
    lock_format: str | None = options["lock_format"]
    applies: bool = options["applies"]
    with_lock = output is not None or lock_format is not None
    budget: float | None = options["budget"]
    with ResolverWorker() as worker:
        request = advice_request_of(settings, path, options, count=count)
        applied = own_lock(path or Path(), request.project) if applies else None
        chosen_format = LockFormat(lock_format or format_of(output, request.project))
        if budget is not None:
            # Measuring loads the executor, and advice is fast without it.
            from cli.advise_measure import measure_for_advice

            measure_for_advice(
                settings, request, path or Path(), budget, worker.resolve,
                {**options, "as_json": as_json},
            )  # fmt: skip
        # An advice over all listed versions does not read the graph.
        with migrated_stores(settings, graph_on_use=True) as stores:
            request = on_hardware(stores, request, options["hardware"])
            urls = with_lock and chosen_format is LockFormat.PYLOCK
            known = knowledge_for(stores, request, options, worker.resolve)
            answered = known.answer(options["threads"], urls=urls)
            if answered.advice.best is None and not known.is_listed:
                require_projected(stores, answered.advice.snapshot.revisions)
            store(stores, answered)
    advice, lock = answered.advice, None
    if advice.best is not None and with_lock:
        lock = lock_of(advice, advice.best, answered.known, chosen_format)
    if output is not None and lock is not None:
        write_file(output, lock.data)
        click.echo(f"wrote {output} ({chosen_format.value})", err=True)
        print_note(_unusual_name(output, chosen_format))
    if as_json:
        print_canonical_json(answered.report)
    elif lock is not None and output is None:
        click.echo(lock.data.decode(), nl=False)
    else:
        fetch = True if known.fetches else False if options["fetch"] is False else None
        texts = {it.message(): it.message(fetch) for it in answered.known.unread}
        if missing := missing_packages(advice.request, advice.snapshot):
            texts[missing.message()] = missing.message(fetch)
        print_report(answered.report, texts, verbose=verbose)
    if advice.best is None:
        context.exit(3 if answered.unread else 1)
    if applied is not None and not _apply(*applied, advice, advice.best, options):
        context.exit(1)


def _check_options(output: Path | None, options: Mapping[str, Any]) -> None:
    """:raises InvalidArgument: naming the options that contradict each other"""
    if options["applies"] and (output is not None or options["lock_format"] is not None):
        raise click.UsageError("--apply writes the project's own lock: leave out -o and --format")
    if options["dry_run"] and not options["applies"]:
        raise click.UsageError("--dry-run is for --apply")
    if output is not None:
        keep_manifest(output, any_name=options["lock_format"] is not None)


def _apply(
    tool: LockTool, lock: Path, advice: Advice, best: ResolvedStack, options: Mapping[str, Any]
) -> bool:
    """Show how the lock changes, and let its tool write it.

    :returns: whether the lock has the advised versions, or the tool would be asked for these
    """
    versions, where = best.versions(), advice.request.environment
    selection = lock_selection(options)
    locked = read_lock_file(lock, selection, where.markers).packages(where.markers)
    before = {name: it.version for name, it in locked.items()}
    # A package that the advice lacks may belong to a group that nobody asked for.
    changes = [it for it in changes_between(before, versions) if it.new is not None]
    if not changes:
        click.echo(f"{lock} has the advised versions already", err=True)
        return True
    if options["dry_run"]:
        show_changes(tool, changes)
        return True
    return write_with_tool(lock, tool, lock_again(tool, lock, changes, selection, where), versions)


def format_of(output: Path | None, project: Project) -> str:
    """The format that the file name indicates; by default, the format of the project's tool."""
    if output is not None and (named := lock_format_of(output.name)) is not None:
        return named
    return "pipfile-lock" if project.format is ProjectFormat.PIPFILE else "requirements"


def _unusual_name(output: Path, lock_format: LockFormat) -> str | None:
    """A note for a file whose name usually indicates another format."""
    if lock_format is LockFormat.PYLOCK and not is_pylock(output.name):
        return "installers accept this lock only as pylock.toml or pylock.NAME.toml"
    usual = _USUAL_FORMATS.get(output.suffix)
    if usual is not None and lock_format.value not in usual:
        return f"{output.name} is {lock_format.value}; its name usually means {' or '.join(usual)}"
    return None


@click.command()
@click.argument("report", type=_FILE)
@click.option("--snapshot", type=_FILE, help="Snapshot that `thoth replay --known` wrote,"
              " for advice that is not recorded here.")  # fmt: skip
@click.option("--evidence", type=_FILE, help="Evidence that `thoth replay --known` wrote,"
              " for advice that is not recorded here.")  # fmt: skip
@as_json_option
@click.pass_context
def check(
    context: click.Context,
    report: Path,
    snapshot: Path | None,
    evidence: Path | None,
    as_json: bool,
) -> None:
    """Verify a report of advice.

    Every value of REPORT is compared with the recorded report. The stacks in REPORT are checked
    again on the recorded snapshot, without the solver: they must meet the request and have the
    reported score. For advice that is not recorded here, the command lists what could be verified.
    A file of `thoth fix --proof` is checked by itself.
    Exit code 1 if something is wrong; 2 if nothing is wrong, but not everything could be verified.
    """
    settings: Settings = context.obj
    with refusing_files():
        if (proof := fix_proof_in(report.read_bytes())) is not None:
            document_id, checked, stacks = proof["model"], check_fix_proof(proof), "1 fix"
        else:
            document = read_report(report)
            document_id = document["metadata"]["document_id"]
            stacks = counted(len(document["result"]["report"]["products"]), "stack")
            known = (
                None if snapshot is None else Snapshot.from_json(unrepeated(snapshot)),
                None if evidence is None else Evidence.from_json(unrepeated(evidence)),
            )
            with migrated_stores(settings, graph=False) as stores:
                checked = check_recorded(stores, document, *known)
    if as_json:
        print_canonical_json({"report": document_id, **plain(checked)})
    else:
        print_lines(checked.problems)
        if checked.unverified:
            verified = () if checked.problems else checked.verified
            print_lines(f"verified: {text}" for text in verified)
            print_lines(f"not verified: {text}" for text in checked.unverified)
        elif not checked.problems:
            click.echo(f"the report is correct: {stacks} verified")
    context.exit(1 if checked.problems else 2 if checked.unverified else 0)


@click.command()
@click.argument("advice_id", metavar="ADVICE-ID")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True,
              help="Number of solver threads.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the new report.")
@click.option("-o", "--output", type=_OUTPUT, help="Write the new report to a file.")
@click.option("--known", "folder", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Write snapshot.json and evidence.json into a folder, for `thoth check` on"
              " another machine.")  # fmt: skip
@click.pass_context
def replay(
    context: click.Context,
    advice_id: str,
    threads: int,
    as_json: bool,
    output: Path | None,
    folder: Path | None,
) -> None:
    """Answer a recorded request again and compare the reports.

    The new report must equal the recorded report byte for byte, unless the search ended at its
    limit, or another version of the solver or of thoth is used now. Exit code 1 if the reports
    differ.
    """
    settings: Settings = context.obj
    keep_project_files([output], [])
    with migrated_stores(settings, graph=False) as stores:
        stored = stored_advice(stores, advice_id)
    advice, report = replay_stored(stored, threads)
    same = report == stored.report
    if output is not None:
        write_file(output, report + b"\n")
    if folder is not None:
        write_file(folder / "snapshot.json", stored.snapshot)
        write_file(folder / "evidence.json", stored.evidence)
    if as_json:
        click.echo(report + b"\n", nl=False)
    elif same:
        click.echo(f"the same {len(report)} bytes, result {stored.head.result_digest}")
    if not same:
        reason = why_it_may_differ(stored, advice)
        explanation = f": {reason}, so the answer may differ" if reason else ""
        click.echo(f"the report differs from the recorded one{explanation}", err=True)
    context.exit(0 if same else 1)


def print_report(
    report: Mapping[str, Any], texts: Mapping[str, str] = {}, *, verbose: bool = False
) -> None:
    """Print all stacks of a report, or the conflict of a failure, as :func:`report_parts` does."""
    for part in report_parts(report, texts, verbose=verbose):
        if isinstance(part, Table):
            part.print()
        else:
            print_text(part)


def report_parts(
    report: Mapping[str, Any], texts: Mapping[str, str], *, verbose: bool = False
) -> Iterator[Table | Styled]:
    """The tables and lines of a report.

    :param texts: what to print instead of messages of notes, because it fits the options better
    :param verbose: also the score, the certificate, the claims about the best stack, and which
        measured stack is nearest to it
    """
    result = report["result"]
    inner = result["report"]
    products = inner["products"]
    # Reports of earlier versions have no summary.
    if summary := inner.get("summary"):
        yield Styled(shown(summary), "bold")
        yield Styled("", "")
    for number, product in enumerate(products, 1):
        # Notes without a package are about the stack, such as that nothing needs to change.
        yield from (_note(it) for it in product["justification"] if "package_name" not in it)
        yield packages_table(product, f"Stack {number}" if len(products) > 1 else "")
        yield Styled("", "")
        if verbose:
            yield _score(product)
            yield Styled("", "")
    for note in _with_missing_counted(inner["stack_info"]):
        if note.get("code") != "conflict":
            yield _note({**note, "message": texts.get(note["message"], note["message"])})
    if verbose and products:
        lines = (*coverage_lines(products[0]["coverage"]), *claim_lines(report))
        yield from (Styled(shown(line), "") for line in lines)
    if inner["conflict"] is not None:
        yield Styled("", "")
        read = " of the versions that were read" if inner["search"].get("unavailable") else ""
        yield Styled(f"No stack{read} meets the request:", "red")
        yield from (Styled(shown(line), "") for line in inner["conflict"]["lines"])
    elif result["error"]:
        yield Styled(f"error: {shown(result['error_msg'])}", "red")
    yield Styled("", "")
    yield Styled(certificate_line(report) if verbose else _proof(report), "")


def _with_missing_counted(notes: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The notes, with a single one for many missing packages."""
    missing = [it for it in notes if it.get("code") == "package_missing"]
    if len(missing) <= _MOST_MISSING:
        yield from notes
        return
    for note in notes:
        if note is missing[0]:
            names = first_few([it["package_name"] for it in missing], _MOST_MISSING)
            message = f"{len(missing)} required packages are missing: {names}"
            yield {"type": note["type"], "message": message}
        elif note.get("code") != "package_missing":
            yield note


def packages_table(product: Mapping[str, Any], title: str = "") -> Table:
    """One row for each package: your version, the advised version, and the reason."""
    yours_known = any(package["yours"] for package in product["packages"])
    versions = [Column("yours"), Column("advised")] if yours_known else [Column("advised")]
    table = Table([Column("package"), *versions, Column("why", wraps=True)], title)
    notes: dict[str, list[str]] = {}
    for note in product["justification"]:
        if "package_name" in note and (note["type"] != "INFO" or note.get("code") in _ROW_NOTES):
            notes.setdefault(note["package_name"], []).append(note["message"])
    for package in product["packages"]:
        why = _why(package["why"])
        release = f"{package['name']} {package['version']}"
        remarks = (remark_of(it, release, why) for it in notes.get(package["name"], ()))
        reason = "; ".join([why, *filter(None, remarks)])
        changed = yours_known and package["yours"] != package["version"]
        yours = [package["yours"] or "–"] if yours_known else []
        advised = Styled(package["version"], "bold" if changed else "")
        table.add(_name(package), *yours, advised, shown(reason))
    return table


def _name(package: Mapping[str, Any]) -> str:
    """The name with its extras; many extras take several lines, so that the reasons have room."""
    if not package["extras"]:
        return str(package["name"])
    lines = [f"{package['name']}["]
    for number, extra in enumerate(package["extras"]):
        text = extra if number == len(package["extras"]) - 1 else f"{extra},"
        if number and len(lines[-1]) + len(text) > _NAME_WIDTH:
            lines.append("  ")
        lines[-1] += text
    return "\n".join(lines) + "]"


def _score(product: Mapping[str, Any]) -> Table | Styled:
    """The criteria; one line if no known value distinguishes versions."""
    values = (it for row in product["criteria"] for it in (row["value"], row["contribution"]))
    if product["score"] or any(values):
        table = Table(
            [
                Column("criterion"), Column("weight", right=True), Column("value", right=True),
                Column("contribution", right=True), Column("unit", wraps=True),
            ],
            caption=_SCORE_EXPLAINED,
        )  # fmt: skip
        for criterion in product["criteria"]:
            table.add(
                criterion["name"], f"{criterion['weight']:g}",
                "unknown" if criterion["value"] is None else _decimal(criterion["value"], 3),
                _decimal(criterion["contribution"], 4), criterion["unit"],
            )  # fmt: skip
        score = Styled(_decimal(product["score"], 4), "bold")
        table.add(Styled("score", "bold"), "", "", score, "points")
        return table
    unknown = [row["name"] for row in product["criteria"] if row["value"] is None]
    but = f" but {', '.join(unknown)}, which is unknown" if unknown else ""
    return Styled(f"score: 0 points, all criteria are 0{but}", "")


def _decimal(value: float, digits: int) -> str:
    """A number with this number of decimal places; ``0`` if it rounds to zero.

    >>> _decimal(1.5, 3), _decimal(-0.0001, 3)
    ('1.500', '0')
    """
    return f"{value:.{digits}f}" if round(value, digits) else "0"


def claim_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The claims about the best stack and about newer versions, with their identifiers."""
    product = report["result"]["report"]["products"][0]
    reasons = (claim for package in product["packages"] for claim in package["why"]["claims"])
    claims = {it["claim_id"]: it for it in (*product["claims"], *reasons)}
    for claim_id, claim in claims.items():
        ours, theirs = (claim[it].rpartition("@")[2] for it in ("purl", "baseline_purl"))
        low, high = claim["interval_low_pct"], claim["interval_high_pct"]
        interval = "" if low is None else f", 95 % interval {low:+.1f} to {high:+.1f} %"
        origin = claim.get("origin")
        whose = f", measured by others: pack {origin['name']}" if origin else ""
        yield (
            f"claim {claim_id.removeprefix('sha256:')[:8]}: {claim['package']} {ours} against"
            f" {theirs} in {claim['indicator']}: {claim['verdict']}{interval}{whose}"
        )
    if claims:
        advice_id = report["metadata"]["document_id"]
        yield f"`thoth explain {advice_id}/CLAIM` shows what a claim rests on"


def coverage_lines(coverage: Mapping[str, Any]) -> Iterator[str]:
    """Describe measurements of other stacks, and measurements on other hardware."""
    if elsewhere := coverage["measured_elsewhere"]:
        packages = "package was" if elsewhere == 1 else "packages were"
        yield f"coverage: {elsewhere} more {packages} measured on other hardware"
    nearest = coverage["nearest"]
    if nearest is None:
        return
    count = len(nearest["differences"])
    jobs = counted(nearest["jobs"], "stable job")
    jobs += f" on {nearest['hardware_label']}"
    if not count:
        yield f"coverage: this stack was measured: {jobs}"
        return
    names = [
        f"{it['name']} {it['theirs'] or 'none'} instead of {it['ours'] or 'none'}"
        for it in nearest["differences"][:_MOST_DIFFERENCES]
    ]
    names += ["…"] * (count > _MOST_DIFFERENCES)
    packages = counted(count, "package")
    yield (
        f"coverage: the nearest measured stack has {jobs} and differs in {packages}: "
        + ", ".join(names)
    )


def _proof(report: Mapping[str, Any]) -> str:
    """The result of the proof, and the identifier of the advice."""
    inner = report["result"]["report"]
    scope = _scope(inner["search"])
    unknown = "the limit was reached before anything was proven"
    if inner["conflict"] and (unread := inner["search"].get("unavailable")):
        not_read = counted(unread, "package or version was", "packages and versions were")
        unknown = f"nothing is proven: {not_read} not read"
    proven = {
        "optimal": f"proven: no stack that meets the request ranks higher{scope}",
        "feasible": "the best stack found within the limits; a better one may exist",
        "infeasible": f"proven: no stack meets the request{scope or _known(inner['search'])}",
    }.get(inner["certificate"]["status"], unknown)
    if inner.get("premises", {}).get("slower_stacks"):
        proven = proven.replace("no stack", "no stack without a settled slow-down")
    identifier = report["metadata"].get("document_id")
    return "; ".join([proven, *([identifier] if identifier else [])])


def _known(search: Mapping[str, Any]) -> str:
    known = search["candidates"] + search["excluded"]
    return " among the one known version" if known == 1 else f" among the {known} known versions"


def certificate_line(report: Mapping[str, Any]) -> str:
    """``optimal: score -0.5421 = bound; model …, snapshot …, ortools 9; in 21 ms``."""
    certificate = report["result"]["report"]["certificate"]
    objective, bound = (
        _points(certificate[key], certificate["scale"]) for key in ("objective", "bound")
    )
    gaps = zip(certificate["levels"], certificate["gap"] or (), strict=False)
    level = next((name for name, gap in gaps if gap), certificate["levels"][0])
    scope = _scope(report["result"]["report"]["search"])
    if certificate["status"] == "optimal":
        status = f"optimal{scope}: score {objective} = bound"
    elif certificate["status"] == "feasible":
        status = f"feasible: score {objective}, proven bound {bound}, first gap in {level}"
    elif certificate["status"] == "infeasible":
        status = f"infeasible{scope or _known(report['result']['report']['search'])}"
    else:
        status = certificate["status"]
    search_s = report["metadata"].get("timings", {}).get("search_s")
    # A search that ended early may have neither a model nor a solver.
    made_of = [
        *([f"model {_short(certificate['model'])}"] if certificate["model"] else []),
        f"snapshot {_short(certificate['snapshot'])}",
        *([certificate["solver"]] if certificate["solver"] else []),
    ]
    parts = [
        status,
        ", ".join(made_of),
        *([f"in {search_s * 1000:.0f} ms"] if search_s is not None else []),
        *([report["metadata"]["document_id"]] if "document_id" in report["metadata"] else []),
    ]
    return "; ".join(parts)


def _scope(search: Mapping[str, Any]) -> str:
    """`` over 14,212 listed versions of 70 packages (96 read)``; empty if all were read."""
    unavailable = search.get("unavailable", 0)
    if search["read"] == search["candidates"] and not unavailable:
        return ""
    packages = counted(search["packages"], "package")
    read = f"{search['read']:,} read"
    if likely := search.get("likely"):
        read += f", {likely:,} with likely requirements"
    if unavailable:
        read += f", {unavailable:,} could not be read"
    versions = counted(search["candidates"], "listed version")
    return f" over {versions} of {packages} ({read})"


def _points(levels: list[int] | None, scale: int) -> str:
    """Format the sum of the levels of a score without rounding, so that sums can be checked."""
    return "?" if levels is None else f"{sum(levels) / scale:.4f}"


def _why(why: Mapping[str, Any]) -> str:
    """Return the reason for a version, with vulnerabilities of the newer one."""
    if why["code"] != "scores_better":
        return str(why["message"])
    vulnerabilities = why.get("vulnerabilities", ())
    more = [f"and {len(vulnerabilities) - _MOST_VULNERABILITIES} more vulnerabilities"] * (
        len(vulnerabilities) > _MOST_VULNERABILITIES
    )
    return "; ".join([str(why["message"]), *vulnerabilities[:_MOST_VULNERABILITIES], *more])


def _note(note: Mapping[str, Any]) -> Styled:
    return Styled(f"{note['type'].lower()}: {shown(note['message'])}", _STYLES[note["type"]])


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
