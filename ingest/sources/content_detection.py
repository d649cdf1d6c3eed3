"""Distinguishes inspections, results of other benchmarks and other files by their content.

Published inspections often have no file extension, and other benchmarks also publish ``.json``
files. File names do not identify the results of other benchmarks either: several systems call their
results ``result_0.txt`` or ``1``, and users rename files.
"""

from __future__ import annotations

import codecs
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import orjson

from common.errors import InvalidDocument
from common.reasons import Reason
from ingest.inspections.generations import has_inspection_keys
from ingest.sources.layout import (
    empty,
    is_archive,
    is_unfinished_part,
    read_bounded,
    read_up_to,
)
from ingest.sources.source_items import (
    RawDocument,
    SkippedFile,
    SourceItem,
    SourceLimits,
)

#: How many bytes are read from the beginning of a file; larger workbooks are not recognised.
HEAD_BYTES = 256 * 1024
#: How many bytes are searched; console output may begin with other lines.
_SEARCHED_BYTES = 64 * 1024

#: The member of a workbook that has the texts of its cells, and how many of its bytes are searched.
_WORKBOOK_TEXTS = "xl/sharedStrings.xml"
_WORKBOOK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BenchmarkSystem:
    """A benchmark system whose result files can be recognised.

    :param key: stable code for scripts
    :param title: displayed name
    :param content: matches every result file of this system and no result file of another
    """

    key: str
    title: str
    content: re.Pattern[bytes]


def _system(key: str, title: str, *alternatives: bytes) -> BenchmarkSystem:
    return BenchmarkSystem(key, title, re.compile(b"|".join(alternatives), re.MULTILINE))


#: Tried in this order; the first match counts.
SYSTEMS = (
    _system(
        "mlperf-training", "MLPerf Training",
        rb"^:::MLL ", rb"^:::MLPv\d",
        # LoadGen of MLPerf Inference writes such lines, too, but in its own namespace.
        rb"^(?:\d+: *)?:::MLLOG (?!.*mlperf::logging)", rb"^MLPerf: \w+ \[", rb'"ml_libraries":',
        rb'"interconnect":[^{]*"libraries":[^{]*"compilers":',
    ),
    _system(
        "mlperf-inference", "MLPerf Inference",
        rb"^:::MLLOG .*mlperf::logging",
        rb"^MLPerf Results Summary", rb"^No errors encountered during test",
        rb"^\d+ ERRORS? encountered\. See detailed log", rb"^TestScenario\.\w+ qps=",
        rb"accuracy=[\d.]+%, good=\d+, total=\d+", rb"^mAP=[\d.]+%", rb"^BLEU: [\d.]+$",
        rb"^[\w*-]+\.(?:SingleStream|MultiStream|Server|Offline)\.\w+ *=",
        rb'"starting_weights_filename":', rb'"host_processor_model_name":',
        rb'"config_name": *"[\w.-]+_(?:SingleStream|MultiStream|Server|Offline)"',
    ),
    _system(
        "tf-cnn-benchmarks", "tf_cnn_benchmarks",
        rb"images/sec: [\d.]+ \+/- ", rb"^total images/sec:", rb'"machine_config":',
        rb'"\w*examples_per_sec"', rb'"eval_top_[15]_accuracy"', rb"^name_gpu,num_gpu,",
    ),
    _system("perfzero", "PerfZero", rb'"ml_framework_info":'),
    _system("pytorch-benchmark", "pytorch-benchmark", rb"^machine_info:$(?s:.*)^timing:$"),
    _system(
        "pytest-benchmark", "pytest-benchmark", rb'"machine_info": *\{(?s:.*)"commit_info": *\{'
    ),
    _system(
        "deepbench", "DeepBench",
        rb"Dense Matrix Multiplication", rb"Recurrent Layers - ", rb"^ +m +n +k +a_t +b_t ",
        rb"^SGEMM\(\w,\w,\d+", rb"^PERFDUMP,",
    ),
    _system(
        "dawnbench", "DAWNBench",
        rb'"codeURL":', rb"^(?:\xef\xbb\xbf)?(?=[\w\t]*\bhours\b)(?=[\w\t]*\bepoch\b)[\w\t]+\r?$",
    ),
    _system(
        "hpe-dlbs", "HPE Deep Learning Benchmarking Suite",
        rb"^[ \t]*__(?:exp|results)\.[\w.]+__[ \t]*=", rb'"exp\.model_title":',
    ),
    _system("aiot-bench", "AIoT Bench", rb"^device fingerprint:", rb"^v[io]ps:"),
    _system(
        "edge-aibench", "Edge AIBench",
        rb"^lane,detection,light,sign", rb"^type,Lane Keeping,", rb"^Validation rate: .*@ FAR=",
        rb"^==\d+== NVPROF is profiling .*label_image\.py",
    ),
    _system(
        "aibench", "AIBench",
        rb"^timeStamp,elapsed,label,responseCode", rb"^==\d+== NVPROF is profiling",
        rb"^iter: \d+ mle_loss:",
    ),
    _system(
        "aiia-dnn", "AIIA DNN benchmark",
        rb"\|\s*Product\s*\|\s*Platform\s*\|\s*Device\s*\|\s*Framework",
        rb"^processor_name(?::|\xef\xbc\x9a)",  # the second is a full-width colon
    ),
    _system(
        "jetson", "NVIDIA Jetson benchmarks",
        rb"^Model Name: .*\s+FPS:[\d.]+", rb"^\|\s*\*{0,2}Model Name\*{0,2}\s*\|\s*\*{0,2}FPS",
        rb"^ModelName,FrameWork,Devices,", rb"Average on \d+ runs - GPU latency",
    ),
    _system("aiperf", "AIPerf", rb"^Final (?:Regulated )?Score *: .*GFLOPS"),
    _system(
        "ianvs", "KubeEdge Ianvs",
        rb"^\|? *(?:rank *[|,] *)?algorithm *[|,](?:.*[|,])? *paradigm *[|,]",
    ),
)  # fmt: skip


