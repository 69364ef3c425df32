"""The loop of `stoker chat`: messages, the commands that begin with a slash, and replies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from stoker.cli.generation import Reply, generate_reply, prompt_of
from stoker.errors import ContextLengthExceeded, StokerError

if TYPE_CHECKING:
    from stoker.app import Served
    from stoker.cli.terminal import Terminal

HELP = """\
/reset          forget the conversation
/system TEXT    set the system message (without TEXT: remove it) and start over
/retry          answer the last message again
/stats          counts and speeds of the last answer
/help           this list
/exit           leave (also /quit, Ctrl-D, or Ctrl-C twice)
A line that ends in \\ continues on the next. Ctrl-C stops an answer."""
DOUBLE_PRESS_S = 3.0  # two Ctrl-C at the prompt within this time leave the program


class Conversation:
    """Keeps the messages and runs until the person leaves."""

    def __init__(
        self, served: Served, terminal: Terminal, *, system: str | None, seed: int | None, verbose: bool
    ) -> None:
        self._served = served
        self._terminal = terminal
        self._system = system
        self._seed = seed
        self._verbose = verbose
        self._turns: list[dict[str, Any]] = []
        self._last: Reply | None = None

    def run(self) -> None:
        if self._terminal.interactive:
            self._terminal.remark(f"{self._served.text.id}. /help lists the commands, Ctrl-D leaves.")
        interrupted_at = float("-inf")
        while True:
            try:
                line = self._terminal.read()
            except KeyboardInterrupt:
                now = time.monotonic()
                if now - interrupted_at < DOUBLE_PRESS_S:
                    self._terminal.write("\n")
                    return
                interrupted_at = now
                self._terminal.remark("\nPress Ctrl-C again to leave.")
                continue
            interrupted_at = float("-inf")
            if line is None:
                if self._terminal.interactive:
                    self._terminal.write("\n")
                return
            if not self._handle(line):
                return

    def _handle(self, line: str) -> bool:
        """False when the person wants to leave."""
        if not line.startswith("/"):
            if line.strip():
                self._answer(line.strip())
            return True
        command, _, argument = line.strip().partition(" ")
        if command in ("/exit", "/quit"):
            return False
        if command == "/reset":
            self._turns.clear()
            self._terminal.remark("Conversation forgotten.")
        elif command == "/system":
            self._system = argument.strip() or None
            self._turns.clear()
            self._terminal.remark("System message set." if self._system else "System message removed.")
        elif command == "/retry":
            self._retry()
        elif command == "/stats":
            self._terminal.remark(self._last.speeds() if self._last else "No answer yet.")
        elif command == "/help":
            self._terminal.remark(HELP)
        else:
            self._terminal.remark(
                f"{command} is no command; /help lists them. To send it, begin with a space."
            )
        return True

    def _retry(self) -> None:
        if not self._turns:
            self._terminal.remark("There is nothing to answer again.")
            return
        question = self._turns[-2]["content"]
        del self._turns[-2:]
        self._answer(question)

    def _answer(self, question: str) -> None:
        """Adds the question and its answer to the conversation; nothing is added on an error."""
        asked = [*self._turns, {"role": "user", "content": question}]
        system = [{"role": "system", "content": self._system}] if self._system else []
        try:
            prompt, reading = prompt_of(self._served.text, [*system, *asked])
            reply = generate_reply(
                self._served,
                prompt,
                self._served.sampling(seed=self._seed),
                max_tokens=self._served.settings.max_tokens,
                emit=self._terminal.write,
                emit_thinking=self._terminal.think,
                reading=reading,
            )
        except ContextLengthExceeded as error:
            self._terminal.remark(f"{error.message}\nThe conversation is too long; /reset starts over.")
            return
        except StokerError as error:
            self._terminal.remark(f"\n{error.message}")
            return
        self._terminal.write("\n")
        # A stopped answer stays, as far as it was read: the next question may refer to it.
        self._turns = [*asked, {"role": "assistant", "content": reply.text}]
        if reply.reasoning:
            self._turns[-1]["reasoning_content"] = reply.reasoning  # the template says whether it stays
        self._last = reply
        if reply.reason == "cancelled":
            self._terminal.remark("(stopped)")
        elif reply.reason == "length":
            self._terminal.remark("(cut off: the limit of tokens is reached)")
        if self._verbose:
            self._terminal.remark(reply.speeds())
