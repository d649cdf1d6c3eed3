"""What kustomize makes of a folder, as far as the folders of this project need it.

Known are resources, patches of a kind or a name, the namespace, labels and images. Anything else in
a ``kustomization.yaml`` is refused, so that nothing is left out unseen.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

_KNOWN = {
    "apiVersion", "kind", "namespace", "resources", "patches", "labels", "images",
}  # fmt: skip
_WITHOUT_NAMESPACE = {"Namespace"}


def rendered(folder: Path) -> list[Object]:
    """The objects that ``kubectl apply --kustomize`` sends."""
    wanted = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    assert wanted.keys() <= _KNOWN, wanted.keys() - _KNOWN
    objects: list[Object] = []
    for name in wanted["resources"]:
        path = folder / name
        objects += rendered(path) if path.is_dir() else objects_in(path)
    for patch in wanted.get("patches", ()):
        (changes,) = objects_in(folder / patch["path"])
        chosen = [it for it in objects if _is_chosen(it, patch["target"])]
        assert chosen, patch
        for it in chosen:
            _merge(it["spec"], changes["spec"])
    for it in objects:
        if it["kind"] not in _WITHOUT_NAMESPACE:
            it["metadata"]["namespace"] = wanted["namespace"]
        for labels in wanted.get("labels", ()):
            it["metadata"].setdefault("labels", {}).update(labels["pairs"])
        for image in wanted.get("images", ()):
            _set_image(it, image)
    return objects


def objects_in(path: Path) -> list[Object]:
    """The objects of a file."""
    return [it for it in yaml.safe_load_all(path.read_text("utf-8")) if it is not None]


def pods_of(it: Object) -> Object | None:
    """The specification of the pods that an object makes."""
    spec = it.get("spec", {})
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
    return None if template is None else dict(template["spec"])


def _is_chosen(it: Object, target: Object) -> bool:
    return it["kind"] == target["kind"] and target.get("name") in (None, it["metadata"]["name"])


def _merge(value: Object, changes: Object) -> None:
    """Merge as `kubectl` does: lists of named elements by name, and mounts by their path."""
    for key, change in changes.items():
        if isinstance(change, dict) and key in value:
            _merge(value[key], change)
        elif isinstance(change, list) and key in value:
            by = "mountPath" if key == "volumeMounts" else "name"
            known = {element[by]: element for element in value[key]}
            for element in change:
                if element[by] in known:
                    _merge(known[element[by]], element)
                else:
                    value[key].insert(0, copy.deepcopy(element))
        else:
            value[key] = copy.deepcopy(change)


def _set_image(it: Object, image: Object) -> None:
    for container in (pods_of(it) or {}).get("containers", ()):
        if container["image"] == image["name"]:
            container["image"] = f"{image['newName']}:{image['newTag']}"
