"""The documents say what the code does: settings, codes, commands, links."""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from adviser.scoring.assessment_types import JustificationCode
from cli import main as cli
from cli.ingest import REFUSED
from common.settings import Settings, variable_name
from docs.reference_tables import rewritten
from graph.projection.outbox import NODES
from graph.tables import Base
from model.errors import IndexFault, Reason
from model.measurements.inspection import Correction, Exclusion
from model.measurements.job_stability import Instability
from model.measurements.units import UNITS
from model.packages.candidates import ExclusionReason
from model.packages.snapshot import Snapshot

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
SETTINGS = (REFERENCE / "settings.md").read_text(encoding="utf-8")
ROOMS = ("cli", "api", "loop", "adviser", "ingest", "graph", "pis", "common", "model")

#: Hosts of registries, none of them named: which one to use is the machine's matter.
_REGISTRIES = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|docker|quay|ghcr|gcr|crates|anaconda)\.(?:org|com|io)\b"
)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = filter(None, listed.stdout.decode().split("\0"))
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def section(page: str, title: str) -> str:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def codes(text: str) -> set[str]:
    """What stands in backticks at the start of items."""
    heads = re.findall(r"(?m)^- (?:<a [^>]*></a>)?(`[^:(\n]+)", text)
    return {code for head in heads for code in re.findall(r"`([^`]+)`", head)}


def test_every_setting_is_documented_with_its_default() -> None:
    settings = Settings.from_env({})
    values = {variable_name(it): getattr(settings, it) for it in Settings.__slots__}
    assert codes(SETTINGS) == values.keys()
    numbers = re.findall(r"(?m)^- `(\w+)` \(.*?; `?([\d.]+)`?\):", SETTINGS)
    assert len(numbers) > 25
    for variable, default in numbers:
        assert float(default) == values[variable], variable


def test_example_environment_has_the_default_settings() -> None:
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    variables = dict(re.findall(r"(?m)^([A-Z_]+)=(.*)$", text))
    compose = {"POSTGRES_PASSWORD", "NEO4J_PASSWORD", "SERVICE_PORT"}
    assert variables.keys() - compose <= codes(SETTINGS)
    assert Settings.from_env(variables) == Settings.from_env({})


def test_compose_passes_every_setting_to_the_services() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    shared = text.partition("\n  environment:\n")[2].partition("\n  volumes:")[0]
    # The heap of the embedded graph, which the image does not contain.
    ours = codes(SETTINGS) - {"GRAPH_MEMORY_MB"}
    assert set(re.findall(r"(?m)^    (\w+): \S", shared)) == ours
    pages = "".join(it.read_text(encoding="utf-8") for it in (ROOT / "docs").rglob("*.md"))
    theirs = set(re.findall(r"\b(?:AWS|OTEL)_[A-Z_]*[A-Z]\b", pages)) | {"HTTPS_PROXY", "NO_PROXY"}
    assert set(re.findall(r"(?m)^    (\w+):$", shared)) == theirs


def test_generated_tables_of_the_docs_are_up_to_date() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert text == rewritten(text), f"{page}: python -m docs.reference_tables writes it again"


@pytest.mark.parametrize(
    ("page", "title", "expected"),
    [
        ("reasons.md", "Why a document is in quarantine", set(Reason)),
        ("reasons.md", "Corrections and quarantined observations", {*Correction, *Exclusion}),
        ("reasons.md", "What went wrong with an index", set(IndexFault)),
        ("reasons.md", "Why a job is left out of comparisons", set(Instability)),
        ("snapshot.md", "Why a version is excluded", set(ExclusionReason)),
        ("snapshot.md", "Content", {it.name for it in fields(Snapshot)}),
        ("recommendation-types.md", "Justifications", set(JustificationCode)),
    ],
)
def test_documented_codes_equal_those_in_the_code(
    page: str, title: str, expected: set[str]
) -> None:
    assert codes(section(page, title)) == expected


