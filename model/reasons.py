"""Stable reason codes for what is refused, corrected or excluded."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Reason codes of refused documents; the values are stored and never renamed."""

    EMPTY_FILE = "empty_file"
    EMPTY_FOLDER = "empty_folder"
    UNREADABLE = "unreadable"
    FILE_TOO_LARGE = "file_too_large"
    NOT_UTF8 = "not_utf8"
    INVALID_JSON = "invalid_json"
    TRUNCATED_JSON = "truncated_json"
    NUL_CHARACTER = "nul_character"
    LONE_SURROGATE = "lone_surrogate"
    NOT_A_NUMBER = "not_a_number"
    INFINITE = "infinite"
    DUPLICATE_KEY = "duplicate_key"
    NESTED_TOO_DEEP = "nested_too_deep"
    UNKNOWN_SCHEMA = "unknown_schema"
    FOREIGN_BENCHMARK = "foreign_benchmark"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    CONFLICTING_FIELDS = "conflicting_fields"
    RATE_NEGATIVE = "rate_negative"
    RATE_ZERO = "rate_zero"
    RATE_OVERFLOW = "rate_overflow"
    RATE_IMPLAUSIBLE = "rate_implausible"
    UNKNOWN_UNIT = "unknown_unit"
    FUTURE_TIMESTAMP = "future_timestamp"
    INVALID_VERSION = "invalid_version"
    INVALID_REQUIREMENT = "invalid_requirement"
    UNRESOLVED = "unresolved"
    ARCHIVE_BROKEN = "archive_broken"
    ARCHIVE_BOMB = "archive_bomb"
    ARCHIVE_PATH = "archive_path"
    ELF_BROKEN = "elf_broken"
    INVALID_TOML = "invalid_toml"
    INVALID_YAML = "invalid_yaml"
    INCLUDE_MISSING = "include_missing"
    INCLUDE_CYCLE = "include_cycle"
    TAMPERED = "tampered"


class Correction(StrEnum):
    """Corrections of rates that were published with a wrong operation count."""

    #: The TensorFlow matmul that multiplied only the additions by the mini batch:
    #: n³ + b(n³ − n²) operations were counted where b(2n³ − n²) were done.
    TENSORFLOW_MATMUL_MINI_BATCH = "tensorflow-matmul-mini-batch"


class Exclusion(StrEnum):
    """Why an observation is stored but excluded from every comparison."""

    #: The PyTorch matmul that did not synchronise the GPU before stopping the clock measured the
    #: launch, not the product; the recorded data cannot correct it.
    PYTORCH_MATMUL_UNSYNCHRONISED = "pytorch-matmul-unsynchronised"
    #: The host ended the build or the job, which says nothing about the stack.
    HOST_PROBLEM = "host-problem"


class Instability(StrEnum):
    """Why comparisons exclude a job, see :mod:`model.measurements.job_stability`."""

    THROTTLED = "throttled"
    SWAPPED = "swapped"
    STEAL = "steal"
    #: The repetitions within the job scatter too much.
    SPREAD = "spread"
