"""Notes about a version as remarks beside the reason for it."""

from __future__ import annotations


def remark_of(message: str, release: str, why: str) -> str:
    """What a note adds to the row of its release; empty if the row already says all of it.

    :param message: of the note
    :param release: name and version
    :param why: the reason for the version, which the row shows

    >>> remark_of("core 1.0b1 is a pre-release: web 3 requires core==1.0b1", "core 1.0b1",
    ...           "web 3 requires core==1.0b1")
    '1.0b1 is a pre-release'
    >>> remark_of("core 2.0 is 12 % faster than 1.0 in matmul", "core 2.0", "")
    '2.0 is 12 % faster than 1.0 in matmul'
    >>> remark_of("core 2.0: 3.0: is yanked", "core 2.0", "3.0: is yanked")
    ''
    >>> remark_of("core 2.0 is 12 % faster than 3.0 in matmul (9 pairs)", "core 2.0",
    ...           "2.0 is 12 % faster than 3.0 in matmul (95 % interval 9 to 15 %)")
    ''
    """
    message = message.removesuffix(f": {why}")
    if message == release:
        return ""
    if not message.startswith(f"{release} "):
        return message
    # With the version, because the reason may be about another one.
    remark = message.removeprefix(f"{release.partition(' ')[0]} ")
    return "" if remark.partition(" (")[0] in why else remark
