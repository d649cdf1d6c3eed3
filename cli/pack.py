"""``thoth pack``: evidence packs, which carry measurements to others."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from adviser.packs.envelope import Assurance, public_fingerprint, read_private_key
from adviser.packs.manifest import parse_manifest
from adviser.packs.pack_files import Pack, opened
from adviser.packs.stored_packs import pack_named, remove_packed
from adviser.packs.trust import PackTrust, TrustPolicy, evidence_pack, read_policy, trust_of
from cli.console import (
    Column,
    Table,
    moment_text,
    print_field,
    print_json,
    print_lines,
    progress_bars,
    shown,
)
from cli.measuring_options import machine_options
from cli.options import CommandGroup, NamedPath, as_json_option, pack_argument
from cli.project_files import keep_project_files, write_file
from cli.request_options import moment
from common.settings import Settings
from graph.record.packs import StoredPack, followed_addresses, stored_packs, unfollow_address
from ingest.record import open_record
from loop.pack_exchange import add_from, follow_packs, pack_address, write_index
from model.declared_fields import document_of
from model.errors import InvalidArgument, InvalidDocument, InvalidPack, Reason
from model.json_documents import as_json_time
from model.packages.identity import distributions_of
from model.redaction import absolute_source
from model.text import counted, printable

_KEY = NamedPath(exists=True, dir_okay=False, path_type=Path)


#: Number of repetitions that tables show.
_FIRST_SAMPLES = 6


@click.group(cls=CommandGroup)
def pack() -> None:
    """Build, verify, add and follow packs, which carry measurements to others."""


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
              help="Only hardware classes whose digest begins with this; repeatable.")  # fmt: skip
@click.option("--since", metavar="WHEN", help="Only jobs since this date, time or number of days.")
@click.option("--name", help="Name of the pack; by default the name of DIR.")
@click.option("--licence", metavar="SPDX", callback=_licence,
              help="Licence of the pack, such as CC-BY-4.0.")  # fmt: skip
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
@click.option("--key", type=_KEY, required=True, metavar="FILE", help="Private Ed25519 key in PEM.")
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
              help="Public key (PEM) of an accepted signer; repeat for more.")  # fmt: skip
@as_json_option
def verify(path: Path, keys: tuple[Path, ...], as_json: bool) -> None:
    """Verify a pack: its files, its signature, and that its tables are consistent.

    PACK is by default the pack that ships. Exit code 2 if the pack is refused. A valid signature
    shows who made the pack; whether its measurements decide is up to the trust policy.
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
    """Show the contents of a pack, who signed it, and whether the trust policy lets it decide.

    PACK is by default the pack that ships. The JSON of `guard` and `compare` names the observations
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

    PACK is by default the pack that ships. All comparisons are judged here, from the samples, as
    one family. Without --html, --markdown and --json, the report is printed as Markdown.
    """
    from adviser.packs.pack_report import pack_report, report_document, report_markdown
    from api.pages.quality_report_view import pack_report_file

    keep_project_files((html, markdown), [path])
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


@pack.command()
@click.argument("address", metavar="FILE|FOLDER|URL")
@as_json_option
@click.pass_obj
def add(settings: Settings, address: str, as_json: bool) -> None:
    """Add an evidence pack to this store.

    The pack is checked and stored whole, apart from the measurements of this store. From then on,
    answers use its measurements as far as the trust policy allows. Adding a pack again changes
    nothing. URL begins with https:// or s3://.
    """
    policy, place = read_policy(settings), pack_address(settings, address)
    with open_record(settings) as engine, progress_bars(hidden=as_json) as bars:
        pack, new = add_from(settings, engine, place, bars.update)
    about = evidence_pack(pack.manifest, pack.key, policy, datetime.now(UTC).date())
    trust = trust_of(about, policy)
    if as_json:
        print_json({"digest": pack.digest, "name": pack.manifest.name, "new": new,
                    "decides": trust.decides, "reason": trust.reason})  # fmt: skip
        return
    state = "added" if new else "added before"
    print_lines([f"{pack.manifest.name}: {state} ({pack.digest[:15]})", trust.reason])


@pack.command("list")
@as_json_option
@click.pass_obj
def list_packs(settings: Settings, as_json: bool) -> None:
    """List the packs of this store, and what the trust policy says about each.

    The addresses that the nightly run reads are listed, too.
    """
    policy = read_policy(settings)
    with open_record(settings) as engine, engine.connect() as connection:
        packs = [_pack_document(it, policy) for it in stored_packs(connection)]
        addresses = followed_addresses(connection)
    if as_json:
        print_json({
            "policy": policy.source,
            "packs": packs,
            "followed": [
                {"address": it.address, "followed_at": as_json_time(it.followed_at),
                 "read_at": as_json_time(it.read_at)}
                for it in addresses
            ],
        })  # fmt: skip
        return
    if packs:
        table = Table([
            Column("pack", wraps=True), Column("measured"), Column("jobs", right=True),
            Column("key"), Column("verdict", wraps=True), Column("added"),
        ])  # fmt: skip
        for pack in packs:
            table.add(
                f"{shown(pack['name'])}\n{pack['digest'][:15]}",
                str(pack.get("measured_until", ""))[:10], f"{pack.get('jobs', '')}",
                (pack["key"] or "none")[:15], shown(pack["reason"]), pack["added_at"][:10],
            )  # fmt: skip
        table.print()
    else:
        click.echo("No packs: `thoth pack add` adds one.")
    for followed in addresses:
        read = "never read" if followed.read_at is None else f"read {moment_text(followed.read_at)}"
        print_lines([f"follows {followed.address}, {read}"])


