"""Quality reports as HTML files."""

from __future__ import annotations

from datetime import UTC, datetime

from adviser.quality.repetitions import RepetitionBatch, batch_report
from adviser.quality.report_document import batches_document
from api.pages.report_files import batches_file


def test_texts_and_plots_of_a_report_file_have_no_control_characters() -> None:
    batches = [
        RepetitionBatch(f"\x1b[31m<b>\u202e{count}", count, 20, 9.0, 10.0, sd)
        for count, sd in ((50, 2.0), (500, 1.0))
    ]
    document = batches_document(batch_report(batches, "GFLOPS"))
    content = batches_file(document, datetime(2026, 1, 1, tzinfo=UTC))
    assert "\\x1b[31m&lt;b&gt;\\u202e500" in content
    assert "\x1b" not in content
    assert "\u202e" not in content
    assert "<b>\\" not in content
