"""Verifies an evidence pack without a line of this product: ``second_verifier.py PACK PUBLIC_KEY``.

Written from docs/guides/packs.md. It checks signature and digests, and computes the differences of
interleaved stacks from the tables alone: mean of the paired differences of log rates, Student
interval. Prints JSON; fails with an assertion.
"""

import base64
import hashlib
import json
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from scipy.stats import t as student


def verify(pack: Path, public_key: Path) -> dict[str, Any]:
    """The manifest, after the signature and every file were checked."""
    manifest_bytes = (pack / "manifest.json").read_bytes()
    envelope = json.loads((pack / "envelope.json").read_bytes())
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    encoded = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    key = load_pem_public_key(public_key.read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), encoded)
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    subjects = {(it["name"], it["digest"]["sha256"]) for it in statement["subject"]}
    manifest: dict[str, Any] = json.loads(manifest_bytes)
    assert (manifest["name"], hashlib.sha256(manifest_bytes).hexdigest()) in subjects
    for wheel in manifest["wheels"]:
        assert {(wheel["purl"], it) for it in wheel["sha256"]} <= subjects
    known = {pack / "manifest.json", pack / "envelope.json"}
    for file in manifest["files"]:
        path = pack / file["path"]
        data = path.read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file["size_bytes"], file["sha256"])
        known.add(path)
    assert {it for it in pack.rglob("*") if it.is_file()} == known
    for table, number in manifest["counts"].items():
        assert ds.dataset(pack / table).count_rows() == number
    return manifest


def log_rates(pack: Path) -> dict[tuple[str, str, str], dict[tuple[str, str], list[float]]]:
    """Log rates of the stable jobs, by series, stack and block."""
    samples = defaultdict(list)
    for row in ds.dataset(pack / "samples").to_table().to_pylist():
        samples[row["observation_id"]].append(row["duration_s"])
    jobs: Any = defaultdict(lambda: defaultdict(list))
    for row in ds.dataset(pack / "observations").to_table().to_pylist():
        left_out = row["quarantine_reason"] or row["unstable_reason"]
        if row["outcome"] == "measured" and not left_out:
            durations = samples[row["observation_id"]]
            rate = row["rate"] * row["elapsed_s"] / statistics.median(durations)
            series = row["comparison_key"], row["python_version"], row["stack_digest"]
            jobs[series][row["host"], row["block"]].append(math.log(rate))
    return dict(jobs)


def pairs(pack: Path) -> list[dict[str, Any]]:
    """Each stack against each other one of its series: pairs, difference and interval.

    ``series`` is the comparison key, the version of Python, the baseline and the other stack.
    """
    jobs, compared = log_rates(pack), []
    for key, baseline in jobs.items():
        stacks = [it for it in jobs if it[:2] == key[:2]]
        for other in stacks:
            differences = [
                statistics.fmean(jobs[other][it]) - statistics.fmean(baseline[it])
                for it in baseline.keys() & jobs[other].keys()
            ]
            if other == key or len(differences) < 2:
                continue
            d, n = statistics.fmean(differences), len(differences)
            half = student.ppf(0.975, n - 1) * statistics.stdev(differences) / math.sqrt(n)
            compared.append(
                {"series": [*key, other[2]], "pairs": n, "stacks": len(stacks),
                 "d": d, "low": d - half, "high": d + half}
            )  # fmt: skip
    return compared


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    verified = verify(folder, Path(sys.argv[2]))
    sys.stdout.write(json.dumps({"name": verified["name"], "pairs": pairs(folder)}))
