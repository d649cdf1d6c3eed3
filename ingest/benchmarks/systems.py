"""The benchmark systems whose result files are recognised: a new system is one line here.

A system is recognised by the content of its files. Several systems call their results
``result_0.txt`` or ``1``, and users rename files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ingest.benchmarks.result_tree import ResultReader


@dataclass(frozen=True, slots=True)
class BenchmarkSystem:
    """A benchmark system whose result files can be recognised.

    :param key: stable code for scripts
    :param title: displayed name
    :param content: matches a part of every result file of this system and of no result file of
        another; lines end with a line feed
    :param reader_name: module of its reader below ``ingest.benchmarks.readers``, and the reader
        there if it has several
    :param end: matches after ``content``, if both are needed; the parts may be far apart
    :param outer: its files may have the marks of programs that it runs
    """

    key: str
    title: str
    content: re.Pattern[bytes]
    reader_name: str
    end: re.Pattern[bytes] | None = None
    outer: bool = False

    @property
    def reader(self) -> ResultReader:
        """The function that reads this system's files, imported at first use."""
        module, _, name = self.reader_name.partition(":")
        readers = import_module(f"ingest.benchmarks.readers.{module}")
        return cast("ResultReader", getattr(readers, name or "read"))


#: The marks of all systems.
_MARKS: list[bytes] = []


def _system(
    key: str, title: str, *alternatives: bytes, reader: str, end: bytes | None = None,
    outer: bool = False,
) -> BenchmarkSystem:  # fmt: skip
    _MARKS.extend((*alternatives, end) if end else alternatives)
    content = re.compile(b"|".join(alternatives), re.MULTILINE)
    last = None if end is None else re.compile(end, re.MULTILINE)
    return BenchmarkSystem(key, title, content, reader, last, outer)


def has_mark(text: bytes) -> bool:
    """Whether ``text`` has a mark of any system.

    Most parts of large files have no mark. One search for all marks at the beginnings of lines, and
    one for each other mark, which begins with fixed text, take a tenth of the time of a search for
    each system.
    """
    return any(pattern.search(text) for pattern in _any_mark())


@cache
def _any_mark() -> list[re.Pattern[bytes]]:
    anchored = b"|".join(it[1:] for it in _MARKS if it.startswith(b"^"))
    others = [re.compile(it) for it in _MARKS if not it.startswith(b"^")]
    return [*others, re.compile(b"^(?:%b)" % anchored, re.MULTILINE)]


