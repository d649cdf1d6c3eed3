"""YAML that programs write: scalars are texts; aliases, repeated keys and deep nesting are refused.

The parser in C is some ten times as fast as the one in Python, but deep nesting makes it end the
process.
"""

from typing import Any

import yaml

from model.errors import InvalidDocument, Reason
from model.json_documents import MAX_DEPTH

#: Reads each scalar as text.
TEXT_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Loader(TEXT_LOADER):  # type: ignore[misc]
    def construct_scalar(self, node: Any) -> Any:
        text = super().construct_scalar(node)
        return None if not node.style and text in ("", "~", "null") else text

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            raise yaml.YAMLError(f"a key occurs twice{node.start_mark}")
        return mapping


def check_yaml(text: str, *, aliases: bool = False) -> None:
    """Check a text before it is loaded.

    :param aliases: allow aliases, which expand to any size if their values are copied
    :raises yaml.YAMLError: if it is not YAML, or has an alias
    :raises RecursionError: if it is nested too deep
    """
    depth = 0
    for event in yaml.parse(text, TEXT_LOADER):
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise yaml.YAMLError("aliases are not read")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RecursionError


def yaml_value(text: str) -> Any:
    """Texts, lists, mappings and ``None`` of a YAML document; JSON is YAML, too.

    :raises InvalidDocument: if it is not YAML, has an alias, repeats a key or is nested too deep
    """
    try:
        check_yaml(text)
        return yaml.load(text, _Loader)  # noqa: S506 - a loader of plain texts
    except RecursionError:
        message = f"nested deeper than {MAX_DEPTH} levels"
        raise InvalidDocument(Reason.NESTED_TOO_DEEP, message, field="$") from None
    except (yaml.YAMLError, ValueError) as error:
        message = " ".join(str(error).split())[:200]
        raise InvalidDocument(Reason.INVALID_YAML, message, field="$") from None
