"""Processes beside this one: what Ctrl-C does to them."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes that start within never hear Ctrl-C; this one hears it at the end.

    Ctrl-C reaches every process of the terminal, and only the first one has something to say. That a process is told
    to ignore it once it runs is too late: it may still be importing. A blocked signal, however, is inherited.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
