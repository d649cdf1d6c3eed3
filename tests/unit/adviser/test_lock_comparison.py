"""What a service sends about two locks."""

from __future__ import annotations

import json

from adviser.answering.lock_comparison import LockKnowledge
from model.measurements.evidence import Evidence, RecordedHardware
from model.packages.candidates import KnownVulnerability
from model.packages.environments import environment
from model.packages.snapshot import Snapshot, with_revision
from tests.factories.evidence import HERE, NOW


def test_fields_of_a_newer_service_are_ignored() -> None:
    where = environment("3.11", "linux_x86_64")
    snapshot = with_revision(Snapshot("", where, (), {}, {}, (), {}, (), {}))
    vulnerabilities = {("numpy", "1.0"): (KnownVulnerability("CVE-1", "high", 7.5),)}
    hardware = (RecordedHardware(HERE, "a machine", {"cpus": 2}),)
    knowledge = LockKnowledge(snapshot, Evidence(NOW), vulnerabilities, hardware)
    document = json.loads(knowledge.to_json())
    document["hardware"][0]["vendor"] = "new"
    document["vulnerabilities"][0][2][0].append("new")
    document["vulnerabilities"][0].append("new")
    document["new"] = 1
    assert LockKnowledge.from_json(json.dumps(document).encode()) == knowledge
