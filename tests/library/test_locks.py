from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import filelock
import pytest

from stoker.library.locks import file_lock, is_locked


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.lock"
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(5):
            with file_lock(path, wait=lambda _s: time.sleep(0.001)):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not is_locked(path)


def test_the_lock_dies_with_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    code = (
        "import sys, time; from pathlib import Path; from stoker.library.locks import file_lock\n"
        "with file_lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    assert is_locked(path)
    owners: list[str] = []

    def kill(_seconds: float) -> None:
        child.kill()
        child.wait()

    with file_lock(path, on_wait=owners.append, wait=kill) as taken_over:
        assert taken_over is False
    child.stdout.close()
    assert owners == [f"process {child.pid}"]


def test_an_idle_owner_is_overtaken_after_the_stale_time(tmp_path: Path) -> None:
    path, work = tmp_path / "x.lock", tmp_path / "x.incomplete"
    work.touch()
    with file_lock(path):
        os.utime(path, (1, 1))

        def pause(_seconds: float) -> None:
            os.utime(work, (1, 1))  # until now the partial file was fresh: the owner was alive

        with file_lock(path, signs_of_work=[work], stale_after_s=3600, wait=pause) as taken_over:
            assert taken_over is True


def test_waiting_can_be_given_up(tmp_path: Path) -> None:
    def give_up(_seconds: float) -> None:
        raise TimeoutError

    with (
        file_lock(tmp_path / "x.lock"),
        pytest.raises(TimeoutError),
        file_lock(tmp_path / "x.lock", wait=give_up),
    ):
        pass


def test_excludes_the_lock_that_huggingface_hub_uses(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    theirs = filelock.FileLock(path, timeout=0)
    with file_lock(path), pytest.raises(filelock.Timeout):
        theirs.acquire()
    with theirs:
        assert is_locked(path)
    assert not is_locked(path)
