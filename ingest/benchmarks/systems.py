"""Recognises result files of benchmark systems by their content.

Each benchmark system has one entry in :data:`SYSTEMS`. File names are not enough: several systems
call their results ``result_0.txt`` or ``1``, and users rename files.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from dataclasses import dataclass

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
