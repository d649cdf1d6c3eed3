"""What the adviser's commands refuse, with which exit code, and what they do not take for proof."""

import json
import os
import re
from pathlib import Path

import pytest

from graph.engine import Stores
from model.packages.identity import public_index_url
from tests.factories.releases import release
from tests.services.commands import WHERE, thoth
from tests.services.index import package_index
from tests.services.projection import deliver

NOWHERE = {"PACKAGE_INDEXES": "dead=http://127.0.0.1:9/simple", "INDEX_RETRIES": "0"}


@pytest.fixture
def known(stores: Stores) -> Stores:
    """Two versions of one package."""
    deliver(stores, [release("core", "2.0"), release("core", "1.0")])
    return stores


def test_command_with_an_unreachable_index_exits_with_3(stores: Stores, tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"core==1.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    done = thoth(stores.settings, "provenance", "--live", "--index", "dead", str(lock), **NOWHERE)
    assert done.returncode == 3, done.stderr


def test_conflict_is_not_reported_as_proven_if_versions_are_unread(
    stores: Stores, tmp_path: Path
) -> None:
    at = ("--project", str(tmp_path), *WHERE, "--offline")
    (tmp_path / "requirements.in").write_text("core\n", encoding="utf-8")
    with package_index(protected=False, json=True, ranges=True, validators=True) as index:
        for version in ("1.0", "2.0", "3.0", "4.0"):
            index.add_wheel("core", version)
        where = {"PACKAGE_INDEXES": f"pypi={index.url}"}
        done = thoth(stores.settings, "packages", "add", "core", "--max-versions", "1", **where)
        assert done.returncode == 0, done.stderr
        done = thoth(stores.settings, "why-not", "core==1.0", *at, "--json", **where)
        assert done.returncode == 3, done.stderr
        (told,) = json.loads(done.stdout)["unread"]
        assert told == (
            "core: the conflict covers the 1 version that was read; pypi lists 1 more, 1.0: "
            "`thoth packages add 'core==1.0'` or --fetch reads it"
        )
        # What no version is, none that is read would be either.
        done = thoth(stores.settings, "why-not", "core==9", *at, "--json", **where)
        assert json.loads(done.stdout)["unread"] == []
        done = thoth(
            stores.settings, "advise", str(tmp_path), *WHERE, "--older-than", "400d", **where
        )
        assert done.returncode == 3
        told = " ".join(done.stdout.split())  # lines are wrapped
        assert "nothing is proven: 3 packages and versions were not read;" in told
        assert "`thoth advise --fetch` reads those that decide" in told
        identifier = told.rpartition("; ")[2]
        assert thoth(stores.settings, "replay", identifier).returncode == 0
        done = thoth(stores.settings, "why-not", "core==1.0", *at[:-1], "--fetch", **where)
    assert done.returncode == 0, done.stderr
    assert "core 1.0 instead of 4.0" in done.stdout


def test_unreadable_advisory_source_counts_as_no_source(known: Stores, tmp_path: Path) -> None:
    (tmp_path / "requirements.in").write_text("core\n", encoding="utf-8")
    (tmp_path / "page.zip").write_text("<html>Sorry</html>", encoding="utf-8")
    done = thoth(known.settings, "advisories", "sync", str(tmp_path / "nosuch.zip"))
    assert (done.returncode, "no such file or folder" in done.stderr) == (2, True)
    done = thoth(known.settings, "advisories", "sync", str(tmp_path / "page.zip"))
    assert done.returncode == 1
    assert "not recorded: no advisory about a Python package was read" in done.stdout
    done = thoth(known.settings, "advise", str(tmp_path), *WHERE, "--type", "security")
    assert "warning: the store has no advisories" in done.stdout
    remedy = "set ADVISORIES to OSV's archive and run `thoth advisories sync --osv`"
    assert remedy in " ".join(done.stdout.split())
    done = thoth(known.settings, "advisories", "status")
    assert "sources          none" in done.stdout


def test_provenance_compares_a_lock_with_its_pipfile(known: Stores, tmp_path: Path) -> None:
    (tmp_path / "Pipfile").write_text(
        f'[[source]]\nname = "pypi"\nurl = "{public_index_url()}"\nverify_ssl = true\n'
        '[packages]\ncore = "*"\n',
        encoding="utf-8",
    )
    lock = tmp_path / "Pipfile.lock"
    done = thoth(known.settings, "advise", str(tmp_path), *WHERE, "-o", str(lock))
    assert done.returncode == 0, done.stderr
    assert f"wrote {lock} (pipfile-lock)" in done.stderr
    done = thoth(known.settings, "provenance", str(lock))
    assert "INVALID-LOCK-HASH" not in done.stdout
    document = json.loads(lock.read_text(encoding="utf-8"))
    document["_meta"]["hash"]["sha256"] = "0" * 64
    lock.write_text(json.dumps(document), encoding="utf-8")
    for path in (tmp_path, lock):
        done = thoth(known.settings, "provenance", str(path))
        assert (done.returncode, "INVALID-LOCK-HASH" in done.stdout) == (1, True)
    (tmp_path / "Pipfile").unlink()
    done = thoth(known.settings, "provenance", str(lock))
    assert "so the lock is not compared with it" in done.stderr


def test_output_file_name_of_another_lock_format_is_reported(known: Stores, tmp_path: Path) -> None:
    (tmp_path / "requirements.in").write_text("core\n", encoding="utf-8")
    output = tmp_path / "out.toml"
    done = thoth(
        known.settings, "advise", str(tmp_path), *WHERE, "-o", str(output),
        "--format", "requirements",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"wrote {output} (requirements)" in done.stderr
    assert "out.toml is requirements; its name usually means pylock" in done.stderr


def test_piped_tables_keep_the_width_and_have_no_trailing_blanks(
    known: Stores, tmp_path: Path
) -> None:
    (tmp_path / "requirements.in").write_text("core\n", encoding="utf-8")
    done = thoth(known.settings, "advise", str(tmp_path), *WHERE, COLUMNS="60")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 60
    assert lines == [line.rstrip() for line in lines]
    free = thoth(known.settings, "advise", str(tmp_path), *WHERE)
    if "COLUMNS" not in os.environ:
        assert max(map(len, free.stdout.splitlines())) > 60


def test_provenance_reports_a_file_of_another_index(stores: Stores, tmp_path: Path) -> None:
    (tmp_path / "requirements.in").write_text("core\n", encoding="utf-8")
    lock = tmp_path / "pylock.toml"
    with package_index(protected=False, json=True, ranges=True, validators=True) as index:
        index.add_wheel("core", "1.0")
        where = {"PACKAGE_INDEXES": f"pypi={index.url}"}
        for arguments in (
            ("packages", "add", "core"), ("advise", str(tmp_path), *WHERE, "-o", str(lock))
        ):  # fmt: skip
            done = thoth(stores.settings, *arguments, **where)
            assert done.returncode == 0, done.stderr
        text = lock.read_text(encoding="utf-8")
        (url,) = re.findall(r'^url = "(.*)"', text, re.MULTILINE)
        moved = text.replace(url, f"http://evil.example/{url.rpartition('/')[2]}")
        longer = re.sub(r"^size = \d+", "size = 1", text, flags=re.MULTILINE)
        for written, expected in (
            (text, set()),
            (moved, {"ARTIFACT-DIFFERENT-SOURCE"}),
            (longer, {"INVALID-ARTIFACT-SIZE"}),
        ):
            lock.write_text(written, encoding="utf-8")
            for more in ((), ("--live",)):
                done = thoth(stores.settings, "provenance", str(lock), "--json", *more, **where)
                assert done.returncode == (1 if expected else 0), done.stderr
                errors = {it["id"] for it in json.loads(done.stdout) if it["type"] == "ERROR"}
                assert errors == expected
        done = thoth(
            stores.settings, "advise", str(tmp_path), *WHERE,
            "-o", str(tmp_path / "requirements.in"), **where,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert (tmp_path / "requirements.in").read_text(encoding="utf-8") == "core\n"


def test_report_with_a_duplicate_key_exits_with_2(known: Stores, tmp_path: Path) -> None:
    (tmp_path / "requirements.in").write_text("core\n", encoding="utf-8")
    done = thoth(known.settings, "advise", str(tmp_path), *WHERE, "--json")
    report = tmp_path / "report.json"
    twice = done.stdout.replace('"version":"2.0"', '"version":"9.9","version":"2.0"', 1)
    assert twice != done.stdout
    report.write_text(twice, encoding="utf-8")
    done = thoth(known.settings, "check", str(report))
    assert (done.returncode, "duplicate_key" in done.stderr) == (2, True), done.stderr
