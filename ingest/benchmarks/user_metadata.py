"""Versions and hardware that a person states for result files that name neither.

vLLM writes the pairs of ``vllm bench serve --metadata KEY=VALUE`` into its file. For other files,
``thoth ingest benchmarks --metadata KEY=VALUE --lock LOCK`` states them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from packaging.utils import canonicalize_name

from ingest.benchmarks.results import Run, whole_number, with_parameters
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.json_fields import ROOT, FieldPath
from model.measurements.benchmark_results import PYTHON_PACKAGES

#: Packages that serve language models; a result needs the version of one of them.
ENGINES = ("vllm", "sglang", "tensorrt-llm", "lmdeploy", "llm-d")
_PARTS = ("accelerator", "cpu")
_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_SOFTWARE = PYTHON_PACKAGES | {*ENGINES, "cuda", "driver", "image", "nccl", "rocm"}
_KEYS = _SOFTWARE | {*_PARTS, *_PARALLEL, "accelerators", "engine", "engine_version", "model"}
#: Keys that people write, by the key that they mean.
_SPELLINGS = {
    "gpu": "accelerator", "gpu_name": "accelerator", "gpu_type": "accelerator",
    "gpus": "accelerators", "gpu_count": "accelerators", "num_gpus": "accelerators",
    "tp": "tensor_parallel_size", "tp_size": "tensor_parallel_size",
    "pp": "pipeline_parallel_size", "pp_size": "pipeline_parallel_size",
    "dp": "data_parallel_size", "dp_size": "data_parallel_size", "version": "engine_version",
    **{f"{it.replace('-', '_')}_version": it for it in ENGINES},
}  # fmt: skip
_LONGEST = 200


def known_facts(pairs: Mapping[str, object]) -> dict[str, str]:
    """The pairs with a known key, under its canonical name; other keys may name a person.

    >>> known_facts({"vllm_version": "0.10.1", "gpu": "NVIDIA H100", "tp": 4, "owner": "me"})
    {'vllm': '0.10.1', 'accelerator': 'NVIDIA H100', 'tensor_parallel_size': '4'}
    """
    facts: dict[str, str] = {}
    for name, value in pairs.items():
        text = str(value).strip()
        lower = name.strip().lower()
        known = _SPELLINGS.get(lower, lower)
        key = known if known in _KEYS else str(canonicalize_name(known))
        if key in _KEYS and type(value) in (str, int) and text:
            facts[key] = text[:_LONGEST]
    return facts


def stated_facts(
    pairs: Iterable[tuple[str, str]], locked: Iterable[tuple[str, str]] = ()
) -> dict[str, str]:
    """The facts that a person states.

    :param pairs: keys with their values
    :param locked: packages of a lock with their versions; several versions count as unknown
    :raises InvalidArgument: if a key is unknown or has no value, or contradicts another or the lock
    """
    versions: dict[str, set[str]] = {}
    for name, version in locked:
        versions.setdefault(name, set()).add(version)
    facts = {name: it.pop() for name, it in versions.items() if name in _SOFTWARE and len(it) == 1}
    for name, text in pairs:
        stated = known_facts({name: text})
        if not stated:
            keys = ", ".join(sorted(_KEYS - PYTHON_PACKAGES))
            raise InvalidArgument(f"metadata {name}={text}: write a package or one of {keys}")
        for key, value in stated.items():
            if facts.setdefault(key, value) != value:
                raise InvalidArgument(f"metadata {name}={text}: {key} is {facts[key]} elsewhere")
    return facts


def identified(
    run: Run,
    own: Mapping[str, object],
    stated: Mapping[str, str],
    *,
    backend: str = "",
    at: FieldPath = ROOT,
) -> Run:
    """``run`` with the engine's version and the hardware.

    :param own: the facts in the file
    :param stated: by :func:`stated_facts`
    :param backend: begins with the name of the engine, or with that of a protocol
    :param at: path of the fields of ``own``
    :raises InvalidDocument: if neither names them, or both differ
    """
    facts = known_facts(own)
    for key in facts.keys() & stated.keys():
        if facts[key] != stated[key]:
            message = f"the file says {facts[key]}, and the command {stated[key]}: correct one"
            raise InvalidDocument(Reason.CONFLICTING_FIELDS, message, field=at / key)
    facts = {**stated, **facts}
    software: dict[str, str | None] = {key: it for key, it in facts.items() if key in _SOFTWARE}
    named = facts.get("engine", backend).lower()
    engine = next((it for it in ENGINES if named.startswith(it)), None)
    if engine is not None and "engine_version" in facts:
        software.setdefault(engine, facts["engine_version"])
    known = [it for it in ENGINES if it in software]
    hardware = {key: facts[key] for key in _PARTS if key in facts}
    missing = []
    if engine not in known if engine else len(known) != 1:
        remedy = f"--lock LOCK or --metadata {engine or 'vllm'}=VERSION"
        missing.append((engine or "engine", f"the version of {engine or 'one engine'}", remedy))
    if not hardware:
        remedy = "--metadata accelerator=NAME or cpu=NAME"
        missing.append(("accelerator", "the accelerator", remedy))
    if missing:
        keys, parts, remedies = zip(*missing, strict=True)
        message = f"not named: {' and '.join(parts)}; add {' and '.join(remedies)}"
        raise InvalidDocument(Reason.MISSING_FIELD, message, field=at / keys[0])
    parallel = {key: size for key in _PARALLEL if (size := whole_number(facts.get(key)))}
    return replace(
        with_parameters(run, **parallel),
        benchmark=facts.get("model", run.benchmark),
        hardware=hardware,
        software=software,
        accelerators=whole_number(facts.get("accelerators")),
    )
