"""``thoth explain``: everything that a claim of an advice rests on."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import click

from adviser.answering.recorded_advice import ExplainedClaim, explained_claim, repetitions_of
from adviser.claim_details import ClaimDetails, PartialEffect, sentences
from adviser.stack_comparison import short_digest
from cli.console import (
    Column,
    Table,
    moment_text,
    print_canonical_json,
    print_field,
    print_lines,
    print_note,
    shown,
)
from cli.options import as_json_option
from common.settings import Settings
from graph.migrate import migrated_stores
from model.errors import InvalidArgument
from model.measurements.units import DISPLAY_UNITS

#: Maximum number of other contexts that are printed.
_MOST_CONTEXTS = 20


@click.command()
@click.argument("claim", metavar="[ADVICE/]CLAIM")
@click.option("--samples", is_flag=True, help="Also show every job with its raw repetitions.")
@as_json_option
@click.pass_obj
def explain(settings: Settings, claim: str, samples: bool, as_json: bool) -> None:
    """Show what a claim of an advice rests on.

    CLAIM is the start of a claim's identifier, which `thoth advise --verbose` and reports show.
    ADVICE is the identifier of the advice; without it, the newest advice with the claim is used.
    The command computes the claim again from the recorded evidence, and shows every pair of jobs,
    the effects of single hosts and inspections, the same versions in other stacks, the jobs left
    out, and the share of the error rate.
    """
    advice_id, _, start = claim.rpartition("/")
    if not start:
        raise InvalidArgument("CLAIM: the identifier is empty")
    repetitions = None
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        explained = explained_claim(connection, settings, start, advice_id or None)
        if samples:
            repetitions = repetitions_of(connection, explained.details)
    if explained.author is not None:
        print_note(f"Thoth {explained.author} wrote the advice; this version computes other values")
    if as_json:
        more = {} if repetitions is None else {"samples": repetitions}
        print_canonical_json({**explained.document(), **more})
    else:
        _print(explained, repetitions)


def _print(explained: ExplainedClaim, repetitions: Mapping[str, Sequence[float]] | None) -> None:
    details, claim = explained.details, explained.details.claim
    print_lines(sentences(details, hardware_named=explained.hardware_named))
    click.echo()
    differences = (
        f"{it.name} {it.ours or 'none'} instead of {it.theirs or 'none'}"
        for it in details.differences
    )
    parameters = ", ".join(f"{name}={claim.parameters[name]}" for name in sorted(claim.parameters))
    for label, text in (
        ("advice", explained.advice_id),
        ("candidate", claim.stack),
        ("baseline", claim.baseline_stack),
        ("differs", ", ".join(differences)),
        ("indicator", f"{claim.indicator} ({parameters})"),
        ("series", claim.comparison_key),
        ("hardware", f"{claim.hardware_label} ({short_digest(claim.hardware_digest)})"),
        ("python", claim.python_version or "unknown"),
    ):
        print_field(label, shown(text))
    tables = [*_effect_tables(details), *([_pairs_table(details)] if details.pairs else [])]
    if details.jobs and (repetitions is not None or not details.pairs):
        tables.append(_jobs_table(details, repetitions))
    for table in tables:
        click.echo()
        table.print()


def _effect_tables(details: ClaimDetails) -> Iterator[Table]:
    """Effects by host, by inspection and in other contexts."""
    if len(details.hosts) > 1:
        yield _effect_table("By host", "host", [(_short(it.hosts), it) for it in details.hosts])
    if details.inspections:
        inspections = [
            (f"{_short(it.documents)} and {_short(it.baseline_documents)}", it)
            for it in details.inspections
        ]
        yield _effect_table("By inspection", "candidate and baseline", inspections)
    if contexts := details.contexts:
        rows = [(", ".join(it.differs), it) for it in contexts[:_MOST_CONTEXTS]]
        table = _effect_table("In other contexts", "other packages that differ", rows)
        if more := len(contexts[_MOST_CONTEXTS:]):
            table.caption = f"{more} more: --json lists all."
        yield table


def _effect_table(title: str, name: str, rows: Sequence[tuple[str, PartialEffect]]) -> Table:
    table = Table(
        [Column(name, wraps=True), Column("last job"), Column("jobs", right=True),
         Column("method"), Column("difference", right=True), Column("95 % interval", right=True)],
        title,
    )  # fmt: skip
    for label, part in rows:
        effect, known = part.effect, part.effect.degrees_of_freedom > 0
        interval = f"{effect.interval_low_pct:+.1f} to {effect.interval_high_pct:+.1f} %"
        table.add(
            label, _when(part.ended_at), f"{part.jobs} and {part.baseline_jobs}", part.method,
            f"{effect.observed_pct:+.1f} %", interval if known else "unknown",
        )  # fmt: skip
    return table


def _pairs_table(details: ClaimDetails) -> Table:
    unit, factor = _unit(details)
    table = Table(
        [Column("turn"), Column("host"), Column("last job"),
         Column(f"candidate, {unit}", right=True), Column(f"baseline, {unit}", right=True),
         Column("difference", right=True)],
        "Pairs",
    )  # fmt: skip
    for pair in details.pairs:
        table.add(
            (pair.block or "").rpartition(":")[2], _short([pair.host]), _when(pair.ended_at),
            f"{pair.rate / factor:,.2f}", f"{pair.baseline_rate / factor:,.2f}",
            f"{pair.difference_pct:+.1f} %",
        )  # fmt: skip
    return table


def _jobs_table(details: ClaimDetails, repetitions: Mapping[str, Sequence[float]] | None) -> Table:
    unit, factor = _unit(details)
    samples = [] if repetitions is None else [Column("repetitions, ms", wraps=True)]
    table = Table(
        [Column("observation"), Column("inspection"), Column("of"), Column("ended"),
         Column(unit, right=True), *samples],
        "Jobs",
    )  # fmt: skip
    for job in details.jobs:
        side = "candidate" if job.stack == details.claim.stack else "baseline"
        row = [_short([job.document_id]), side, _when(job.ended_at), f"{job.rate / factor:,.2f}"]
        for observation in job.observations:
            texts = []
            if repetitions is not None:
                durations = repetitions.get(observation, ())
                texts = [" ".join(f"{1000 * it:.4g}" for it in durations) or "not recorded"]
            table.add(_short([observation]), *row, *texts)
    return table


def _short(identifiers: Sequence[str | None]) -> str:
    return ", ".join(short_digest(it) for it in identifiers if it) or "unknown"


def _when(moment: datetime | None) -> str:
    return moment_text(moment) if moment else "unknown"


def _unit(details: ClaimDetails) -> tuple[str, float]:
    """The name of the unit in which rates are shown, and its factor."""
    unit = DISPLAY_UNITS[details.claim.unit]
    return unit.name, unit.factor