def system_of(head: bytes) -> BenchmarkSystem | None:
    """The benchmark system that wrote a file, or ``None``.

    :param head: the first :data:`HEAD_BYTES` of the file, or all of a shorter file
    """
    text = _workbook_texts(head) if head.startswith(b"PK\x03\x04") else head[:_SEARCHED_BYTES]
    return next((system for system in SYSTEMS if system.content.search(text)), None)


def _workbook_texts(data: bytes) -> bytes:
    """The texts in the cells of a workbook; empty for other archives and for large workbooks."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as workbook, workbook.open(_WORKBOOK_TEXTS) as texts:
            return texts.read(_WORKBOOK_BYTES)
    except (KeyError, OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return b""


#: Reasons why a file is skipped; results of other benchmarks have reasons of their own.
NOT_AN_INSPECTION = "not an inspection"
NOT_NAMED_LIKE_ONE = "not named like a document"
UNFINISHED = "part of an unfinished inspection folder"
SURPLUS = "not a part of its inspection folder"
NESTED_ARCHIVE = "archive inside an archive"
NO_REGULAR_FILE = "link that leads elsewhere, pipe or device"
NOT_READABLE = "not readable"
EMPTY = "empty"

_JSON_OBJECT = re.compile(rb"(?:" + re.escape(codecs.BOM_UTF8) + rb")?\s*\{")
#: A file without any of these keys is not an inspection. Searching for them is faster than parsing
#: large files of other programs.
_KEYS = re.compile(
    rb'"(?:job_logs?|inspection_id|build_log|requirements_locked|hwinfo|script_sha256|exit_code)"\s*:'
)


def is_inspection(data: bytes) -> bool:
    """Whether a file has the keys of an inspection, valid or not.

    Truncated or invalid JSON counts as an inspection if it contains one of these keys anywhere.

    >>> is_inspection(b'{"inspection_id": "inspection-a", "job_logs": [')
    True
    >>> is_inspection(b'{"columns": ["exit_code", "stdout"]}')
    False
    """
    if not _JSON_OBJECT.match(data) or not _KEYS.search(data):
        return False
    try:
        return has_inspection_keys(orjson.loads(data.removeprefix(codecs.BOM_UTF8)))
    except orjson.JSONDecodeError:
        return True


def other_content(data: bytes) -> str:
    """Return why a file that is not an inspection is skipped, such as the benchmark's name."""
    if not data.strip():
        return EMPTY
    system = system_of(data[:HEAD_BYTES])
    return f"result of {system.title}" if system else NOT_AN_INSPECTION


def screened(raw: RawDocument, limits: SourceLimits) -> RawDocument | InvalidDocument | SkippedFile:
    """Return ``raw``, or a skipped file if another benchmark wrote it.

    If the whole source is a file of another benchmark, the file is refused, because it was named
    explicitly.
    """
    if not limits.by_content or raw.data is None or is_inspection(raw.data):
        return raw
    system = system_of(raw.data[:HEAD_BYTES])
    if system is None:
        return raw
    if raw.place:
        return SkippedFile(raw.source, raw.place, f"result of {system.title}")
    message = f"a result of {system.title}, which is another benchmark, not an inspection"
    return InvalidDocument(Reason.FOREIGN_BENCHMARK, message)


def recognised(
    stream: BinaryIO, source: str, place: str, limits: SourceLimits
) -> RawDocument | SkippedFile:
    """Recognise a file by its content, and return an inspection or a skipped file.

    :raises InvalidDocument: if a JSON file exceeds the limit of a document
    """
    head = read_up_to(stream, HEAD_BYTES)
    if not _JSON_OBJECT.match(head):
        return SkippedFile(source, place, other_content(head))
    data = read_bounded(stream, place, limits, head)
    if is_inspection(data):
        return RawDocument(source, place, data=data)
    return SkippedFile(source, place, other_content(data))


def skipped_by_name(place: str, *, in_archive: bool = False) -> str | None:
    """Return why a file is skipped by its name; ``None`` if its content must decide."""
    if is_unfinished_part(place):
        return UNFINISHED
    if in_archive and is_archive(place):
        return NESTED_ARCHIVE
    return None


def other_file(
    opened: Callable[[], BinaryIO | None],
    source: str,
    place: str,
    limits: SourceLimits,
    errors: tuple[type[Exception], ...],
    *,
    in_archive: bool = False,
) -> SourceItem:
    """Read a file that is not named like a document.

    :param opened: opens the file; returns ``None`` if it is not a regular file
    :param errors: errors of opening and reading, after which the file is skipped
    """
    by_name = skipped_by_name(place, in_archive=in_archive)
    if reason := by_name if limits.by_content else NOT_NAMED_LIKE_ONE:
        return SkippedFile(source, place, reason)
    try:
        stream = opened()
        if stream is None:
            return SkippedFile(source, place, NO_REGULAR_FILE)
        with stream:
            return recognised(stream, source, place, limits)
    except InvalidDocument as error:
        return error
    except errors:
        return SkippedFile(source, place, NOT_READABLE)


def or_empty(items: Iterable[SourceItem], place: str, kind: str = "folder") -> Iterator[SourceItem]:
    """Yield ``items``; at the end, refuse the whole folder or archive if no item is a document."""
    skipped: Counter[str] = Counter()
    has_documents = False
    for item in items:
        if isinstance(item, SkippedFile):
            skipped[item.reason] += 1
        else:
            has_documents = True
        yield item
    if not has_documents:
        yield empty(place, skipped, kind)
