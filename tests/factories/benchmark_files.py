"""Result files of benchmark systems, written by hand in the form of each system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from ingest.benchmarks.pipeline import known_system
from ingest.benchmarks.result_tree import ResultTree
from ingest.sources.source_items import SourceLimits
from model.errors import InvalidDocument
from model.measurements.benchmark_results import BenchmarkResult

DLBS_LOG = """Running something else
__exp.model_title__="ResNet50"
__exp.framework__="nvtfcnn"
__exp.framework_ver__="1.8.0"
__exp.replica_batch__=16
__exp.num_gpus__=1
__results.time__=1.0
__results.time__=96.3
__results.throughput__=166.1
__exp.status__="success"
"""

DAWNBENCH_ENTRY = """{"version": "v1.0", "author": "Jo Doe", "authorEmail": "jo@mail.example",
"framework": "PyTorch v0.1.12", "codeURL": "https://code.example/x", "model": "ResNet 164",
"hardware": "1 K80 / 30 GB / 8 CPU", "costPerHour": 2.0, "timestamp": "2017-10-11",
"misc": {"CUDA version": "8.0"}}"""
DAWNBENCH_TABLE = "epoch\thours\ttop1Accuracy\r\n1\t0.5\t29.54\r\n2\t1.5\t94.01\r\n3\t2.5\t94.5\r\n"

TF_CNN_LOG = """TensorFlow:  1.15
Model:       resnet50
Mode:        training
Batch size:  448 global
224 per device
Devices:     ['/gpu:0', '/gpu:1']
==========
INFO|2020|log|1|1\timages/sec: 950.0 +/- 0.0 (jitter = 0.0)\tnan
INFO|2020|log|1|10\timages/sec: 954.3 +/- 0.5 (jitter = 5.1)\t7.8
----------
total images/sec:\t953.43
"""

#: A run that crashed, a complete run, and an evaluation whose head was cut off.
TF_CNN_RUNS = """TensorFlow:  2.4
Model:       vgg16
Traceback (most recent call last):
TensorFlow:  2.4
Model:       resnet50
Devices:     ['/gpu:0']
1\timages/sec: 310.0 +/- 0.0 (jitter = nan)\t7.9
total images/sec: 312.5
TensorFlow:  2.4
Model:       resnet50
Accuracy @ 1 = 0.7640 Accuracy @ 5 = 0.9310 [49920 examples]
total images/sec: 900.25
"""

TRAINING_JSON_LOG = "".join(
    f':::MLLOG {{"namespace": "", "time_ms": {at}, "event_type": "POINT_IN_TIME", "key": "{key}", '
    f'"value": {value}, "metadata": {{"status": "success"}}}}\n'
    for at, key, value in (
        (1593018000000, "submission_benchmark", '"ssd"'), (1593018060000, "run_start", "null"),
        (1593018600000, "eval_accuracy", "0.231"), (1593018660000, "run_stop", "null"),
    )
)  # fmt: skip

DEEPBENCH_CONVOLUTIONS = """                   Running training benchmark
                         Times
----------------------------------------------------------------
   w      h      c      n      k      f_w    f_h  pad_w  pad_h    stride_w  stride_h    precision\
  fwd_time (usec)  bwd_inputs_time (usec)  bwd_params_time (usec)  total_time (usec)   fwd_algo
----------------------------------------------------------------
  700    161      1      4     32     20      5      0      0         2         2        float\
            100                    0                     300               400   IMPLICIT_GEMM
"""
DEEPBENCH_LAYERS = """                         Times
----------------------------------------------------------------
    type    hidden   N     timesteps   precision     fwd_time (usec)   bwd_time (usec)
 vanilla    1760      16      50        float            8197               9000
    lstm     512      32      25        half             1500               N/A
"""

#: Synthetic, like the three texts below: written after the source of the programs.
DEEPBENCH_ALL_REDUCE = """ NCCL AllReduce
 Num Ranks: 8
---------------------------------------------------------------------------
    # of floats    bytes transferred    Time (msec)
---------------------------------------------------------------------------
         100000         400000               0.173
        3097600       12390400                   0
 Ring AllReduce
 Num Ranks: 2
----------------------------------------------------------------------------------------------------
    # of floats    bytes transferred    Avg Time (msec)    Max Time (msec)
----------------------------------------------------------------------------------------------------
         100000         400000              0.2535              0.2612
"""
DEEPBENCH_MPI_ALL_REDUCE = """# OSU MPI Allreduce Latency Test v4.4.1
# Number of Ranks 4
# Size     Avg Latency(ms)
100000                0.14
3097600               1.85
"""
DEEPBENCH_INTEGER_PRODUCTS = """Running the inference benchmark (first program argument is 0)
GEMM_S8U8S32(N,T,5124,700,2048) 5124.5 usec 2866.93000 GOp/sec
DGEMM(N,N,512,32,512) nan usec nan GFlop/sec
Total time 5124.5 usec, Overall Performance: 2866.93000 GOp/sec
GEMMOP,TA,TB,M,N,K,USEC,GOP/s
GEMMLOWP,false,true,3072,1,1024,350.5,17.9
"""
DEEPBENCH_MKL_CONVOLUTIONS = """ FWD Convolution
W=700, H=161, C=1, N=4, K=32, S=20, R=5 | FWD w/ padding in flops min(ms) 0.31; \
max(gflop/s) 700.00;avg(ms) 0.42; avg(gflop/s) 516.00;
 BWD_F Convolution