@pytest.mark.parametrize("page", ["guides/measure.md", "reference/inspections.md"])
def test_every_unit_that_a_script_may_print_is_documented(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert set(re.findall(r"`([^`\n]+)`", text)) >= UNITS.keys()


def test_every_exit_code_is_documented() -> None:
    assert cli.__doc__ is not None
    in_code = set(re.findall(r"(?m)^(\d+) +\S", cli.__doc__))
    used = {0, 1, *cli._EXIT_CODES.values(), REFUSED, cli._INTERRUPTED, cli._BROKEN_PIPE}
    assert in_code == {str(code) for code in used}
    shown = re.findall(r"(?m)^- (\d+): ", section("cli.md", "Exit codes"))
    assert set(shown) == in_code
    assert len(shown) == len(in_code)


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for inner in group.list_commands(context):
        command = group.get_command(context, inner)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield f"{name} {inner}", command
            yield from commands(command, f"{name} {inner}")
        elif command is not None:
            yield f"{name} {inner}", command


def test_every_command_is_documented_and_has_help() -> None:
    offered = dict(commands(cli.thoth, "thoth"))
    text = section("cli.md", "By purpose")
    listed = [f"thoth {name}" for name in re.findall(r"`([^`]+)`", text)]
    assert sorted(listed) == sorted(offered)
    assert [name for name, command in offered.items() if not command.help] == []


def test_each_documented_promise_names_existing_tests_or_benchmarks() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    promises = re.findall(r"(?m)^\| (?!promise|---)[^|]+ \| ([^|]+) \| ([^|]+) \|$", text)
    assert len(promises) > 30
    for evidence, number in promises:
        named = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)(?:::(\w+))?`", evidence)
        assert named, evidence
        assert number.strip(), evidence
        for path, test in named:
            assert (ROOT / path).exists(), path
            assert test or path.startswith("benchmarks/"), path
            defined = f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")
            assert not test or defined, f"{path}::{test}"


def test_every_link_in_the_docs_leads_to_a_file() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 10
    broken = [
        f"{page.relative_to(ROOT)}: {found['target']}"
        for page in pages
        for found in _LINK.finditer(page.read_text(encoding="utf-8"))
        if "://" not in found["target"] and not found["target"].startswith("#")
        if not (page.parent / found["target"].partition("#")[0]).exists()
    ]
    assert broken == []


def test_every_documentation_page_can_be_reached_from_the_readme() -> None:
    seen, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop().resolve()
        if page in seen:
            continue
        seen.add(page)
        if page.is_dir():
            pending += page.glob("*.md")
        elif page.suffix == ".md":
            targets = (it["target"].partition("#")[0] for it in _LINK.finditer(page.read_text()))
            pending += [page.parent / target for target in targets if "://" not in target]
    pages = {page.resolve() for page in (ROOT / "docs").rglob("*.md")}
    assert {page.relative_to(ROOT).as_posix() for page in pages - seen} == set()


def test_documentation_pages_named_in_the_code_exist() -> None:
    named = {
        page
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 5
    assert {page for page in named if not (ROOT / page).exists()} == set()


def test_make_targets_in_the_readme_exist_and_have_a_description() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    wanted = set(re.findall(r"(?m)^\$ make ([a-z]+)", text)) | set(
        re.findall(r"`make ([a-z]+)`", text)
    )
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    explained = set(re.findall(r"(?m)^([a-z]+):.*## \S", makefile))
    assert {"demo", "test"} <= wanted <= explained
    assert {"lint", "bench", "up", "down", "help"} <= explained


def test_commands_in_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    offered = dict(commands(cli.thoth, "thoth"))
    for called in re.findall(r"(?m)^\$ (thoth [a-z ]+?)(?: [^a-z].*)?$", text):
        # A group may run a command of its own without being told which: `thoth advise .`.
        assert any(
            f"{called} ".startswith(f"{name} ") or name.startswith(f"{called} ") for name in offered
        ), called


def test_nothing_tells_users_to_install_thoth_from_pypi() -> None:
    """On PyPI, another package has this name."""
    named = re.compile(r"install (?:--\S+ )*['\"]?thoth\b(?!:)")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    code = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    assert [path for path in (*pages, *code) if named.search(path.read_text("utf-8"))] == []


def test_no_package_registry_is_named() -> None:
    named = []
    for path in tracked():
        if path == Path(__file__):
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        named += [f"{path.relative_to(ROOT)}: {it[0]}" for it in _REGISTRIES.finditer(text)]
    assert named == []


_DOTTED = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:\.\w+)+)`")


def defined_in(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """Names that statements define, with the body of each; a value has an empty body."""
    names: dict[str, list[ast.stmt]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] = node.body
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = []
        elif isinstance(node, ast.Assign):
            names |= {target.id: [] for target in node.targets if isinstance(target, ast.Name)}
    return names


def module_of(dotted: str) -> tuple[Path, list[str]] | None:
    """The file of the module that a dotted name begins with, and the names inside of it."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        module = ROOT.joinpath(*parts[:length])
        for path in (module.with_suffix(".py"), module / "__init__.py"):
            if path.is_file():
                return path, parts[length:]
    return None


def exists(dotted: str) -> bool:
    """Whether a room has this module, and the module this class, function, field or value."""
    if (found := module_of(dotted)) is None:
        return False
    path, inner = found
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for name in inner:
        names = defined_in(body)
        if name not in names:
            return False
        body = names[name]
    return True


@pytest.mark.parametrize("page", ["architecture.md", "glossary.md"])
def test_code_named_on_a_documentation_page_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = set(_DOTTED.findall(text))
    assert len(named) > 20
    assert {name for name in named if not exists(name)} == set()


def test_architecture_page_describes_each_journey_in_few_steps() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    journeys = re.findall(r"(?ms)^## Journey \d: .*?(?=^## )", text)
    assert len(journeys) == 3
    for journey, most in zip(journeys, (12, 15, 12), strict=True):
        steps = re.findall(r"(?m)^(\d+)\. `([\w.]+)`: \S", journey)
        assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
        assert 5 <= len(steps) <= 10
        files = {found[0] for name in _DOTTED.findall(journey) if (found := module_of(name))}
        assert len(files) <= most, "a newcomer does not have to open many files"
        assert len(journey.splitlines()) <= 24, "it fits on one screen"


def glossary_rows() -> list[tuple[str, str]]:
    """Each term with its name in the code."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    return re.findall(r"(?m)^- \*\*(.+?)\*\*: .* \((.*`.*)\)$", text)


def test_glossary_has_each_term_once_with_its_name_in_the_code() -> None:
    found = glossary_rows()
    terms = [term for term, _ in found]
    assert len(set(terms)) == len(terms) > 50
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert len(terms) == len(re.findall(r"(?m)^- ", text))


def test_tables_columns_and_labels_of_the_glossary_exist() -> None:
    code = " ".join(names for _, names in glossary_rows())
    tables = Base.metadata.tables
    assert set(re.findall(r"table `(\w+)`", code)) <= set(tables)
    for table, column in re.findall(r"column `(\w+)\.(\w+)`", code):
        assert column in tables[table].columns, f"{table}.{column}"
    labels = {node.label for node in NODES}
    assert set(re.findall(r"`:(\w+)`", code)) <= labels


def test_list_of_architecture_decisions_is_complete() -> None:
    pages = sorted(path.name for path in (ROOT / "docs" / "adr").glob("0*.md"))
    listed = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    assert [match["target"] for match in _LINK.finditer(listed)] == pages
