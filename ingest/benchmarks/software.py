"""Versions of software, read from the free text in which benchmark entries name it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

#: Spellings in result files, and the one name for each of them.
_NAMES = {
    "tensorflow": "tensorflow", "tf": "tensorflow", "pytorch": "torch", "torch": "torch",
    "mxnet": "mxnet", "apache mxnet": "mxnet", "caffe": "caffe", "caffe2": "caffe2",
    "tensorrt": "tensorrt", "cuda": "cuda", "cuda version": "cuda", "cudnn": "cudnn",
    "cudnn version": "cudnn", "openvino": "openvino", "onnx runtime": "onnxruntime",
    "onnxruntime": "onnxruntime", "nccl": "nccl", "mkl": "mkl", "keras": "keras",
    "dali": "dali", "libjpeg-turbo": "libjpeg-turbo",
}  # fmt: skip
#: Frameworks that a text may name with other words behind, such as "PyTorch NVIDIA Release 19.05".
_FRAMEWORKS = ("tensorflow", "pytorch", "mxnet", "caffe")
#: A name of one or more words, and a version with at least one digit behind it.
_PART = re.compile(
    r"(?P<name>[A-Za-z][\w+ .-]*?)[\s:=]*\bv?(?P<version>\d+(?:\.\d+)*(?:[.\w+-]*\w)?)?\s*\Z"
)
_LONGEST = 300


def software_versions(parts: str | Iterable[str]) -> dict[str, str | None]:
    """Versions by lower-case name, as far as ``parts`` say them; unknown versions are ``None``.

    :param parts: a list such as ``"TensorRT 6.0, CUDA 10.1"``, or its parts

    >>> software_versions("TensorRT 6.0, CUDA 10.1, cuDNN 7.6.3")
    {'tensorrt': '6.0', 'cuda': '10.1', 'cudnn': '7.6.3'}
    >>> software_versions("Pytorch v0.3.1")
    {'torch': '0.3.1'}
    >>> software_versions("TensorFlow"), software_versions("PyTorch NVIDIA Release 19.05")
    ({'tensorflow': None}, {'torch': None})
    """
    texts = re.split(r"[,;/&]| and ", parts) if isinstance(parts, str) else parts
    versions: dict[str, str | None] = {}
    for text in texts:
        match = _PART.match(text.strip()[:_LONGEST])
        if match is None:
            continue
        name = match["name"].strip(" -:").lower()
        known, version = _NAMES.get(name), match["version"]
        first = name.split(" ")[0]
        if known is None and first in _FRAMEWORKS:
            known, version = _NAMES[first], None  # the number is the version of something else
        if known is None:
            # A sentence is not a name: "optimised for" 3 is not a version of anything.
            if version is None or " " in name:
                continue
            known = str(canonicalize_name(name))
        if versions.get(known) is None:
            versions[known] = version
    return versions


def package_version(version: str | None) -> str | None:
    """``version`` in the normal form of PEP 440, or ``None`` if it is not such a version.

    >>> package_version("1.14"), package_version("19.09-py3") is None
    ('1.14', True)
    """
    try:
        return None if version is None else str(Version(version))
    except InvalidVersion:
        return None