W=700, H=161, C=1, N=4, K=32, R=20, S=5 | BWD_F  w/o padding in flops :min(ms) 0.50; \
min(gflop/s) 430.00; avg(ms) 0.00; avg(gflop/s) inf;
BWD_D,0,4,700,161,1,32,20,5,2,2,0,0,3.100000e-01,7.000000e+02,4.000000e-01,5.100000e+02
"""

LOADGEN_SUMMARY = """================================================
MLPerf Results Summary
================================================
SUT name : SUT
Scenario : Server
Mode     : Performance
Scheduled samples per second : {rate}
Result is : {verdict}
  Performance constraints satisfied : {constraints}
  Min duration satisfied : Yes
"""

ENDPOINT_REPORT = """----------------- Summary -----------------
Version: 0.1.0
Run config:
  load_pattern: type=poisson, target_qps=32.5, target_concurrency=None
Total samples issued: 6000
Total samples completed: 5998
Total samples failed: 2
Duration: 200.00 seconds
QPS: 29.99
TPS: 11758.25
Accuracy:
  Average: 81.43

------------------- Latency Breakdowns -------------------
TTFT:
  Min: 101.08 ms
  Max: 3580.10 ms
  Median: 205.52 ms
  Avg.: 212.03 ms
  Std Dev.: 99.27 ms

  Histogram:
      [101.08, 113.84) | 277

  Percentiles:
    99.9: 1874.30 ms
    99.0: 303.55 ms
    90.0: 253.33 ms
    50.0: 205.52 ms
     1.0: 133.57 ms

  Early-stopping percentile estimates (N/A = insufficient samples):
    99.0: 304.65 ms

Latency:
  Avg.: 1469.83 ms

  Percentiles:
    99.0: 7848.62 ms

Output sequence lengths:
  Avg.: 3792.16 tokens

  Percentiles:
    99.0: 20000.00 tokens

----------------- End of Report -----------------
"""

DEEPBENCH_CONSOLE = """    m       n      k      a_t     b_t      time (usec)
   1760     16   1760      n      t          38
   1760     32   1760      n      n          0
"""

PYTORCH_BENCHMARK_CONSOLE = """SmallNet(
  5.29 M, 100.000% Params, 401.67 MMac, 100.000% MACs,
  (features): Sequential(
    (0): Conv2d(864, 0.016% Params, 3, 32, kernel_size=(3, 3), bias=False)
  )
)

device: cuda
flops: 401669732
machine_info:
  cpu:
    model: Example CPU
  gpus:
  - memory: 8192.0 MB
    name: Example GPU
  system:
    node: jos-laptop
    system: Linux
max_inference_memory: 736250368
params: 5288548
timing:
  batch_size_1:
    total:
      human_readable:
        batch_latency: "144.815 \xb5s +/- 16.103 \xb5s [136.614 \xb5s, 272.751 \xb5\\
          s]"
      metrics:
        batches_per_second_mean: 62.5
        seconds_per_batch_mean: 0.016
  batch_size_8:
    total:
      metrics:
        batches_per_second_mean: 50.0
        seconds_per_batch_mean: 0.02
done
"""

PERFZERO_SUMMARY = """{
  "ml_framework_info": {"version": "1.13.0", "name": "tensorflow"}, # versions
  "execution_timestamp": 1550040322.5,
  "benchmark_info": {
    "output_url": "gs://bucket/#1/", # a comment outside the text
    "has_exception": false,
    "site_package_info": {
      "models": {"branch": "master", "url": "https://code.example/tensorflow/models.git",
                 "hash": "f788046ca876a8820e05b0b48c1fc2e16b0955bc"}
    }
  },
  "system_info": {"system_name": "jos-laptop", "accelerator_count": 2,
    "accelerator_model": "Example GPU", "accelerator_driver_version": "410.48",
    "cpu_model": "Example CPU"},
  "process_info": {"max_rss": 4269047808, "max_cpu_percent": 771.1},
  "benchmark_result": {
    "metrics": [
      {"name": "exp_per_second", "value": 90.5},
      {"name": "accuracy_top_1", "value": 0.25, "succeeded": true, "min_value": 0.2}
    ],
    "name": "official.resnet.ExampleTests.unit_test",
    "succeeded": true,
    "wall_time": -1
  }
}
"""

#: Synthetic: written after the source of the app, no published log is known.
AIOT_BENCH_LOG = """device:Example Phone
ram size:6 GB
device fingerprint:example/phone/phone:10/QKQ1/1:user/release-keys
device hardware:qcom
device sdk int:29
resource name:imagenet_2012
image count:100
time total:7000ms
vips:50.0
vops:2.5E9


