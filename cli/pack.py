"""``thoth pack``: evidence packs, which carry measurements to others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from adviser.packs.envelope import Assurance, public_fingerprint, read_private_key
from adviser.packs.pack_files import Pack, opened
from adviser.packs.trust import PackTrust, evidence_pack, read_policy, trust_of
from cli.console import Column, Table, moment_text, print_field, print_json, progress_bars
from cli.help_pages import CommandGroup
from cli.options import NamedPath, as_json_option, pack_argument
from cli.pack_store import add, again, follow, index, list_packs, remove, unfollow
from cli.project_files import write_file
from cli.request_options import moment
from common.settings import Settings
from model.declared_fields import document_of
from model.errors import InvalidArgument, InvalidPack, Reason
from model.json_documents import as_json_time
from model.packages.identity import distributions_of
from model.text import counted, printable

_KEY = NamedPath(exists=True, dir_okay=False, path_type=Path)


#: Number of repetitions that tables show.
_FIRST_SAMPLES = 6


@click.group(cls=CommandGroup)
def pack() -> None:
    """Build, verify, add and follow packs, which carry measurements to others."""


for command in (add, list_packs, remove, follow, unfollow, index, again):
    pack.add_command(command)


def _licence(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else canonicalize_license_expression(value)
    except InvalidLicenseExpression as error:
        raise click.BadParameter(str(error), context, option) from None


@pack.command()
@click.argument("target", type=NamedPath(path_type=Path), metavar="DIR")
@click.option("--indicator", "indicators", multiple=True, metavar="NAME",
              help="Only this indicator, such as PiMatmul; repeatable.")  # fmt: skip
@click.option("--package", "packages", multiple=True, metavar="NAME",
              help="Only stacks with this package; repeatable.")  # fmt: skip
@click.option("--hardware", multiple=True, metavar="DIGEST",
              help="Only classes whose digest begins so; repeatable.")  # fmt: skip
@click.option("--since", metavar="WHEN", help="Only jobs since this date, time or number of days.")
@click.option("--name", help="Name for people; by default that of DIR.")
@click.option("--licence", metavar="SPDX", callback=_licence,
              help="What others may do with it, such as CC-BY-4.0.")  # fmt: skip
@click.option("--replace", is_flag=True, help="Replace an earlier pack.")
@as_json_option
@click.pass_obj
def build(settings: Settings, /, target: Path, *, as_json: bool, **options: Any) -> None:
    """Write measurements of the record as an evidence pack.

    DIR is a new folder, or a new archive if its name ends with .tar. Commands and scripts of your
    own are left out unless --indicator names them, as are stacks with packages of an index without
    a name. Nothing in a pack names a machine.
    """
    from adviser.packs.pack_building import build_pack
    from graph.record.exported_rows import ExportSelection
    from ingest.record import open_record

    selection = ExportSelection(
        options["indicators"],
        tuple(map(canonicalize_name, options["packages"])),
        tuple(it if ":" in it else f"sha256:{it}" for it in options["hardware"]),
        moment(options["since"], datetime.now(UTC), "--since"),
    )
    with open_record(settings) as engine, progress_bars(hidden=as_json) as bars:
        built = build_pack(
            engine, settings, target, selection,
            name=options["name"], licence=options["licence"],
            replacing=options["replace"], progress=bars.update,
        )  # fmt: skip
    _print_pack(built, as_json)


@pack.command()
@click.argument("path", type=NamedPath(exists=True, path_type=Path), metavar="PACK")
@click.option("--key", type=_KEY, required=True, metavar="FILE",
              help="Private Ed25519 key in PEM.")  # fmt: skip
@click.option("--assurance", type=click.Choice([it.value for it in Assurance]), show_default=True,
              default=Assurance.SELF_ATTESTED.value,
              help="Who vouches for the measurements.")  # fmt: skip
@as_json_option
def sign(path: Path, key: Path, assurance: str, as_json: bool) -> None:
    """Sign a pack, and replace an earlier signature."""
    from adviser.packs.pack_building import sign_pack

    signed = sign_pack(path, read_private_key(key), Assurance(assurance))
    _print_pack(signed, as_json)


@pack.command()
@pack_argument
@click.option("--key", "keys", multiple=True, metavar="PUB", type=_KEY,
              help="Public key in PEM that must have signed it, or one of several.")  # fmt: skip
@as_json_option
def verify(path: Path, keys: tuple[Path, ...], as_json: bool) -> None:
    """Verify a pack: its files, its signature, and that its tables fit together.

    Without PACK, the one that ships. Exit code 2 if the pack is refused. A valid signature shows
    who made the pack; whether its measurements decide is up to the trust policy.
    """
    from adviser.packs.pack_contents import check_contents

    expected = {public_fingerprint(it) for it in keys}
    with progress_bars(hidden=as_json) as bars:
        verified = opened(path, partial(bars.update, "Bytes compared"))
        check_contents(verified, partial(bars.update, "Measurements compared"))
    if expected and verified.key not in expected:
        by = "is not signed" if verified.key is None else f"is signed with the key {verified.key}"
        raise InvalidPack(
            Reason.TAMPERED, by, place=str(path), hint="give the public key of its source"
        )
    _print_pack(verified, as_json)


@pack.command()
@pack_argument
@click.option("--samples", "observations", multiple=True, metavar="ID",
              help="Show the repetitions of this observation instead; repeatable.")  # fmt: skip
@as_json_option
@click.pass_obj
def show(settings: Settings, path: Path, observations: tuple[str, ...], as_json: bool) -> None:
    """Show what is in a pack, who signed it, and whether the trust policy lets it decide.

    Without PACK, the one that ships. The JSON of `guard` and `compare` names the observations
    behind each claim.
    """
    shown, policy = opened(path), read_policy(settings)
    if observations:
        _print_samples(shown, observations, as_json)
        return
    about = evidence_pack(shown.manifest, shown.key, policy, datetime.now(UTC).date())
    _print_pack(shown, as_json, trust_of(about, policy))


@pack.command()
@pack_argument
@click.option("--html", type=NamedPath(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the report to this HTML file, with plots.")  # fmt: skip
@click.option("--markdown", type=NamedPath(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the report to this Markdown file.")  # fmt: skip
@as_json_option
def report(path: Path, html: Path | None, markdown: Path | None, as_json: bool) -> None:
    """Show what changed between the measured releases of each library of a pack.

    All comparisons are judged here, from the samples, as one family; by default those of the pack
    that ships. Without --html, --markdown and --json, the report is printed as Markdown.
    """
    from adviser.packs.pack_report import pack_report, report_document, report_markdown
    from api.pages.report_view import pack_report_file

    made = pack_report(opened(path))
    if html is not None:
        write_file(html, pack_report_file(made).encode())
    if markdown is not None:
        write_file(markdown, report_markdown(made).encode())
    if as_json:
        print_json(report_document(made))
    elif html is None and markdown is None:
        click.echo(report_markdown(made), nl=False)


def _print_samples(pack: Pack, observations: Sequence[str], as_json: bool) -> None:
    columns = ("observation_id", "stack_digest", "component", "ended_at", "job_id")
    rows = pack.rows("observations", columns, observation_id=observations)
    if unknown := set(observations) - {it["observation_id"] for it in rows}:
        raise InvalidArgument(f"{pack.path}: the pack has no observation {min(unknown)}")
    samples: dict[str, list[float]] = defaultdict(list)
    for row in pack.rows("samples", ("observation_id", "duration_s"), observation_id=observations):
        samples[row["observation_id"]].append(row["duration_s"])
    digests = {it["stack_digest"] for it in rows}
    stacks = pack.rows("stacks", ("stack_digest", "name", "version"), stack_digest=digests)
    versions = {(it["stack_digest"], it["name"]): it["version"] for it in stacks}
    for row in rows:
        named = ((row["stack_digest"], it) for it in distributions_of(row["component"]))
        row["version"] = next((versions[it] for it in named if it in versions), None)
        row["samples_s"] = samples[row["observation_id"]]
    rows.sort(key=lambda it: (str(it["version"]), str(it["ended_at"])))
    if as_json:
        print_json([{**it, "ended_at": as_json_time(it["ended_at"])} for it in rows])
        return
    table = Table([
        Column("stack"), Column("job ended"), Column("samples", right=True),
        Column("median", right=True), Column("seconds, in order", wraps=True),
    ])  # fmt: skip
    for row in rows:
        seconds = row["samples_s"]
        first = " ".join(f"{it:.3g}" for it in seconds[:_FIRST_SAMPLES])
        table.add(
            printable(" ".join(filter(None, (row["component"], row["version"])))),
            moment_text(row["ended_at"]) if row["ended_at"] else "–", str(len(seconds)),
            f"{median(seconds):.4g}" if seconds else "–",
            first + " …" * (len(seconds) > _FIRST_SAMPLES),
        )  # fmt: skip
    table.print()


def _print_pack(pack: Pack, as_json: bool, trust: PackTrust | None = None) -> None:
    manifest = pack.manifest
    if as_json:
        print_json({
            "digest": pack.digest, "key": pack.key, "assurance": pack.assurance,
            "manifest": document_of(manifest), **(trust._asdict() if trust else {}),
        })  # fmt: skip
        return
    signed = f"{pack.key} ({pack.assurance})" if pack.key else "nobody signed it"
    measured = sum(it.measurements for it in manifest.scripts)
    versions, classes = counted(len(manifest.wheels), "package version"), manifest.hardware
    for label, text in (
        ("pack", f"{manifest.name}, licence {manifest.licence or 'unknown'}"),
        ("digest", pack.digest),
        ("signed", signed),
        *([("trust", trust.reason)] if trust else []),
        ("measured", f"until {manifest.measured_until:%Y-%m-%d}, "
         f"{counted(manifest.session_count, 'session')}"),
        ("content", f"{counted(measured, 'measurement')}, {versions}"),
        *(("hardware", f"{it.label} ({it.digest[7:15]})") for it in classes),
    ):  # fmt: skip
        print_field(label, printable(text))
    table = Table([Column("indicator"), Column("library"), Column("measurements", right=True)])
    for it in manifest.scripts:
        table.add(it.name, it.component or "–", f"{it.measurements:,}")
    table.print()
