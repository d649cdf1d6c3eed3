"""``environment.yml`` of conda: what pip installs is read, packages of conda are not covered."""

from dataclasses import dataclass
from typing import Any

import yaml

from common.formats.file_decoding import TEXT_LOADER, check_yaml, refuse
from model.errors import Reason

#: Usual names of the files.
NAMES = frozenset({"environment.yml", "environment.yaml"})


def is_environment(name: str) -> bool:
    """Whether a file with this path, such as ``envs/gpu.yml``, can only be an environment."""
    return name.endswith((".yml", ".yaml"))


@dataclass(frozen=True, slots=True)
class CondaEnvironment:
    """The content of a file.

    :param pip: a requirements file, whose lines have their numbers of the file
    :param conda: specifications of conda packages, in the order of the file
    """

    pip: str
    conda: tuple[str, ...]


def read_environment(text: str, name: str) -> CondaEnvironment:
    """Read the dependencies of an environment.

    :raises InvalidFile: if it is no YAML, or its dependencies are no list
    """
    try:
        check_yaml(text, aliases=True)
        root: Any = yaml.compose(text, TEXT_LOADER)
        top = {key.value: value for key, value in root.value}
        lines, conda = [""] * (text.count("\n") + 1), []
        for item in top["dependencies"].value:
            if isinstance(item, yaml.ScalarNode):
                conda.append(str(item.value))
                continue
            for key, listed in item.value:
                if key.value == "pip":
                    for line in listed.value:
                        lines[line.start_mark.line] = " ".join(str(line.value).split())
    except (yaml.YAMLError, RecursionError) as error:
        message = " ".join(str(error).split())[:300]
        refuse(Reason.INVALID_YAML, message, f"{name}:$", "correct the file there")
    except (AttributeError, TypeError, ValueError, KeyError):
        message = "does not list its dependencies as conda environments do"
        refuse(Reason.WRONG_TYPE, message, f"{name}:dependencies", "write a list there")
    return CondaEnvironment("\n".join(lines), tuple(it for it in conda if it.strip() != "pip"))
