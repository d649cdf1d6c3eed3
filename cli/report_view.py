"""Output of a report of advice on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adviser.reports.note_codes import remark_of
from adviser.reports.unfetched_versions import fetch_hint
from cli.console import Column, Styled, Table, print_text, shown
from model.text import counted, first_few

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
    "version contributes 0. Newness is weighed last, that of direct requirements first: "
    "docs/reference/recommendation-types.md"
)


def print_report(
    report: Mapping[str, Any],
    *,
    fetched: bool = False,
    offline: bool = False,
    verbose: bool = False,
) -> None:
    """Print all stacks of a report, or the conflict of a failure.

    :param fetched: whether indexes were just asked, so that no note suggests it
    :param offline: whether the request was not to ask them, so that notes suggest to omit that
    :param verbose: also print the score, the certificate, the claims about the best stack, and
        which measured stack is nearest to it
    """
    for part in report_parts(report, fetched=fetched, offline=offline, verbose=verbose):
        if isinstance(part, Table):
            part.print()
        else:
            print_text(part)


def report_parts(
    report: Mapping[str, Any],
    *,
    fetched: bool = False,
    offline: bool = False,
    verbose: bool = False,
) -> Iterator[Table | Styled]:
    """The tables and lines of a report; the parameters are those of :func:`print_report`."""
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
    from_indexes = True if fetched else False if offline else None
    for note in _with_missing_counted(inner["stack_info"]):
        if note.get("code") in ("fetch", "unread"):
            fetch = from_indexes if note["code"] == "fetch" or offline else None
            yield _note({**note, "message": fetch_hint(note["message"], fetch=fetch)})
        elif note.get("code") != "conflict":
            yield _note(note)
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
    """The criteria; one line if nothing is known that could tell versions apart by them."""
    values = (it for row in product["criteria"] for it in (row["value"], row["contribution"]))
    if product["score"] or any(values):
        return criteria_table(product)
    unknown = [row["name"] for row in product["criteria"] if row["value"] is None]
    but = f" but {', '.join(unknown)}, which is unknown" if unknown else ""
    return Styled(f"score: 0 points, all criteria are 0{but}", "")


def criteria_table(product: Mapping[str, Any]) -> Table:
    """Criteria with weight, value and contribution to the score."""
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


def _decimal(value: float, digits: int) -> str:
    """A number with so many decimal places; ``0`` if it rounds to zero.

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
    """What was proven, and the identifier of the advice."""
    inner = report["result"]["report"]
    scope = _scope(inner["search"])
    proven = {
        "optimal": f"proven: no stack that meets the request ranks higher{scope}",
        "feasible": "the best stack that was found before a limit; not proven",
        "infeasible": f"proven: no stack meets the request{scope or _known(inner['search'])}",
    }.get(inner["certificate"]["status"], "nothing was proven before a limit")
    if inner.get("premises", {}).get("slower_stacks"):
        proven = proven.replace("no stack", "no stack that is not settled to be slower")
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
        status = f"feasible: score {objective}, bound {bound}, open in {level}"
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
        read += f", the requirements of {likely:,} only likely"
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
