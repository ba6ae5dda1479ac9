"""Signals become numbers on a descriptor; handlers and ignored signals are as before, after."""

from __future__ import annotations

import fcntl
import select
import signal
import threading

import pytest

from davincirun.wakeup import Wakeup

F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ since Python 3.10


def to_this_thread(signum: int) -> None:
    """Whoever runs the tests may have other threads, which haven't blocked what we have."""
    signal.pthread_kill(threading.get_ident(), signum)


def test_signals_are_numbers_in_the_order_of_arrival() -> None:
    with Wakeup() as wakeup:
        for signum in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
            to_this_thread(signum)
        assert wakeup.take() == [signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1]


def test_the_descriptor_is_readable_when_there_is_one() -> None:
    with Wakeup() as wakeup:
        assert select.select([wakeup.fd], [], [], 0)[0] == []
        assert wakeup.take() == []
        to_this_thread(signal.SIGUSR2)
        assert select.select([wakeup.fd], [], [], 10)[0] == [wakeup.fd]


def test_everything_is_as_before_after() -> None:
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)}
    with Wakeup():
        assert signal.getsignal(signal.SIGTERM) is not before[signal.SIGTERM]
    assert {signum: signal.getsignal(signum) for signum in before} == before
    former = signal.set_wakeup_fd(-1)
    assert former == -1


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Wakeup() as wakeup:
            to_this_thread(signal.SIGHUP)
            assert wakeup.take() == []
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_ignored_sigchld_is_not_left_so() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with Wakeup() as wakeup:
            to_this_thread(signal.SIGCHLD)
            assert wakeup.take() == [signal.SIGCHLD]
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_blocked_signal_is_let_through_and_blocked_again_after() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        to_this_thread(signal.SIGUSR2)
        with Wakeup() as wakeup:
            assert wakeup.take() == [signal.SIGUSR2]
        assert signal.SIGUSR2 in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_more_signals_than_the_pipe_holds_are_no_error() -> None:
    with Wakeup() as wakeup:
        fcntl.fcntl(wakeup.fd, F_SETPIPE_SZ, 4096)
        for _ in range(5000):
            to_this_thread(signal.SIGUSR1)
        assert wakeup.take() == [signal.SIGUSR1] * 4096


@pytest.mark.parametrize("outer", [signal.SIGUSR1])
def test_one_within_another_gives_the_signals_back(outer: int) -> None:
    with Wakeup() as first:
        with Wakeup() as second:
            to_this_thread(outer)
            assert second.take() == [outer]
        to_this_thread(outer)
        assert first.take() == [outer]
