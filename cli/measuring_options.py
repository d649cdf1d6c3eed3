"""Shared parts of commands that measure on this machine: options, waiting, and errors."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import click

# Commands that only may measure, such as `thoth advise`, take their options from here: the executor
# is loaded when something is measured.


class UnusableSpecification(click.ClickException):
    """An invalid specification; exit code 2, as for invalid arguments."""

    exit_code = 2


@contextmanager
def explained_errors() -> Iterator[None]:
    """Translate errors of measuring: exit code 2 for specifications, a hint for sandboxes."""
    from pis.amun.launchers import BuildFailed
    from pis.amun.schema import InvalidSpecification

    try:
        yield
    except InvalidSpecification as error:
        raise UnusableSpecification(str(error)) from None
    except BuildFailed as error:
        if error.reason == "cannot-confine":
            click.echo("hint: --trust-script runs the script as you, without a sandbox", err=True)
        raise


class SecondsRange(click.FloatRange):
    """A number of seconds; NaN is rejected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


def machine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that measure on this machine."""
    share = click.option(
        "--share-machine",
        is_flag=True,
        help="Measure even while this machine runs other measurements.",
    )
    wait = click.option(
        "--wait", type=SecondsRange(0, 86_400), default=1800, show_default=True, metavar="S",
        help="Seconds to wait for other measurements of this machine.",
    )  # fmt: skip
    return wait(share(command))


@contextmanager
def machine_of_this_command(wait_s: float, share: bool, *, warns: bool = True) -> Iterator[None]:
    """Hold this machine for measurements, unless it is shared; say what the command waits for.

    :param warns: whether to warn of other processes on a shared machine: beside them, threads of a
        job wait for each other, and rates drop sharply
    :raises MachineBusy: after ``wait_s`` seconds
    """
    from pis.amun.conditions import BUSY_SHARE, busy_share, free_machine

    with ExitStack() as stack:
        if not share:
            with busy_hint():
                on_wait = partial(print_wait, wait_s=wait_s)
                stack.enter_context(free_machine(wait_s, on_wait=on_wait))
        elif warns and (used := busy_share()) > BUSY_SHARE:
            click.echo(
                f"warning: other processes use {used:.0%} of the processors, so rates will be low"
                " and scattered",
                err=True,
            )
        yield


@contextmanager
def busy_hint() -> Iterator[None]:
    """Add the options that help to the error for a busy machine."""
    from pis.amun.conditions import MachineBusy

    try:
        yield
    except MachineBusy as error:
        error.hint = "--wait S waits longer; --share-machine measures now, less precisely"
        raise


def print_wait(cause: str, waited_s: float, wait_s: float) -> None:
    """Say on standard error what a command waits for; on a terminal, count down."""
    if sys.stderr.isatty():
        above = "\033[1A\033[K" if waited_s else ""  # replaces the line of a second ago
        click.echo(f"{above}{cause}: waiting, {time_left(waited_s, wait_s)}", err=True)
    elif not waited_s:
        remedy = "--wait S sets it, --share-machine does not wait"
        click.echo(f"{cause}: waiting up to {wait_s:g} s ({remedy})", err=True)


def time_left(waited_s: float, wait_s: float) -> str:
    """The rest of a waiting time, with the option that does not wait."""
    left_s = max(0, round(wait_s - waited_s))
    return f"{timedelta(seconds=left_s)} left (--share-machine does not wait)"