workload
name:pytorch resnet50
framework:pytorch
framework:float
device:cpu
model:resnet50
time_load:300ms
time_first_img:80ms
time_total:5000ms
time_avg:50.0ms
time_sd:1.5ms
accuracy:0.75


workload
name:tflite mobilenet_v2
framework:tflite
framework:int8
device:nnapi
model:mobilenet_v2
time_load:100ms
time_first_img:30ms
time_total:2000ms
time_avg:20.0ms
time_sd:0.5ms
accuracy:0.7
"""

#: Synthetic: written after the source of the report, no published file is known.
AIPERF_REPORT = """======================================================================
Final Score : 560.5 GFLOPS
Final Regulated Score : 700.25 GFLOPS
======================================================================
 Time(H)  \t Error(%) \t  Score   \tRegulated Score
----------------------------------------------------------------------
   0.6    \t   40.0   \t  540.0   \t  500.0
   1.2    \t   28.5   \t  560.5   \t  700.25
======================================================================
{'real_time': ['0.6', '1.2'], 'GFLOPS': ['540.0', '560.5'], 'Error': ['40.0', '28.5'], \
'Score': ['500.0', '700.25']}
----------------------------------------------------------------------
"""

#: In the form of vLLM, with one invented path.
VLLM_RECORDS = """[
  {"benchmark": {"name": "vLLM benchmark", "extra_info": {
     "args": {"host": "jos-laptop", "model": "/home/jo/llama", "input_len": 32, "batch_size": 8,
              "tensor_parallel_size": 1}, "device": "cuda", "arch": "Example GPU"}},
   "model": {"name": "/home/jo/llama"},
   "metric": {"name": "p99_ttft_ms", "benchmark_values": [12.5], "extra_info": {}}},
  {"benchmark": {"name": "vLLM benchmark", "extra_info": {"device": "cpu", "arch": "x86_64"}},
   "model": {"name": "meta-llama/Llama-3"},
   "metric": {"name": "latency", "benchmark_values": ["inf"]}},
  {"benchmark": {"name": "vLLM benchmark", "mode": "inference", "dtype": "bfloat16"},
   "model": {"name": "meta-llama/Llama-3"}, "timestamp": 1700000000,
   "runners": [{"name": "jos-laptop", "type": "linux.example", "gpu_info": "Example GPU",
                "gpu_count": 8, "cpu_info": "Example CPU"}],
   "dependencies": {"pytorch": {"version": "2.5.1"}, "vllm": {"sha": "07bf28e"}},
   "metric": {"name": "tokens_per_second", "benchmark_values": [100.0, 110.0, 120.0]}}
]
"""

#: In the form of torchao, which appends a record for each line.
TORCHAO_RECORDS = """\
{"benchmark": {"name": "TorchAO benchmark", "mode": "inference", "dtype": "int8"}, \
"model": {"name": "small", "type": "model"}, \
"metric": {"name": "speedup", "benchmark_values": [1.5], "target_value": 1.0}}
{"benchmark": {"name": "TorchAO benchmark", "mode": "inference", "dtype": "int8"}, \
"model": {"name": "large", "type": "model"}, \
"metric": {"name": "graph_breaks", "benchmark_values": [0]}}
"""


def training_log(start: float, stop: float, status: str = "success") -> str:
    """A log of MLPerf Training v0.6, with lines that a second process repeats."""
    lines = [
        (0.0, "submission_benchmark", '{"value": "resnet"}'),
        (start, "run_start", '{"value": null}'),
        (start + 1, "run_start", '{"value": null}'),
        (stop - 1, "run_stop", f'{{"value": null, "metadata": {{"status": "{status}"}}}}'),
        (stop, "run_stop", f'{{"value": null, "metadata": {{"status": "{status}"}}}}'),
    ]
    return "".join(f":::MLL {at:.3f} {key}: {value}\n" for at, key, value in lines)


def write_files(folder: Path, files: Mapping[str, str] | Mapping[str, bytes]) -> None:
    """Write files by their paths below ``folder``."""
    for place, text in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)


def read_files(
    folder: Path, system: str, files: Mapping[str, str] | Mapping[str, bytes]
) -> tuple[list[BenchmarkResult], list[InvalidDocument]]:
    """Results and refusals of ``files``, read as those of one system."""
    write_files(folder, files)
    tree = ResultTree("source", LocalFileSystem(), str(folder), sorted(files), SourceLimits())
    reader = known_system(system).reader
    assert reader is not None
    results: list[BenchmarkResult] = []
    refusals: list[InvalidDocument] = []
    items: Iterator[BenchmarkResult | InvalidDocument] = reader(tree, tree.places)
    for item in items:
        if isinstance(item, InvalidDocument):
            refusals.append(item)
        else:
            results.append(item)
    return results, refusals
