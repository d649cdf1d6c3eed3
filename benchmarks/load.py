"""Load at a constant rate: requests begin when they are due, whether or not others have ended.

Latency counts from the moment at which a request was due, so that a server that stalls cannot
hide it by delaying the next requests (coordinated omission, Tene 2013).
"""

import http.client
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

#: Requests that may run at a time; others wait, and their latency includes this.
CONNECTIONS = 64
_TIMEOUT_S = 30.0


@dataclass(slots=True)
class Client:
    """One keep-alive connection to a server on this machine."""

    port: int
    token: str | None = None
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        return self._ask("GET", path, None)

    def post(
        self,
        path: str,
        document: Any,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> tuple[int, Any]:
        """Status and what the answer's JSON says."""
        raw = document if isinstance(document, bytes) else json.dumps(document).encode()
        where = f"{path}?{urlencode(query)}" if query else path
        status, body = self._ask("POST", where, raw, kind)
        return status, json.loads(body)

    def _ask(self, method: str, path: str, body: bytes | None, kind: str = "") -> tuple[int, bytes]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = kind
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            return self._once(method, path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()  # it was idle for too long
            return self._once(method, path, body, headers)

    def _once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, _TIMEOUT_S)
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        """Leave the server."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


#: One use of the service, with the number of the request; raises if the answer is not right.
Visit = Callable[[Client, int], object]


@dataclass(frozen=True, slots=True)
class Load:
    """The outcome of a load.

    :param latencies_ms: of requests that were answered, in ascending order
    :param failures: exceptions of the other requests
    """

    seconds: float
    latencies_ms: Sequence[float]
    failures: Sequence[str]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies_ms) / self.seconds

    def quantile_ms(self, of_one: float) -> float:
        """The latency that this share of answers kept to, by the nearest rank."""
        if not self.latencies_ms:
            return float("inf")
        rank = min(len(self.latencies_ms) - 1, int(of_one * len(self.latencies_ms)))
        return self.latencies_ms[rank]


def print_load(name: str, load: Load, note: str = "") -> None:
    """Print the rate, the latencies and the most frequent failures."""
    shares = ((50, 0.5), (95, 0.95), (99, 0.99))
    latencies = "  ".join(f"p{percent} {load.quantile_ms(it):7.1f}" for percent, it in shares)
    count = len(load.latencies_ms)
    print(f"  {name:62} {load.rate:7.1f}/s  {latencies} ms  ({count} answers){note}", flush=True)
    for failure, count in Counter(load.failures).most_common(3):
        print(f"    {count} failed: {failure}")


def load_at_rate(
    new_client: Callable[[], Client], visit: Visit, rate: float, seconds: float
) -> Load:
    """``rate`` requests a second for so long; ends when the last is answered."""
    count = max(1, round(rate * seconds))
    due: queue.SimpleQueue[tuple[float, int] | None] = queue.SimpleQueue()
    recorder = _Recorder()
    users = min(CONNECTIONS, count)
    threads = [
        threading.Thread(target=_serve_due, args=(new_client(), visit, due, recorder))
        for _ in range(users)
    ]
    for thread in threads:
        thread.start()
    began = time.perf_counter() + 0.05
    for number in range(count):
        at = began + number / rate
        time.sleep(max(0.0, at - time.perf_counter()))
        due.put((at, number))
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join()
    return recorder.load(time.perf_counter() - began)


def load_of_users(
    new_client: Callable[[], Client], visit: Visit, users: int, seconds: float
) -> Load:
    """``users`` that each ask again as soon as they are answered."""
    recorder = _Recorder()
    began = time.perf_counter()
    until = began + seconds

    def ask(first: int) -> None:
        client, number = new_client(), first
        while (at := time.perf_counter()) < until:
            recorder.timed(visit, client, number, at)
            number += users
        client.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return recorder.load(time.perf_counter() - began)


class _Recorder:
    """Latencies and failures, of all threads; appending to a list is atomic."""

    def __init__(self) -> None:
        self._latencies_ms: list[float] = []
        self._failures: list[str] = []

    def timed(self, visit: Visit, client: Client, number: int, began: float) -> None:
        try:
            visit(client, number)
        except Exception as error:  # a load goes on, and its failures are counted
            client.close()
            self._failures.append(f"{type(error).__name__}: {error}"[:200])
        else:
            self._latencies_ms.append((time.perf_counter() - began) * 1000)

    def load(self, seconds: float) -> Load:
        return Load(seconds, sorted(self._latencies_ms), self._failures)


def _serve_due(
    client: Client,
    visit: Visit,
    due: queue.SimpleQueue[tuple[float, int] | None],
    recorder: _Recorder,
) -> None:
    while (turn := due.get()) is not None:
        began, number = turn
        recorder.timed(visit, client, number, began)
    client.close()
