"""Tables and logs of benchmark systems, written by hand in the form of each system."""

from __future__ import annotations

JETSON_CONSOLE = """Setting Jetson nx in max performance mode
------------Executing inception_v4------------

--------------------------

Model Name: inception_v4 \nFPS:311.73 \n
--------------------------

------------Executing vgg19_N2------------

Error in Build, Please check the log in: /home/jo/jetson_benchmarks/models/
--------------------------

Model Name: vgg19_N2 \nFPS:0.00 \n
--------------------------

         Model Name     FPS
0      inception_v4  311.73
1          vgg19_N2    0.00
2   yolov3-tiny-416  546.69
"""

JETSON_INPUTS = """\
ModelName,FrameWork,Devices,BatchSizeGPU,BatchSizeDLA,WS_GPU,WS_DLA,input,output,URL
inception_v4,caffe,3,2,1,2048,None,NA,prob,https://models.example/inception_v4.prototxt
"""


def trtexec_log(
    start: str, latencies: list[float], end_to_end: float | None = None, runs: int = 100
) -> str:
    """A log of ``trtexec`` before TensorRT 8.4, or later without ``end_to_end``.

    :param start: time of day
    :param latencies: mean latency of the GPU in each average, ms
    """
    detail = "enqueue 1 ms" if end_to_end is None else f"end to end {end_to_end} ms, enqueue 1 ms"
    averages = "".join(
        f"[09/02/2021-{start}] [I] Average on {runs} runs - GPU latency: {it} ms"
        f" - Host latency: 9.5 ms ({detail})\n"
        for it in latencies
    )
    return f"""&&&& RUNNING TensorRT.trtexec [TensorRT v8201] # ./trtexec --int8 --batch=4
[09/02/2021-{start}] [I] Precision: FP32+INT8
[09/02/2021-{start}] [I] Batch: 4
[09/02/2021-{start}] [I] Selected Device: Xavier
[09/02/2021-{start}] [I] Starting inference
{averages}[09/02/2021-{start}] [I] throughput: 0 qps
"""


#: In the form of TensorRT 8.4 and later, without a line for each average.
TRTEXEC_SUMMARY = """&&&& RUNNING TensorRT.trtexec [TensorRT v8401] # trtexec --onnx=m.onnx --fp16
[07/25/2022-19:02:53] [I] Precision: FP32+FP16
[07/25/2022-19:02:53] [I] Selected Device: Example GPU
[07/25/2022-19:02:53] [I] Starting inference
[07/25/2022-19:02:56] [I] === Performance summary ===
[07/25/2022-19:02:56] [I] Throughput: 2.54521e+03 qps
[07/25/2022-19:02:56] [I] Latency: min = 9.4 ms, max = 51.4 ms, mean = 16.5 ms, median = 11.6 ms
[07/25/2022-19:02:56] [I] GPU Compute Time: min = 5.9 ms, max = 9.4 ms, mean = 7.35 ms, median = 7.1 ms
[07/25/2022-19:02:56] [I] Total GPU Compute Time: 7.02881 s
&&&& PASSED TensorRT.trtexec [TensorRT v8401]
"""  # noqa: E501

#: In the form of TensorRT 5 and 6.
TRTEXEC_WALLTIME = """deploy: /home/jo/data/ResNet50_224x224.prototxt
output: prob
fp16
batch: 4
Input "data": 3x224x224
Average over 10 runs is 8.5 ms (host walltime is 9.1 ms, 99% percentile time is 8.7).
Average over 10 runs is 9.5 ms (host walltime is 9.9 ms, 99% percentile time is 9.7).
"""

IANVS_CSV = """rank,algorithm,f1_score,map,paradigm,basemodel,basemodel-lr,time,url
1,fpn,0.95,,singletask,FPN,0.1,2025-01-06 14:30:30,/x/3a76bc25-cc0b-11ef-9f00-65cc74a7c013
2,fpn,0.84,N/A,singletask,~/FPN,0.2,2025-01-06 14:25:18,/home/3a76bc24-cc0b-11ef-9f00-65cc74a7c013
"""
IANVS_WITHOUT_RANK = """algorithm,paradigm,accuracy,latency,basemodel,basemodel-epochs,time,url
edge,jointinference,0.92,0.25,B,10,0.0,test_5
"""
IANVS_MARKDOWN = """# Leaderboard

Some text | with a bar.

|rank  |algorithm | f1_score|paradigm           |basemodel  |learning_rate  |time               |
|:----:|:--------:|:-------:|:-----------------:|:---------:|:-------------:|-------------------|
|1     |fpn       | 0.9572  |incrementallearning|FPN        | 0.1           |2022-07-07 20:14:12|
"""
IANVS_BOX = """[2024-10-28 16:58:30] starts
+------+-----------+----------+----------------+------------+------------------------------------+
| rank | algorithm | Accuracy |    paradigm    |    time    |                url                 |
+------+-----------+----------+----------------+------------+------------------------------------+
|  1   |   query   |  84.22   | jointinference | 2024-10-28 | ./workspace-mmlu/job/query-routing |
|      |  routing  |          |                |  16:58:30  | /b8eb2606-950a-11ef-8cbc-c97e05df5 |
|      |           |          |                |            |                d14                 |
+------+-----------+----------+----------------+------------+------------------------------------+
"""
IANVS_JOB = """benchmarkingjob:
  name: benchmarkingjob
  rank:
    sort_by: [ { "f1_score": "descend" }, { "map": "ascend" } ]
    selected_dataitem:
      metrics: [ "f1_score" ]
"""

