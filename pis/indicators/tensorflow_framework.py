"""TensorFlow 2, on the CPU or one CUDA GPU."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pis.indicators.errors import Unsupported
from pis.indicators.frameworks import Framework

#: Parts of TensorFlow's messages for a type that an operation does not take.
_NO_SUCH_TYPE = re.compile(r"not in (?:the )?list of allowed values|No OpKernel")


class TensorflowFramework(Framework):
    """TensorFlow, either eager or with each call as one ``tf.function``.

    Operations on the CPU are complete when they return; on a GPU, the code must wait for them.
    """

    name = "tensorflow"

    def _imported(self) -> Any:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        return super()._imported()

    def _set_up(self, threads: int) -> None:
        config = self.module.config
        config.threading.set_intra_op_parallelism_threads(threads)
        config.threading.set_inter_op_parallelism_threads(threads)
        if self.device == "cpu":
            config.set_visible_devices([], "GPU")
            return
        gpus = config.list_physical_devices("GPU")
        if not gpus:
            raise Unsupported(f"tensorflow {self.version} finds no CUDA device: use --device cpu")
        config.set_visible_devices(gpus[:1], "GPU")
        config.experimental.set_memory_growth(gpus[0], True)
        self.tf32 = bool(config.experimental.tensor_float_32_execution_enabled())

    def dtype(self, name: str) -> Any:
        return self.module.as_dtype(super().dtype(name))

    def device_scope(self) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = self.module.device(
            "/CPU:0" if self.device == "cpu" else "/GPU:0"
        )
        return scope

    def normal(self, shape: Sequence[int], dtype: str, seed: int) -> Any:
        tf = self.module
        with self.device_scope():
            values = tf.random.stateless_normal(tuple(shape), seed=(seed, 0), dtype=tf.float32)
            return tf.cast(values, self.dtype(dtype))

    def integers(
        self, shape: Sequence[int], low: int, high: int, seed: int, dtype: str = "int64"
    ) -> Any:
        tf = self.module
        with self.device_scope():
            values = tf.random.stateless_uniform(
                tuple(shape), seed=(seed, 0), minval=low, maxval=high, dtype=tf.int64
            )
            return tf.cast(values, self.dtype(dtype))

    def compiled(self, function: Callable[..., Any], fused: bool = False) -> Callable[..., Any]:
        if self.mode == "eager":
            return function
        compiled: Callable[..., Any] = self.module.function(
            function, **({"jit_compile": True} if fused else {})
        )
        return compiled

    def to_host(self, value: Any) -> Any:
        tf = self.module
        tensor = tf.convert_to_tensor(value)
        whole = tensor.dtype.is_integer or tensor.dtype.is_bool
        return tf.cast(tensor, tf.int64 if whole else tf.float64).numpy().tolist()

    def synchronize(self, output: Any = None) -> None:
        if self.device != "cuda":
            return
        sync = getattr(self.module.test.experimental, "sync_devices", None)  # since 2.12
        if sync is not None:
            sync()
        elif output is not None:
            _first_number(self.module, output)

    def threads(self) -> int | None:
        return int(self.module.config.threading.get_intra_op_parallelism_threads())

    def refuses(self, error: Exception) -> bool:
        errors = self.module.errors
        lacking = (errors.UnimplementedError, errors.NotFoundError)
        return (
            super().refuses(error)
            or isinstance(error, lacking)
            or (
                isinstance(error, (TypeError, ValueError, errors.InvalidArgumentError))
                and bool(_NO_SUCH_TYPE.search(str(error)))
            )
        )

    def build(self) -> dict[str, Any]:
        tf = self.module
        told = dict(tf.sysconfig.get_build_info())
        flags = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
        return {
            "compile_flags": " ".join(flags),
            "compiler": tf.version.COMPILER_VERSION,
            "git": tf.version.GIT_VERSION,
            "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
            "cuda": told.get("cuda_version"),
            "cudnn": told.get("cudnn_version"),
            "tf32": self.tf32,
        }


def _first_number(tf: Any, output: Any) -> Any:
    """Read one number back, which can only arrive after everything before it is done."""
    tensor = tf.nest.flatten(output)[0]
    return tf.reshape(tensor, [-1])[0].numpy()
