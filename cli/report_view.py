"""A report for a person's terminal: what to install, why, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from adviser.reports.unfetched_versions import without_fetch_hint
from common.terminal import printable

#: Notes that are told in the row of their package although they warn of nothing.
_TOLD = frozenset({"performance_faster", "performance_equivalent"})
_STYLES = {"INFO": "dim", "WARNING": "yellow", "ERROR": "red"}
#: Of the measurements of a version that was not chosen as many are told; of its vulnerabilities.
_MEASURED, _VULNERABLE = 2, 2
#: Of the packages in which the nearest measured stack differs as many are named.
_DIFFERENCES = 10
#: Characters of one message; texts of packages may be long.
_LIMIT = 500


def report_view(
    report: Mapping[str, Any], *, fetched: bool = False, verbose: bool = False
) -> RenderableType:
    """All of a report, each stack after the other; of a failure its conflict.

    :param verbose: also which measured stack is nearest to the best one
    :param fetched: whether what it lacks was asked for just now, so that nobody is told to
    """
    result = report["result"]
    inner = result["report"]
    parts: list[RenderableType] = []
    for number, product in enumerate(inner["products"], 1):
        many = len(inner["products"]) > 1
        # What is of no package is of the stack, such as that there is nothing to change to.
        parts += [_note(it) for it in product["justification"] if "package_name" not in it]
        parts += [packages_table(product, f"Stack {number}" if many else None), ""]
        parts += [criteria_table(product), ""]
    told = [it for it in inner["stack_info"] if it.get("code") != "conflict"]
    parts += [_note(_fetched(it) if fetched else it) for it in told]
    if verbose and inner["products"]:
        parts += [Text(shown(it)) for it in coverage_lines(inner["products"][0]["coverage"])]
    if inner["conflict"] is not None:
        parts += ["", *conflict_lines(inner["conflict"])]
    if result["error"] and inner["conflict"] is None:
        parts.append(Text(f"error: {shown(result['error_msg'])}", "red"))
    parts += ["", Text(certificate_line(report))]
    return Group(*parts)


def packages_table(product: Mapping[str, Any], title: str | None = None) -> Table:
    """One row a package: yours, advised, why."""
    table = _table(title)
    for heading in ("package", "yours", "advised"):
        table.add_column(heading, overflow="fold")
    table.add_column("why", overflow="fold", ratio=1)
    notes: dict[str, list[str]] = {}
    for note in product["justification"]:
        if "package_name" in note and (note["type"] != "INFO" or note.get("code") in _TOLD):
            notes.setdefault(note["package_name"], []).append(note["message"])
    yours_known = any(it["yours"] for it in product["packages"])
    for it in product["packages"]:
        name = f"{it['name']}[{','.join(it['extras'])}]" if it["extras"] else it["name"]
        why = "; ".join([_why(it["why"]), *notes.get(it["name"], ())])
        changed = yours_known and it["yours"] != it["version"]
        table.add_row(
            escape(name),
            it["yours"] or ("–" if yours_known else ""),
            f"[bold]{escape(it['version'])}[/]" if changed else escape(it["version"]),
            escape(shown(why)),
        )
    return table


def criteria_table(product: Mapping[str, Any]) -> Table:
    """Criterion, weight, value, contribution; the last add up to the score."""
    table = _table()
    table.add_column("criterion")
    for heading in ("weight", "value", "contribution"):
        table.add_column(heading, justify="right")
    table.add_column("unit", overflow="fold", ratio=1)
    for it in product["criteria"]:
        table.add_row(
            it["name"],
            f"{it['weight']:g}",
            f"{it['value']:.3f}",
            f"{it['contribution']:.4f}",
            it["unit"],
        )
    table.add_row("[bold]score[/]", "", "", f"[bold]{product['score']:.4f}[/]", "points")
    return table


def conflict_lines(conflict: Mapping[str, Any]) -> Iterator[Text]:
    """The chain, and why each version is out."""
    yield Text("No stack meets the request:", "red")
    for line in conflict["lines"]:
        yield Text(shown(line))


def coverage_lines(coverage: Mapping[str, Any]) -> Iterator[str]:
    """What was measured of other stacks and on other hardware."""
    if elsewhere := coverage["measured_elsewhere"]:
        packages = "package was" if elsewhere == 1 else "packages were"
        yield f"coverage: {elsewhere} more {packages} measured on other hardware"
    nearest = coverage["nearest"]
    if nearest is None:
        return
    count = len(nearest["differences"])
    jobs = f"{nearest['jobs']} stable {'job' if nearest['jobs'] == 1 else 'jobs'}"
    jobs += f" on {nearest['hardware_label']}"
    if not count:
        yield f"coverage: this stack was measured: {jobs}"
        return
    names = [
        f"{it['name']} {it['theirs'] or 'none'} instead of {it['ours'] or 'none'}"
        for it in nearest["differences"][:_DIFFERENCES]
    ]
    names += ["…"] * (count > _DIFFERENCES)
    packages = f"{count} {'package' if count == 1 else 'packages'}"
    yield (
        f"coverage: the nearest measured stack has {jobs} and differs in {packages}: "
        + ", ".join(names)
    )


def certificate_line(report: Mapping[str, Any]) -> str:
    """``optimal: score -0.5421 = bound; model …, snapshot …, ortools 9; in 21 ms``."""
    it = report["result"]["report"]["certificate"]
    objective, bound = (_points(it[key], it["scale"]) for key in ("objective", "bound"))
    if it["status"] == "optimal":
        told = f"optimal: score {objective} = bound"
    elif it["status"] == "feasible":
        told = f"feasible: score {objective}, bound {bound}"
    elif it["status"] == "infeasible":
        search = report["result"]["report"]["search"]
        known = search["candidates"] + search["excluded"]
        versions = "one known version" if known == 1 else f"{known} known versions"
        told = f"infeasible among the {versions}"
    else:
        told = it["status"]
    search_s = report["metadata"].get("timings", {}).get("search_s")
    # A search that ended before it had a model has neither model nor solver.
    made_of = [
        *([f"model {_short(it['model'])}"] if it["model"] else []),
        f"snapshot {_short(it['snapshot'])}",
        *([it["solver"]] if it["solver"] else []),
    ]
    parts = [
        told,
        ", ".join(made_of),
        *([f"in {search_s * 1000:.0f} ms"] if search_s is not None else []),
        *([report["metadata"]["document_id"]] if "document_id" in report["metadata"] else []),
    ]
    return "; ".join(parts)


def _points(parts: int | None, scale: int) -> str:
    """To the last part, so that sums can be followed."""
    return "?" if parts is None else f"{parts / scale:.4f}"


def shown(text: str) -> str:
    """Text of a package or a project for a terminal: no control characters, not endless."""
    return printable(text[:_LIMIT]) + "…" * (len(text) > _LIMIT)


def _why(why: Mapping[str, Any]) -> str:
    """The reason in short, with what decided against the newer version: measurements, harms."""
    if why["code"] != "scores_better":
        return str(why["message"])
    told = [
        f"{why['newer']} ran at {it['observed_pct']:+.1f} % next to the baseline in"
        f" {it['indicator']} ({it['jobs']} and {it['baseline_jobs']} jobs)"
        for it in why.get("claims", ())
        if it["verdict"] != "undetermined" and it.get("beside_baseline", True)
    ]
    harms = why.get("vulnerabilities", ())
    more = [f"and {len(harms) - _VULNERABLE} more vulnerabilities"] * (len(harms) > _VULNERABLE)
    if told[_MEASURED:]:
        told[_MEASURED:] = [f"and {len(told) - _MEASURED} more measurements"]
    return "; ".join([str(why["message"]), *told, *harms[:_VULNERABLE], *more])


def _fetched(note: Mapping[str, Any]) -> Mapping[str, Any]:
    if note.get("code") != "fetch":
        return note
    return {**note, "message": without_fetch_hint(note["message"])}


def _note(note: Mapping[str, Any]) -> Text:
    return Text(f"{note['type'].lower()}: {shown(note['message'])}", _STYLES[note["type"]])


def _table(title: str | None = None) -> Table:
    return Table(
        title=title, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title_justify="left"
    )


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
