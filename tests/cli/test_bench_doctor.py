"""`stoker bench` and `stoker doctor`."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from stoker.cli import doctor
from stoker.cli.bench import Run as Measurement
from stoker.cli.bench import median_run


def test_bench_reports_every_row_count(stoker: Run, tiny_model: Path):
    shape = ("--prompt-tokens", "20", "--tokens", "5", "--runs", "1")
    code, out, _ = stoker("bench", str(tiny_model), "--rows", "1,3", "--json", *shape)
    assert code == 0
    report = json.loads(out)
    assert report["model"] == "tiny-chat"
    assert report["dtype"].startswith("float32")
    assert [run["rows"] for run in report["runs"]] == [1, 3]
    for run in report["runs"]:
        assert run["prefill_tps"] == pytest.approx(run["rows"] * 20 / run["prefill_s"])
        # Fewer are counted when this fast a model delivers several tokens at once.
        assert 0 <= run["decoded_tokens"] <= run["rows"] * 4

    code, out, _ = stoker("bench", str(tiny_model), *shape)
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [["1", "20", "5"]]


def test_medians_are_taken_figure_by_figure():
    measured = [Measurement(2, 10, 5, prefill, 8, decode) for prefill, decode in ((1, 6), (3, 4), (2, 5))]
    assert median_run(measured) == Measurement(2, 10, 5, 2, 8, 5)
    assert Measurement(2, 10, 5, 2.0, 8, 4.0).prefill_tps == 10
    assert Measurement(2, 10, 5, 2.0, 8, 4.0).decode_tps == 2


def test_bench_mistakes(stoker: Run, tiny_model: Path):
    assert stoker("bench", str(tiny_model), "--rows", "1,x")[0] == 2
    assert stoker("bench", str(tiny_model), "--rows", "0")[0] == 2
    code, _, err = stoker("bench", str(tiny_model), "--context-limit", "64")
    assert code == 2
    assert "exceed the context of 64" in err


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_doctor_reports_and_is_content(
    stoker: Run, free_port: int, home: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(tiny_model, home / "models" / "tiny-chat")
    monkeypatch.setenv("STOKER_API_KEY", "s3cret")
    monkeypatch.setenv("MLX_BUN_BATCH", "3")
    monkeypatch.setenv("STOKER_WHATEVER", "1")
    monkeypatch.setattr(doctor, "MIN_FREE_DISK", 0)
    code, out, _ = stoker("doctor", "--port", str(free_port))
    assert code == 0
    found = {line[5:].split("  ")[0]: line for line in out.splitlines() if line.startswith("ok")}
    assert {
        "python",
        "torch",
        "threads",
        "cpu features",
        "kernels",
        "device",
        "memory",
        "store",
        "port",
    } <= set(found)
    assert "1 on this machine, 1 for chat" in found["models"]
    assert "tiny-chat" in found["automatic choice"]
    assert f"127.0.0.1:{free_port} is free" in found["port"]
    assert f"port = {free_port}  from --port" in out
    assert "batch = 3  from MLX_BUN_BATCH" in out
    assert "api_key = (set)  from STOKER_API_KEY" in out
    assert "s3cret" not in out
    assert "ignored: STOKER_WHATEVER" in out


def test_doctor_finds_a_taken_port_and_ends_with_1(stoker: Run):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code, out, _ = stoker("doctor", "--port", str(port))
    assert code == 1
    assert any(line.startswith("BAD  port") for line in out.splitlines())


def test_doctor_survives_a_part_that_cannot_be_looked_at(stoker: Run, monkeypatch: pytest.MonkeyPatch):
    def broken(settings: object) -> list[doctor.Check]:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(doctor, "_memory", broken)
    code, out, _ = stoker("doctor", "--port", "0")
    assert code == 1
    assert "RuntimeError: no such thing" in out


def test_doctor_finds_what_would_keep_serve_from_working(stoker: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STOKER_MODEL", "no-such-model")
    code, out, _ = stoker("doctor", "--port", "0")
    assert code == 1
    assert "no-such-model" in out
    monkeypatch.delenv("STOKER_MODEL")
    monkeypatch.setenv("STOKER_HOME", "/etc/passwd")
    code, out, _ = stoker("doctor", "--port", "0")
    assert code == 1
    assert "cannot be written to" in out