#: In any order, because no file has the marks of two systems, unless one of them is an outer one.
_SYSTEMS = (
    _system(
        "mlperf-training", "MLPerf Training",
        rb":::MLL \d+\.", rb":::MLPv\d[\d.]* \w+ \d",
        # LoadGen of MLPerf Inference writes such lines, too, but in its own namespace.
        rb":::MLLOG (?!(?:(?!:::MLLOG).)*mlperf::logging)",
        rb"^MLPerf: \w+ \[", rb'"ml_libraries":',
        rb'"interconnect":[^{]*"libraries":[^{]*"compilers":',
        reader="mlperf_training",
    ),
    _system(
        "mlperf-inference", "MLPerf Inference",
        rb":::MLLOG (?:(?!:::MLLOG).)*mlperf::logging",
        rb"^MLPerf Results Summary", rb"^No errors encountered during test",
        rb"^\d+ ERRORS? encountered\. See detailed log", rb"^TestScenario\.\w+ qps=",
        rb"accuracy=[\d.]+%, good=\d+, total=\d+", rb"^mAP=[\d.]+%", rb"^BLEU: [\d.]+$",
        rb'^\{"exact_match": [\d.]+, "f1": [\d.]+\}\nhash=', rb"^\{'rouge1': .*'gen_len': ",
        rb"^[\w*-]+\.(?:SingleStream|MultiStream|Server|Offline)\.\w+ *=",
        rb'"starting_weights_filename":', rb'"host_processor_model_name":',
        rb'"config_name": *"[\w.-]+_(?:SingleStream|MultiStream|Server|Offline)"',
        reader="mlperf_inference",
    ),
    _system("perfzero", "PerfZero", rb'"ml_framework_info":', reader="perfzero", outer=True),
    _system(
        "tf_cnn_benchmarks", "tf_cnn_benchmarks",
        rb"images/sec: [\d.]+ \+/- ", rb"^total[ \t]+images/sec:", rb'"machine_config":',
        rb'"\w*examples_per_sec"', rb'"eval_top_[15]_accuracy"', rb"^name_gpu,num_gpu,",
        reader="tf_cnn",
    ),
    _system(
        "pytorch-benchmark", "pytorch-benchmark", rb"^machine_info:$", end=rb"^timing:$",
        reader="pytorch:read_benchmark",
    ),
    _system(
        "pytest-benchmark", "pytest-benchmark", rb'"machine_info": *\{',
        end=rb'"commit_info": *\{', reader="benchmark_programs",
    ),
    _system("pyperf", "pyperf", rb'"perf_version" *:', reader="benchmark_programs"),
    _system("asv", "asv", rb'"result_columns" *:', reader="benchmark_programs"),
    _system(
        "hyperfine", "hyperfine", rb'"results" *: *\[\s*\{\s*"command" *:',
        reader="benchmark_programs",
    ),
    _system(
        "google-benchmark", "Google Benchmark", rb'"library_build_type" *:',
        reader="benchmark_programs",
    ),
    _system("llama-bench", "llama-bench", rb'"samples_ns" *:', reader="benchmark_programs"),
    _system(
        "vllm-bench", "vLLM serving benchmark", rb'"total_token_throughput" *:',
        reader="llm_serving",
    ),
    _system(
        "sglang-bench", "SGLang serving benchmark", rb'"total_output_tokens_retokenized" *:',
        reader="llm_serving",
    ),
    _system(
        "llm-d", "llm-d benchmark report", rb"^ +request_performance:",
        rb'"request_performance" *:', reader="llm_serving:read_reports", outer=True,
    ),
    _system(
        "aiconfigurator", "NVIDIA AIConfigurator", rb"^PAR1", end=rb"kernel_source",
        reader="aiconfigurator",
    ),
    _system(
        "deepbench", "DeepBench",
        rb"Dense Matrix Multiplication", rb"Recurrent Layers - ", rb"^ +m +n +k +a_t +b_t ",
        rb"fwd_time \(usec\)",
        rb"^(?:[SD]GEMM|GEMM_S8U8S32)\(\w,\w,\d+",
        reader="deepbench",
    ),
    _system(
        "osu-micro-benchmarks", "OSU Micro-Benchmarks",
        # The all-reduce of DeepBench begins with such a line, too.
        rb"^[ \t]*# OSU .{1,100} Test\b(?!.*\n# Number of Ranks)",
        reader="osu",
    ),
    _system(
        "dawnbench", "DAWNBench",
        rb'"codeURL":', rb'"costPerHour":', rb'"authorEmail":',
        rb"^(?=[\w \t]*\bhours\b)(?=[\w \t]*\bepoch\b)(?=[\w \t]*\b(?:top[15]|f1))[\w \t]+$",
        reader="dawnbench",
    ),
    _system(
        "hpe-dlcookbook", "HPE Deep Learning Benchmarking Suite",
        rb"^[ \t]*__(?:exp|results)\.[\w.]+__[ \t]*=", rb'"exp\.model_title":',
        reader="hpe_dlbs",
    ),
    _system(
        "aiot-bench", "AIoT Bench", rb"^device fingerprint:", rb"^v[io]ps:",
        reader="aibench:read_aiot",
    ),
    _system(
        "edge-aibench", "Edge AIBench",
        rb"^(?=[a-z,]*\blane\b)(?=[a-z,]*\bdetection\b)(?=[a-z,]*\blight\b)[a-z,]+$",
        rb"^type,Lane Keeping,", rb"^Validation rate: .*@ FAR=",
        rb"^==\d+== NVPROF is profiling .*label_image\.py",
        reader="aibench:read_edge",
    ),
    _system(
        "aibench", "AIBench",
        rb"^(?=[\w,;\t]*\btimeStamp\b)(?=[\w,;\t]*\belapsed\b)(?=[\w,;\t]*\blabel\b)"
        rb"[\w,;\t]+$",
        rb"^==\d+== NVPROF is profiling(?!.*label_image\.py)",
        rb"^iter: \d+ mle_loss:",
        reader="aibench",
    ),
    _system(
        "aiia-dnn", "AIIA DNN benchmark",
        rb"\|[ \t]*Product[ \t]*\|[ \t]*Platform[ \t]*\|[ \t]*Device[ \t]*\|[ \t]*Framework",
        rb"^#* *processor_name(?::|\xef\xbc\x9a)",  # the second is a full-width colon
        reader="aiia_dnn",
    ),
    _system(
        "jetson", "NVIDIA Jetson benchmarks",
        rb"^Model Name: .*\n+[ \t]*FPS:[\d.]+",
        rb"^\|[ \t]*\*{0,2}Model Name\*{0,2}[ \t]*\|[ \t]*\*{0,2}FPS",
        rb"^ModelName,FrameWork,Devices,", rb"Average on \d+ runs - GPU latency",
        rb"&&&& (?:RUNNING|FAILED) TensorRT\.trtexec", rb"^(?:\[.*\] )?GPU Compute Time: min = ",
        rb"^ +Model Name +FPS *$",
        reader="jetson",
    ),
    _system(
        "aiperf", "AIPerf", rb"^Final (?:Regulated )?Score *: .*GFLOPS", reader="aiperf"
    ),
    _system(
        "ianvs", "KubeEdge Ianvs",
        rb"^\|? *(?:rank *[|,;\t] *)?algorithm *[|,;\t](?:.*[|,;\t])? *paradigm *[|,;\t]",
        rb"^time,paradigm,algorithm,",
        reader="ianvs",
    ),
    _system(
        "pytorch-v3", "PyTorch OSS benchmark record v3",
        rb'"metric"\s*:\s*\{[^{}]*"benchmark_values"\s*:', reader="pytorch:read_records",
    ),
)  # fmt: skip

#: Tried in this order; the first that matches anywhere in a file counts.
SYSTEMS = tuple(sorted(_SYSTEMS, key=lambda it: not it.outer))
