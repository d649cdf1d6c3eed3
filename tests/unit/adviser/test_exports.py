"""Exports: the Parquet files, what never leaves, and a folder that is written as a whole."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from adviser.exports import arrow_files
from adviser.exports.parquet import target_folder
from adviser.exports.tables import ColumnType, ExportColumn, ExportTable
from graph.record.exported_rows import RowSet
from model.errors import InvalidArgument

COLUMNS = (
    ExportColumn(ColumnType.INTEGER, "number", "A number.", "s"),
    ExportColumn(ColumnType.CATEGORY, "name", "A name."),
    ExportColumn(ColumnType.TEXT, "note", "A note."),
    ExportColumn(ColumnType.TEXTS, "tags", "Tags."),
    ExportColumn(ColumnType.JSON, "parameters", "Parameters."),
)
NAMES = tuple(column.name for column in COLUMNS)


def row_set(partition: str | None, rows: Iterable[Sequence[Any]]) -> RowSet:
    return RowSet(partition, NAMES, rows)


def write(folder: Path, *row_sets: RowSet) -> int:
    def unused(connection: object) -> Iterator[RowSet]:
        yield from row_sets

    table = ExportTable("numbers", "Numbers.", COLUMNS, unused)
    return arrow_files.write_table(table, row_sets, folder, lambda rows: None)


def numbered(count: int, name: str = "a") -> Iterator[tuple[Any, ...]]:
    return ((number, name, None, [], {}) for number in range(count))


@pytest.mark.parametrize(
    "partition", ["../up", "a/b", ".hidden", "_private", "", "x" * 300, "ä=1", "..", "a\nb"]
)
def test_export_partition_of_any_name_stays_inside_the_export_folder(
    tmp_path: Path, partition: str
) -> None:
    folder = tmp_path / "numbers"
    assert write(folder, row_set(partition, numbered(3, partition))) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["numbers"]
    (part,) = folder.rglob("*.parquet")
    assert part.parent.parent == folder
    assert ds.dataset(folder).to_table()["name"].to_pylist() == [partition] * 3


def test_rows_of_an_export_partition_keep_their_order(tmp_path: Path) -> None:
    rows = write(
        tmp_path / "numbers",
        row_set("a", numbered(2)),
        row_set("a", numbered(2)),
        row_set("b", numbered(1)),
    )
    assert rows == 5
    files = sorted(it.relative_to(tmp_path / "numbers").as_posix() for it in tmp_path.rglob("*.*"))
    assert files == ["a/part-00000.parquet", "b/part-00001.parquet"]
    assert ds.dataset(tmp_path / "numbers").to_table()["number"].to_pylist() == [0, 1, 0, 1, 0]


def test_large_export_is_divided_into_files_without_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_files, "_CONVERTED_ROWS", 10)
    monkeypatch.setattr(arrow_files, "_GROUP_ROWS", 20)
    monkeypatch.setattr(arrow_files, "_FILE_ROWS", 40)
    assert write(tmp_path / "numbers", row_set(None, numbered(95))) == 95
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    assert ds.dataset(tmp_path / "numbers").to_table()["number"].to_pylist() == list(range(95))


def test_export_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path) -> None:
    held = []

    def watched() -> Iterator[tuple[Any, ...]]:
        for row in numbered(300_000):
            if row[0] % 10_000 == 0:
                held.append(pa.total_allocated_bytes())
            yield row

    write(tmp_path / "numbers", row_set(None, watched()))
    assert max(held[15:]) <= 2 * max(held[:15])


def test_empty_export_table_is_a_file_with_its_columns(tmp_path: Path) -> None:
    assert write(tmp_path / "numbers") == 0
    schema = ds.dataset(tmp_path / "numbers").schema
    assert schema.names == list(NAMES)
    assert schema.metadata[b"description"] == b"Numbers."
    assert schema.field("number").metadata == {b"description": b"A number.", b"unit": b"s"}
    assert schema.field("name").type == pa.dictionary(pa.int32(), pa.string())


def test_secrets_in_exported_texts_are_removed(tmp_path: Path) -> None:
    url = "https://jane:hunter2@index.example/simple?sig=abc"
    token = "thoth_abcdef0123456789abcdef0123456789"
    rows = [(1, url, f"see {token}", [f"a @ {url}"], {"url": url, "note": token})]
    write(tmp_path / "numbers", row_set(None, rows))
    (row,) = ds.dataset(tmp_path / "numbers").to_table().to_pylist()
    assert row["tags"] == ["a @ https://index.example/simple"]
    for secret in ("jane", "hunter2", "sig=abc", token[6:]):
        assert secret not in str(row)


def fill(target: Path, text: str, *, replace: bool = False) -> None:
    with target_folder(target, replace=replace, marker="marker") as part:
        (part / "marker").write_text(text)


def test_export_folder_appears_only_after_a_complete_export(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    fill(tmp_path / "a" / "b", "new")
    assert [it.name for it in (tmp_path / "a").iterdir()] == ["b"]
    assert (tmp_path / "a" / "b" / "marker").read_text() == "new"


def test_earlier_export_is_replaced_only_on_request(tmp_path: Path) -> None:
    fill(tmp_path / "a", "old")
    with pytest.raises(InvalidArgument, match="already") as refusal:
        fill(tmp_path / "a", "new")
    assert "--replace" in str(refusal.value.hint)
    assert (tmp_path / "a" / "marker").read_text() == "old"
    fill(tmp_path / "a", "new", replace=True)
    assert (tmp_path / "a" / "marker").read_text() == "new"
    assert [it.name for it in tmp_path.iterdir()] == ["a"]


def test_export_never_replaces_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InvalidArgument, match="other content"):
        fill(tmp_path, "new", replace=True)
    with pytest.raises(InvalidArgument, match="not a folder"):
        fill(tmp_path / "thesis.tex", "new", replace=True)
    assert [it.name for it in tmp_path.iterdir()] == ["thesis.tex"]


def test_failed_export_keeps_the_earlier_export(tmp_path: Path) -> None:
    fill(tmp_path / "a", "old")
    with pytest.raises(UnicodeEncodeError):
        fill(tmp_path / "a", "half\ud800", replace=True)
    assert (tmp_path / "a" / "marker").read_text() == "old"
    assert [it.name for it in tmp_path.iterdir()] == ["a"]


def test_export_error_names_the_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        fill(tmp_path / "file" / "a", "new")


def test_export_into_a_circular_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InvalidArgument):
        fill(tmp_path / "a", "new")
    assert sorted(it.name for it in tmp_path.iterdir()) == ["a", "b"]
