"""`stoker chat`: a conversation over a pipe, and Ctrl-C on a real terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from stoker.cli import conversation as conversation_module
from stoker.cli.conversation import Conversation
from stoker.cli.generation import Reply
from stoker.errors import ContextLengthExceeded, GenerationFailed

CTRL_C = b"\x03"


class FakeTerminal:
    """Plays a list of typed lines; an exception in the list is raised instead."""

    interactive = True

    def __init__(self, *typed: str | type[BaseException]) -> None:
        self._typed = iter(typed)
        self.shown = ""

    def read(self) -> str | None:
        line = next(self._typed, None)
        if isinstance(line, type):
            raise line
        return line

    def write(self, text: str) -> None:
        self.shown += text

    def think(self, text: str) -> None:
        self.shown += f"({text})"

    def remark(self, text: str) -> None:
        self.shown += text + "\n"


class FakeServed:
    """Answers each prompt with the messages it was asked with."""

    id = "fake"
    settings = type("S", (), {"max_tokens": None})
    text: Any

    def __init__(self) -> None:
        self.text = self
        self.asked: list[list[dict[str, str]]] = []

    template = None

    def render(self, messages: list[dict[str, str]]) -> str:
        self.asked.append(messages)
        return ""

    def prompt_from_rendered(self, text: str) -> list[int]:
        return [1]

    def sampling(self, seed: int | None) -> None:
        return None


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[FakeServed, str]]:
    """Runs a conversation; `replies` are texts, (text, reason) pairs or errors."""

    def run(
        *typed: str | type[BaseException], replies: tuple[Any, ...] = (), system: str | None = None
    ) -> tuple[FakeServed, str]:
        served, terminal, left = FakeServed(), FakeTerminal(*typed), iter(replies)

        def reply(*_: object, emit: Callable[[str], None], **__: object) -> Reply:
            given = next(left, "answer")
            if isinstance(given, Exception):
                raise given
            text, reason = given if isinstance(given, tuple) else (given, "stop")
            emit(text)
            return Reply(text, reason, 1, 0, 2, 1.0, 1.0)

        monkeypatch.setattr(conversation_module, "generate_reply", reply)
        Conversation(served, terminal, system=system, seed=None, verbose=False).run()  # type: ignore[arg-type]
        return served, terminal.shown

    return run


def contents(messages: list[dict[str, str]]) -> list[str]:
    return [message["content"] for message in messages]


def test_every_turn_sees_the_ones_before(talk):
    served, shown = talk("one", "two", replies=("1", "2"), system="sys")
    assert [contents(asked) for asked in served.asked] == [["sys", "one"], ["sys", "one", "1", "two"]]
    assert [message["role"] for message in served.asked[1]] == ["system", "user", "assistant", "user"]
    assert "1\n2\n" in shown


def test_reset_forgets_the_turns_but_not_the_system_message(talk):
    served, _ = talk("one", "/reset", "two", system="sys")
    assert contents(served.asked[1]) == ["sys", "two"]


def test_system_replaces_and_removes_the_message_and_starts_over(talk):
    served, _ = talk("one", "/system new", "two", "/system", "three", system="old")
    assert [contents(asked) for asked in served.asked] == [["old", "one"], ["new", "two"], ["three"]]


def test_retry_asks_the_last_question_again(talk):
    served, _ = talk("/retry", "one", "two", "/retry", replies=("1", "2", "3"))
    assert contents(served.asked[2]) == ["one", "1", "two"]


def test_a_stopped_answer_stays_in_the_conversation(talk):
    served, shown = talk("one", "two", replies=(("half", "cancelled"), "2"))
    assert contents(served.asked[1]) == ["one", "half", "two"]
    assert "(stopped)" in shown


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ContextLengthExceeded("prompt is too long: 9 tokens"), "/reset"), (GenerationFailed("broke"), "broke")],
)
def test_a_question_that_failed_leaves_no_trace(talk, error: Exception, expected: str):
    served, shown = talk("one", "two", replies=(error, "2"))
    assert contents(served.asked[1]) == ["two"]
    assert expected in shown


def test_commands_that_end_and_commands_that_are_none(talk):
    for leave in ("/exit", "/quit"):
        served, shown = talk("/nonsense", "/stats", "/help", " /not a command", leave, "never")
        assert "/nonsense is no command" in shown
        assert "No answer yet" in shown
        assert "/reset" in shown
        assert [contents(asked) for asked in served.asked] == [["/not a command"]]


def test_two_interrupts_at_the_prompt_leave_and_one_does_not(talk):
    served, shown = talk(KeyboardInterrupt, "one", KeyboardInterrupt, KeyboardInterrupt, "never")
    assert [contents(asked) for asked in served.asked] == [["one"]]
    assert shown.count("Press Ctrl-C again to leave") == 2


def test_a_script_reads_answers_alone(spawn: Callable[..., subprocess.Popen[str]], tiny_model: Path):
    process = spawn("chat", str(tiny_model), "--temp", "0", "--max-tokens", "8")
    out, err = process.communicate("Hello\n/stats\nagain and \\\nagain\n/exit\nnever\n", timeout=60)
    assert process.returncode == 0
    first, second = out.splitlines()
    assert len(first) == len(second) == 8
    assert "answer: 8 tokens" in err


def test_a_model_without_template_is_refused(stoker: Run, tiny_base_model: Path):
    code, _, err = stoker("chat", str(tiny_base_model))
    assert code == 1
    assert "tiny-base has no chat template; use `stoker generate --raw` with it" in err


class Screen:
    """The person's side of a pseudo-terminal that a program runs on."""

    def __init__(self, spawn: Callable[..., subprocess.Popen[str]], *arguments: str) -> None:
        self._end, program_end = pty.openpty()
        self.process = spawn(
            *arguments,
            stdin=program_end,
            stdout=program_end,
            stderr=program_end,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(program_end)
        self.shown = b""

    def type(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def wait_for(self, text: bytes, timeout_s: float = 60) -> None:
        """Until `text` appears behind what earlier waits consumed."""
        deadline = time.monotonic() + timeout_s
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} did not appear: {self.shown[-500:]!r}"
            self._read()
        self.shown = self.shown.partition(text)[2]

    def appears(self, text: bytes, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while text not in self.shown and time.monotonic() < deadline:
            self._read()
        return text in self.shown

    def flowing(self, num_bytes: int) -> None:
        """Until so much more has been printed."""
        while len(self.shown) < num_bytes:
            self._read()

    def close(self) -> None:
        os.close(self._end)

    def _read(self) -> None:
        if select.select([self._end], [], [], 1)[0]:
            try:
                self.shown += os.read(self._end, 65536)
            except OSError as error:  # the program has gone
                raise AssertionError(f"ended: {self.shown!r}") from error


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background


@pytest.fixture
def screen(spawn: Callable[..., subprocess.Popen[str]], tiny_model: Path) -> Iterator[Screen]:
    screen = Screen(spawn, "chat", str(tiny_model), "--temp", "0")
    yield screen
    screen.close()


def test_ctrl_c_stops_the_answer_and_not_the_program(screen: Screen, home: Path):
    screen.wait_for(b"/help lists the commands")
    screen.wait_for(b"> ")
    screen.type(b"tell me everything\r")  # about 100,000 tokens if nobody stops it
    screen.wait_for(b"tell me everything")
    screen.flowing(200)
    screen.type(CTRL_C)
    screen.wait_for(b"(stopped)")
    screen.wait_for(b"> ")
    screen.type(b"/stats\r")
    screen.wait_for(b"tokens/s")
    screen.wait_for(b"> ")
    # The prompt is printed before the terminal is read: a key that comes between is lost, and typed again.
    for _ in range(5):
        time.sleep(0.5)
        screen.type(CTRL_C)
        if screen.appears(b"Press Ctrl-C again to leave.", within_s=10):
            break
    screen.wait_for(b"Press Ctrl-C again to leave.")
    assert screen.process.poll() is None
    screen.wait_for(b"> ")
    time.sleep(0.5)
    screen.type(CTRL_C)
    assert screen.process.wait(timeout=30) == 0
    assert "tell me everything" in (home / "chat-history").read_text()