def _pack_document(stored: StoredPack, policy: TrustPolicy) -> dict[str, Any]:
    document = {
        "digest": stored.digest,
        "name": stored.name,
        "key": stored.key,
        "address": stored.address,
        "added_at": as_json_time(stored.added_at),
    }
    try:
        manifest = parse_manifest(stored.manifest.encode())
    except InvalidDocument as error:  # of a later version
        return {**document, "decides": False, "reason": f"cannot be read: {error.message}"}
    about = evidence_pack(manifest, stored.key, policy, datetime.now(UTC).date())
    return {
        **document,
        "licence": manifest.licence,
        "measured_until": as_json_time(manifest.measured_until),
        "jobs": sum(it.jobs for it in manifest.sessions),
        "sessions": manifest.session_count,
        "indicators": manifest.indicators,
        "hardware": [asdict(it) for it in manifest.hardware],
        **trust_of(about, policy)._asdict(),
    }


@pack.command()
@click.argument("name", metavar="DIGEST_PREFIX|NAME")
@click.pass_obj
def remove(settings: Settings, name: str) -> None:
    """Remove a pack from this store; nothing else changes."""
    with open_record(settings) as engine:
        with engine.connect() as connection:
            pack = pack_named(stored_packs(connection), name)
            addresses = followed_addresses(connection)
        remove_packed(engine, settings, pack.digest)
    print_lines([f"{pack.name}: removed ({pack.digest[:15]})"])
    if any(pack.address.startswith(f"{it.address}/") for it in addresses):
        click.echo("hint: the next night adds it again; `thoth pack unfollow` ends that", err=True)


@pack.command()
@click.argument("address", metavar="FOLDER|URL")
@as_json_option
@click.pass_context
def follow(context: click.Context, address: str, as_json: bool) -> None:
    """Add the packs of an address now, and new ones every night.

    The address is a folder, such as one of a Git work tree, or begins with https:// or s3://. Its
    file packs.json, which `thoth pack index` writes, names the packs. Refused packs go to the
    quarantine, and the exit code is 6.
    """
    from cli.ingest import REFUSED, print_followed

    settings: Settings = context.obj
    place = pack_address(settings, address).rstrip("/")
    with open_record(settings) as engine, progress_bars(hidden=as_json) as bars:
        report = follow_packs(settings, engine, place, bars.update)
    if as_json:
        print_json(asdict(report))
    else:
        print_followed(asdict(report))
    if report.refused:
        context.exit(REFUSED)


@pack.command()
@click.argument("address", metavar="FOLDER|URL")
@click.pass_obj
def unfollow(settings: Settings, address: str) -> None:
    """No longer read an address; the packs from there stay."""
    place = absolute_source(address).rstrip("/")  # also one that is no longer allowed
    with open_record(settings) as engine, engine.begin() as connection:
        if not unfollow_address(connection, place):
            raise InvalidArgument(
                "this address is not followed", hint="`thoth pack list` shows followed addresses"
            )


@pack.command()
@click.argument(
    "folder", metavar="DIR", type=NamedPath(exists=True, file_okay=False, path_type=Path)
)
def index(folder: Path) -> None:
    """Write packs.json, which names the packs in a folder, for others to follow.

    Packs are .tar files and folders in DIR. Followers of a URL can read only .tar files.
    """
    listed = write_index(folder)
    click.echo(f"{folder / 'packs.json'}: {counted(len(listed), 'pack')}")


@pack.command()
@pack_argument
@click.option("-k", "--cells", type=click.IntRange(1, 1000), default=5, show_default=True,
              help="Number of randomly chosen comparisons.")  # fmt: skip
@click.option("--between", type=(str, str), metavar="OLD NEW",
              help="Instead, make all comparisons between two versions, such as numpy==2.0.2"
                   " numpy==2.4.6, or of the packages that differ between two locks.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(5, 1000), default=10, show_default=True,
              help="Number of jobs of each stack.")  # fmt: skip
@click.option("--out", type=NamedPath(file_okay=False, path_type=Path),
              help="Folder of the inspections; a new folder measures again."
                   "  [default: one in THOTH_HOME/again]")  # fmt: skip
@click.option("--trust-packages", is_flag=True,
              help="Run packages of a pack whose key the trust policy does not know.")  # fmt: skip
@machine_options
@as_json_option
@click.pass_context
def again(context: click.Context, /, **options: Any) -> None:
    """Measure some comparisons of a pack on this machine, and say whether they agree.

    PACK is by default the pack that ships. Only series of this machine's hardware class are
    measured, with the versions and hashes of the pack, both stacks of a comparison in turns. Two
    effects agree if they differ by no more than both 95 % intervals allow. The jobs are ingested
    and count as your own. After an interruption, run the same command to continue. Indicators run
    without the sandbox and import the packages of the pack, so the trust policy must know the key
    that signed it. Exit code 1 if a comparison disagrees or could not be measured.
    """
    from cli.pack_again import measure_again  # loads the executor

    context.exit(0 if measure_again(context.obj, **options) else 1)
