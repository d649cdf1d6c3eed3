"""PyTorch, on the CPU or one CUDA GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pis.indicators.errors import Unsupported
from pis.indicators.frameworks import Framework, repeated

_NOT_IMPLEMENTED = re.compile(
    r"not implemented|not supported|unsupported|size\(\d\) needs to be", re.IGNORECASE
)


class TorchFramework(Framework):
    """PyTorch; on a GPU, CUDA events measure the time."""

    name = "torch"

    def _set_up(self, threads: int) -> None:
        torch = self.module
        torch.set_num_threads(threads)
        if self.device == "cuda":
            if not torch.cuda.is_available():
                raise Unsupported(f"torch {self.version} finds no CUDA device: use --device cpu")
            self.clock = "cuda_event"
            self.tf32 = bool(torch.backends.cuda.matmul.allow_tf32)

    def normal(self, shape: Sequence[int], dtype: str, seed: int) -> Any:
        torch = self.module
        generator = torch.Generator().manual_seed(seed)
        values = torch.randn(tuple(shape), generator=generator, dtype=torch.float32)
        return values.to(device=self.device, dtype=self.dtype(dtype))

    def integers(
        self, shape: Sequence[int], low: int, high: int, seed: int, dtype: str = "int64"
    ) -> Any:
        torch = self.module
        generator = torch.Generator().manual_seed(seed)
        values = torch.randint(low, high, tuple(shape), generator=generator)
        return values.to(device=self.device, dtype=self.dtype(dtype))

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        return self.module.zeros(tuple(shape), dtype=self.dtype(dtype), device=self.device)

    def to_host(self, value: Any) -> Any:
        torch = self.module
        tensor = torch.as_tensor(value).detach()
        exact = tensor.is_floating_point()
        return tensor.to("cpu").to(torch.float64 if exact else torch.int64).tolist()

    def synchronize(self, output: Any = None) -> None:
        if self.device == "cuda":
            self.module.cuda.synchronize()

    def timed(self, call: Callable[[], Any], calls: int) -> tuple[float, Any]:
        if self.device != "cuda":
            return super().timed(call, calls)
        cuda = self.module.cuda
        began, ended = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        began.record()
        output = repeated(call, calls)
        ended.record()
        ended.synchronize()
        return began.elapsed_time(ended) * 1e-3, output

    def threads(self) -> int | None:
        return int(self.module.get_num_threads())

    def refuses(self, error: Exception) -> bool:
        return super().refuses(error) or (
            isinstance(error, RuntimeError) and bool(_NOT_IMPLEMENTED.search(str(error)))
        )

    def build(self) -> dict[str, Any]:
        torch = self.module
        settings = re.search(r"Build settings: (.*)", torch.__config__.show())
        said = settings.group(1) if settings else ""
        return {
            "blas": _setting(said, "BLAS_INFO"),
            "compile_flags": _setting(said, "CXX_FLAGS"),
            "capability": _called(torch, "backends.cpu.get_cpu_capability"),
            "onednn": bool(torch.backends.mkldnn.is_available()),
            "mkl": bool(torch.backends.mkl.is_available()),
            "cuda": torch.version.cuda,
            "cudnn": _called(torch, "backends.cudnn.version") if torch.version.cuda else None,
            "git": torch.version.git_version,
            "tf32": self.tf32,
        }


def _setting(said: str, name: str) -> str | None:
    """The value of one setting in a text like ``BLAS_INFO=mkl, CXX_FLAGS=…, …``."""
    found = re.search(rf"\b{name}=(.*?)(?:, [A-Z_]+=|, *$|$)", said)
    return found.group(1).strip() if found else None


def _called(module: Any, path: str) -> Any:
    """Call the function at ``path``; ``None`` if this version of PyTorch does not have it."""
    for name in path.split("."):
        module = getattr(module, name, None)
    return module() if module is not None else None
