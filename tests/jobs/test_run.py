from __future__ import annotations

import os
import signal
import threading

import pytest

from unskew.jobs.run import Stop, finish, stop_signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_noted_and_the_handler_put_back(number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    with stop_signals() as stop:
        assert (str(stop), stop.exit_code) == ("done", 0)
        os.kill(os.getpid(), number)
        assert (str(stop), stop.exit_code) == (f"stopped by {number.name}", code)
    assert signal.getsignal(number) is before


def test_a_batch_job_that_is_done() -> None:
    done = []
    assert finish(lambda: done.append(1), pytest.fail, Stop())
    assert done == [1]


@pytest.mark.parametrize("error", [ValueError("bad"), TimeoutError("its own")])
def test_a_batch_job_that_fails(error: Exception) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        finish(work, pytest.fail, Stop())


def test_a_batch_job_that_is_stopped_is_cancelled_until_it_ends() -> None:
    stop, calls = Stop(), threading.Semaphore(0)

    def work() -> None:
        stop.signal = signal.SIGTERM
        for _ in range(2):  # two Spark jobs, each ended by a call
            calls.acquire(timeout=60)
        raise RuntimeError("cancelled")

    assert not finish(work, calls.release, stop)
