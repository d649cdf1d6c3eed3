"""The server's processes: the supervisor, certificates, folders of figures."""

import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from cryptography import x509

from api.server import supervisor
from api.server.certificates import self_signed
from api.server.http_server import _ReloadedTls
from api.server.supervisor import ChildProcess, Supervisor, files, metrics_folder
from tests.services.waiting import wait_until

SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")
STUBBORN = (
    sys.executable, "-c",
    "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " pathlib.Path(sys.argv[1]).touch(); time.sleep(600)",
)  # fmt: skip


def dies(code: int) -> tuple[str, ...]:
    return (sys.executable, "-c", f"raise SystemExit({code})")


def signal_when(
    condition: Callable[[], bool], number: signal.Signals = signal.SIGTERM
) -> threading.Thread:
    """Send this process a signal once ``condition`` holds, or after the deadline."""

    def wait() -> None:
        try:
            wait_until(condition, "the children are at work")
        finally:
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def children() -> list[psutil.Process]:
    return psutil.Process().children()


def test_signal_to_the_supervisor_ends_every_child_process() -> None:
    before = set(children())
    thread = signal_when(lambda: len(set(children()) - before) == 2)
    assert Supervisor([ChildProcess("a", SLEEPS), ChildProcess("b", SLEEPS)]).run() == 0
    thread.join()
    assert set(children()) <= before


def test_dead_child_process_is_restarted() -> None:
    restarted: list[str] = []
    thread = signal_when(lambda: len(restarted) == 2)
    children = [ChildProcess("fragile", dies(7)), ChildProcess("steady", SLEEPS)]
    assert Supervisor(children, lambda child: restarted.append(child.name)).run() == 0
    thread.join()
    assert set(restarted) == {"fragile"}


def test_child_process_without_heartbeats_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SILENT_S", 0.3)
    restarted: list[str] = []
    beats = (
        "import pathlib, sys, time\nwhile True: pathlib.Path(sys.argv[1]).touch(); time.sleep(0.01)"
    )
    once = "import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    children = [
        ChildProcess(
            name, (sys.executable, "-c", script, str(tmp_path / name)), heartbeat=tmp_path / name
        )
        for name, script in (("alive", beats), ("silent", once))
    ]
    thread = signal_when(lambda: restarted.count("silent") == 2)
    assert Supervisor(children, lambda child: restarted.append(child.name)).run() == 0
    thread.join()
    assert "alive" not in restarted


def test_child_process_is_not_replaced_before_its_first_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SILENT_S", 0.0)
    restarted: list[str] = []
    slow, fragile = ChildProcess("slow", SLEEPS, heartbeat=tmp_path / "slow"), dies(7)
    thread = signal_when(lambda: len(restarted) == 2)
    children = [slow, ChildProcess("fragile", fragile)]
    assert Supervisor(children, lambda child: restarted.append(child.name)).run() == 0
    thread.join()
    assert set(restarted) == {"fragile"}


def test_child_process_ends_if_its_supervisor_died_before_it_could_be_bound() -> None:
    bind = partial(supervisor._bind_to_parent, psutil.Process().ppid())
    assert subprocess.run(["/bin/true"], preexec_fn=bind, check=False).returncode == 1


def test_supervisor_ends_with_the_exit_code_of_an_essential_process() -> None:
    before = set(children())
    assert (
        Supervisor(
            [ChildProcess("steady", SLEEPS), ChildProcess("server", dies(3), essential=True)]
        ).run()
        == 3
    )
    assert set(children()) <= before


def test_essential_process_that_was_killed_is_restarted() -> None:
    before, restarted, killed = set(children()), list[str](), list[psutil.Process]()

    def replaced() -> bool:
        if not killed:
            killed.extend(set(children()) - before)
            for it in killed:
                it.kill()
        return bool(restarted) and bool(set(children()) - before - set(killed))

    thread = signal_when(replaced)
    server = ChildProcess("server", SLEEPS, essential=True)
    assert Supervisor([server], lambda child: restarted.append(child.name)).run() == 0
    thread.join()
    assert restarted == ["server"]


def test_child_process_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    thread = signal_when(ready.exists, signal.SIGINT)
    child = ChildProcess("stubborn", (*STUBBORN, str(ready)))
    assert Supervisor([child], grace_s=0.5).run() == 0
    thread.join()


def test_supervisor_restores_signal_handlers() -> None:
    before = signal.getsignal(signal.SIGTERM)
    Supervisor([ChildProcess("server", dies(1), essential=True)]).run()
    assert signal.getsignal(signal.SIGTERM) is before


def names_of(path: Path) -> set[str]:
    found = x509.load_pem_x509_certificate(path.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(it.value) for it in names}


def test_self_signed_certificate_is_created_once(tmp_path: Path) -> None:
    first = self_signed(tmp_path / "tls")
    assert {"localhost", "127.0.0.1", "::1"} < names_of(first.path)
    assert self_signed(tmp_path / "tls") == first


def test_certificate_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    made = self_signed(tmp_path / "tls")
    made.key_path.chmod(0o644)
    self_signed(tmp_path / "tls")
    assert stat.S_IMODE(made.key_path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700


def test_certificate_without_a_required_host_name_is_replaced(tmp_path: Path) -> None:
    first = self_signed(tmp_path / "tls")
    second = self_signed(tmp_path / "tls", ["192.0.2.7", "build.example"])
    assert second.fingerprint != first.fingerprint
    assert {"192.0.2.7", "build.example"} <= names_of(second.path)


def test_broken_certificates_are_replaced(tmp_path: Path) -> None:
    made = self_signed(tmp_path / "tls")
    for path in (made.path, made.key_path):
        path.write_text("not PEM", "utf-8")
        self_signed(tmp_path / "tls")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(made.path, made.key_path)


def certificate_shown_by(context: ssl.SSLContext) -> bytes:
    """The certificate that a client sees in a handshake, without the network."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    sent, answered = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(answered, sent)
    server = context.wrap_bio(sent, answered, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    certificate = client.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def test_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    made, renewed = self_signed(tmp_path / "now"), self_signed(tmp_path / "later")
    config = SimpleNamespace(certfile=str(made.path), keyfile=str(made.key_path))

    def load() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(config.certfile, config.keyfile)
        return context

    context = _ReloadedTls()(config, load)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    first = certificate_shown_by(context)
    made.path.unlink()
    assert certificate_shown_by(context) == first
    made.path.write_bytes(renewed.path.read_bytes())
    assert certificate_shown_by(context) == first  # the key is still the other one
    made.key_path.write_bytes(renewed.key_path.read_bytes())
    assert certificate_shown_by(context) == ssl.PEM_cert_to_DER_cert(renewed.path.read_text())


def test_process_groups_share_metrics_and_remove_only_their_own_files(tmp_path: Path) -> None:
    other = tmp_path / "worker@elsewhere@1"
    other.mkdir()
    (other / "counter_1.db").touch()
    with metrics_folder(tmp_path, "serve") as own:
        (own / "counter_2.db").touch()
        assert {Path(it).parent.name for it in files() or ()} == {own.name, other.name}
    assert files() is None
    assert list(tmp_path.iterdir()) == [other]


def test_metrics_of_a_killed_process_group_are_removed(tmp_path: Path) -> None:
    gone = tmp_path / f"serve@{socket.gethostname()}@999999999"
    gone.mkdir()
    with metrics_folder(tmp_path, "serve") as own:
        assert list(tmp_path.iterdir()) == [own]


def test_metrics_folder_is_removed_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), metrics_folder(tmp_path, "serve"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ
