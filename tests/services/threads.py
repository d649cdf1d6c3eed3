"""Work that is done at the same time."""

import threading
from collections.abc import Callable


def in_threads(*works: Callable[[], object]) -> None:
    """Do each work in a thread of its own, to its end; none may fail."""
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
