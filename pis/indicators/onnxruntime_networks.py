"""The indicator ``onnxruntime``: small networks on the CPU, whose ONNX files the script writes.

- ``mlp``: three dense layers of 512 with ReLU, for a batch of 64.
- ``conv``: two convolutions of 3 x 3 with 32 channels and ReLU, for 4 images of 56 x 56.
- ``session``: load and optimize the dense network, as a program's start does.
"""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, near
from pis.indicators.threads import THREAD_VARIABLES


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _varint(value >> 7)


def _field(number: int, *values: Any) -> bytes:
    """A field of a protobuf message: whole numbers, texts, bytes or nested messages."""
    message = b""
    for value in values:
        if isinstance(value, int):
            message += _varint(8 * number) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            message += _varint(8 * number + 2) + _varint(len(data)) + data
    return message


def _tensor_type(name: str, shape: tuple[int, ...]) -> bytes:
    """A ``ValueInfoProto`` of float32."""
    dimensions = _field(1, *(_field(1, it) for it in shape))
    return _field(1, name) + _field(2, _field(1, _field(1, 1) + _field(2, dimensions)))


def _network(kind: str, weights: list[Any], shape: tuple[int, ...]) -> bytes:
    """A ``ModelProto`` of opset 13: layers of ``kind`` with ReLU, from ``x`` to ``y``."""
    pads = _field(5, _field(1, "pads") + _field(8, 1, 1, 1, 1) + _field(20, 7))
    attributes, graph, source = pads if kind == "Conv" else b"", _field(2, kind), "x"
    for n, weight in enumerate(weights):
        target = "y" if n == len(weights) - 1 else f"h{n}"
        layer = _field(1, source, f"w{n}") + _field(2, f"z{n}") + _field(4, kind) + attributes
        relu = _field(1, f"z{n}") + _field(2, target) + _field(4, "Relu")
        tensor = _field(1, *weight.shape) + _field(2, 1) + _field(8, f"w{n}")
        graph += _field(1, layer, relu) + _field(5, tensor + _field(9, weight.tobytes()))
        source = target
    graph += _field(11, _tensor_type("x", shape)) + _field(12, _tensor_type("y", shape))
    return _field(1, 8) + _field(8, _field(2, 13)) + _field(7, graph)


def _session(onnxruntime: Any, network: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get(THREAD_VARIABLES[0], "1"))
    return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])


def _drawn(seed: int, shape: tuple[int, ...], kernel: tuple[int, ...], layers: int) -> Any:
    """Weights that keep the size of what passes through, and an input."""
    draw = import_module("numpy").random.default_rng(seed)
    scale = (2 / (kernel[0] * kernel[-1] ** (len(kernel) - 2))) ** 0.5
    weights = [draw.normal(0, scale, kernel).astype("float32") for _ in range(layers)]
    return weights, draw.normal(size=shape).astype("float32")


def _check_result(expected: Any, output: Any) -> float:
    """Compare all elements with a float64 result, and return their sum."""
    near(0.0, float(abs(output[0] - expected).max() / abs(expected).max()), 1e-4)
    return float(output[0].sum())


def _dense(seed: int) -> tuple[bytes, Any, Any]:
    """A network, its input and the expected output."""
    weights, x = _drawn(seed, (64, 512), (512, 512), 3)
    expected = x.astype("float64")
    for weight in weights:
        expected = (expected @ weight).clip(min=0)
    return _network("Gemm", weights, x.shape), x, expected


def mlp(onnxruntime: Any, seed: int) -> Made:
    network, x, expected = _dense(seed)
    run = _session(onnxruntime, network).run
    check = partial(_check_result, expected)
    return Made(lambda: run(None, {"x": x}), check, {"batch": 64, "layers": 3})


def conv(onnxruntime: Any, seed: int) -> Made:
    np = import_module("numpy")
    weights, x = _drawn(seed, (4, 32, 56, 56), (32, 32, 3, 3), 2)
    run, expected = _session(onnxruntime, _network("Conv", weights, x.shape)).run, x
    for weight in weights:
        padded = np.pad(expected.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        expected = np.einsum("ncyxij,kcij->nkyx", windows, weight, optimize=True).clip(min=0)
    check = partial(_check_result, expected)
    return Made(lambda: run(None, {"x": x}), check, {"images": 4, "layers": 2})


def session(onnxruntime: Any, seed: int) -> Made:
    network, x, expected = _dense(seed)
    check = lambda it: _check_result(expected, it.run(None, {"x": x}))  # noqa: E731
    return Made(lambda: _session(onnxruntime, network), check, {"layers": 3})


INDICATOR = library_indicator(
    "onnxruntime",
    "PiOnnxruntime",
    "Run small networks, and load them, with ONNX Runtime on the CPU.",
    {"mlp": mlp, "conv": conv, "session": session},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
