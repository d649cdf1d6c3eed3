"""Manifests: valid by the API's schema, bounded, and no text of a specification is expanded."""

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pis.amun.launchers.container import allotment_of
from pis.amun.launchers.kubernetes import (
    job_manifest,
    literal,
    network_policy,
    object_name,
    selector,
    unmet_by_labels,
)
from pis.amun.specification import HardwareRequest, load_specification
from tests.factories.golden import compare_views
from tests.services.json_schemas import validate_manifest

API = "1.30"
IMAGE = f"registry.example/thoth:{'0f' * 32}"
hostile = st.lists(
    st.sampled_from(["$", "$$", "$(HOME)", "(", ")", "\n", '"', "'", "{{", "é", "---\n", ": ", "#"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    max_size=8,
).map("".join)


def manifest(**options: Any) -> dict[str, Any]:
    fields = options.pop("fields", {})
    specification = load_specification({"script": "print(1)\n", **fields})
    given = {
        "environment": dict(specification.environment),
        "hardware": specification.run.hardware,
        **options,
    }
    return job_manifest("inspection-matmul-1f2e3d4c-0", IMAGE, allotment_of(specification), **given)


def pod_of(made: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = made["spec"]["template"]["spec"]
    return pod


def test_kubernetes_job_manifest_limits_and_confines_the_job() -> None:
    requests = {"cpu": "2", "memory": "1Gi", "hardware": {"cpu_family": 6, "cpu_model": 85}}
    manifests = {
        "nothing is requested": manifest(),
        "resources, hardware and a variable": manifest(
            fields={
                "run": {"requests": requests},
                "environment": [{"name": "A", "value": "$(HOME)"}],
            },
            arguments=("--matrix-size", "512"),
            completions=10,
        ),
        "the network policy": network_policy("Inspection X"),
    }
    for made in manifests.values():
        validate_manifest(made, API)
    views = {title: yaml.safe_dump(it, sort_keys=False) for title, it in manifests.items()}
    unmet = unmet_by_labels(HardwareRequest(cpu_family=6, processor="Xeon", physical_cpus=4))
    views["hardware that no label tells"] = "\n".join(unmet)
    compare_views("kubernetes_manifests", views)
    (label,) = manifests["the network policy"]["spec"]["podSelector"]["matchLabels"].items()
    assert selector("Inspection X") == "=".join(label)


def expanded(text: str, variables: dict[str, str]) -> str:
    """As the kubelet expands it: ``$$`` is ``$``, ``$(NAME)`` a known variable's value."""

    def one(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def test_variable_expansion_of_the_test_oracle_follows_kubernetes() -> None:
    assert expanded("$(A) $$(A) $(B) $A $", {"A": "x"}) == "x $(A) $(B) $A $"


@given(hostile)
def test_escaped_text_is_not_expanded_by_kubernetes(text: str) -> None:
    assert expanded(literal(text), {"HOME": "/root", "": "x"}) == text


@given(value=hostile, argument=hostile)
def test_text_in_a_specification_cannot_inject_into_the_manifest(value: str, argument: str) -> None:
    fields = {"environment": [{"name": "WANTED", "value": value}]}
    if "\0" in value:
        return
    made = manifest(fields=fields, arguments=(argument,))
    container = pod_of(made)["containers"][0]
    (given,) = (it for it in container["env"] if it["name"] == "WANTED")
    assert expanded(given["value"], {"HOME": "/root"}) == value
    assert [expanded(word, {"HOME": "/root"}) for word in container["args"]] == [argument]
    given["value"] = container["args"][0] = ""
    plain = manifest(fields={"environment": [{"name": "WANTED", "value": ""}]}, arguments=("",))
    assert json.dumps(made) == json.dumps(plain)


@given(hostile | st.text(max_size=80))
def test_any_text_gives_a_valid_kubernetes_object_name(text: str) -> None:
    name = object_name(text)
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", name)
    assert len(name) <= 52
    assert name == object_name(text)


@pytest.mark.parametrize(("one", "other"), [("a_b", "a-b"), ("A", "a"), ("a" * 60, "a" * 61)])
def test_different_texts_have_different_kubernetes_names(one: str, other: str) -> None:
    assert object_name(one) != object_name(other)