FRAMES = """lane,detection,light,sign\r
0.2,0.5,,0.1\r
0.4,,,0.1\r
,0.25,,\r
"""
FACES = """Runnning forward pass on LFW images
Accuracy: 0.99650+-0.00252
Validation rate: 0.98367+-0.00948 @ FAR=0.00100
Area Under Curve (AUC): 0.999
Equal Error Rate (EER): 0.003
"""
NVPROF = """==2677== NVPROF is profiling process 2677, command: /home/jo/python {script} /data/jo
==2677== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,s,,ms,ms,ms,
"GPU activities",75.0,0.3,10,30.0,1.0,50.0,"volta_sgemm<float, int=1>"
"GPU activities",25.0,0.1,5,20.0,1.0,50.0,"[CUDA memcpy HtoD]"
"API calls",100.0,9.0,5,20.0,1.0,50.0,"cudaMalloc"
"""

#: In the form before CUDA 9, with tables of API calls and clocks of their own.
NVPROF_TABLES = """==2677== NVPROF is profiling process 2677, command: python train.py
==2677== Profiling result:
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,ms,,ms,ms,ms,
75.0,300.0,10,30.0,1.0,50.0,"volta_sgemm<float, int=1>"
25.0,100.0,5,20.0,1.0,50.0,"[CUDA memcpy HtoD]"

==2677== System profiling result:
"","Device","Count","Avg","Min","Max"
"Fan (%)","Example GPU (0)",111,23.0,23.0,23.0

==2677== API calls:
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,s,,ms,ms,ms,
100.0,9.0,5,1.8,1.0,2.0,"cudaLaunch"
"""

#: The table that ``nvprof`` prints by default.
NVPROF_TABLE = """==2677== NVPROF is profiling process 2677, command: python train.py
==2677== Profiling application: python train.py
==2677== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  300.0ms        10  30.0ms  512ns  50.0ms  volta_sgemm(float*, int)
                   25.00%  100000us        5  20.0ms  1.0us  50.0ms  [CUDA memcpy HtoD]
      API calls:  100.00%  9.0s             5  1.8s  1.0us  2.0s  cudaMalloc
"""


def jmeter_log(latencies: list[int], failed: int = 0, label: str = "Search") -> str:
    """A log of JMeter with one request in a second; the first ``failed`` requests fail."""
    header = "timeStamp,elapsed,label,responseCode,responseMessage,success,allThreads,URL\n"
    return header + "".join(
        f'{1620288450000 + 1000 * number},{it},{label},200,"a, b",'
        f"{str(number >= failed).lower()},20,http://build-17.corp.example:8088/search?user=jo\n"
        for number, it in enumerate(latencies)
    )


def jmeter_xml(latencies: list[int], failed: int = 0, label: str = "Search") -> str:
    """The log of :func:`jmeter_log` in XML; the first request has parts of its own."""
    requests = "".join(
        f'<httpSample t="{it}" lt="1" ts="{1620288450000 + 1000 * number}" lb="{label}" rc="200" '
        f's="{str(number >= failed).lower()}" na="20">\n'
        + ('<httpSample t="1" ts="1" lb="part" s="false"/>' if number == 0 else "")
        + "<java.net.URL>http://build-17.corp.example:8088/search?user=jo&amp;n=1</java.net.URL>\n"
        "</httpSample>\n"
        for number, it in enumerate(latencies)
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<testResults version="1.2">\n'
    return f"{head}{requests}</testResults>\n"


_AIIA_ROWS = (
    ("Product", "Platform", "Device", "Framework", "System", "Test1: Object_Classification\u3000",
     "\u3000\u3000", "Test2: Super_Resolution"),
    ("-----",) * 8,
    ("", "", "", "", "", "\u3000mobilenet_v2", "\u3000vgg16", "\u3000vdsr"),
    ("", "", "", "", "", "FPS\u3000TOP1\u3000TOP5", "FPS\u3000TOP1\u3000TOP5", "FPS\u3000PSNR(dB)"),
    ("Phone", "chip", "NPU", "HIAI", "Android", "101.90\u300071.3%\u300088.3%",
     "-\u3000\u3000-\u3000-", "12.42\u300024.92"),
)  # fmt: skip
AIIA_TABLE = "#### FLOAT16 Inference\n\n" + "".join(
    "|\t" + "\t|\t".join(row) + "\t|\n" for row in _AIIA_ROWS
)
AIIA_BLOCK = """##############################
#processor_name\uff1aV100
#test_name\uff1aclassification
#model_name\uff1aresnet50
#batch size\uff1a16
#power\uff1a
#latency\uff1a12.5 ms/batch
#throughput\uff1a1280
#top1\uff1a75.1%
##############################
"""
