"""The prompts that exactness is measured on: chat and raw, many scripts, code, numbers, one word to a page.

Texts only. Their token ids, as llama.cpp and its template engine make them, are in peer.json.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompt:
    """Exactly one of `text` (continued as it is) and `messages` (through the model's chat template)."""

    name: str
    text: str | None = None
    messages: tuple[dict[str, str], ...] = ()


def _raw(name: str, text: str) -> Prompt:
    return Prompt(name, text=text)


def _chat(name: str, *turns: str, system: str | None = None) -> Prompt:
    """Turns alternate, the user first."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return Prompt(name, messages=tuple(messages))


_PAGE = """\
The harbor office keeps three books. The first lists every ship that has asked for a berth, with the
hour of its request and the length of its keel. The second lists the berths themselves: how deep they are at
low water, which of them have cranes, and which are closed for repair. The third is the book that matters
most to the captains, because it says who goes where and when.

Each morning the harbor master reads the first book from the top. She does not always take the oldest
request. A ship that carries fruit cannot wait as long as a ship that carries stone, and a ship that draws
nine metres can only enter around high water. She writes her decisions into the third book in pencil, and
only when a pilot has gone aboard does she write them again in ink. Nothing written in ink is ever erased;
if a ship has to leave its berth early, a new line is added below the old one, with the reason.

The junior clerk once asked why the books could not be joined into one. The harbor master answered that a
book which says what people want, a book which says what there is, and a book which says what was decided
are three different kinds of truth, and that most of the quarrels she had seen in thirty years came from
people who had read one of them and believed they had read another.

In winter, when the ice closes the outer channel, the first book grows thick and the third stays thin. The
master then publishes a short note each evening, which hangs beside the door:

Requests received: 14. Ships berthed: 3. Ships departed: 2. Depth at the bar: 7.4 metres. Expected wait for
vessels under five metres: one day. Expected wait for all others: until the ice breaker returns.

"""

PROMPTS: tuple[Prompt, ...] = (
    _raw("one-word", "The"),
    _raw("capital", "The capital of Norway is"),
    _raw(
        "prose",
        "It had rained for six days when the carpenter finally opened the cellar door, and what he saw",
    ),
    _raw("list", "Shopping list:\n- flour\n- two lemons\n- salt\n- "),
    _raw("python", 'def median(values):\n    """Return the middle value of a sorted copy."""\n    ordered ='),
    _raw("javascript", "const sleep = (ms) => new Promise((resolve) =>"),
    _raw("c", "#include <stdio.h>\n\nint main(void) {\n    for (int i = 0; i < 10; i++) {\n        printf("),
    _raw("json", '{"name": "Ada", "born": 1815, "languages": ["English", "French"], "address": {"city":'),
    _raw(
        "sql",
        "SELECT customer_id, SUM(amount) AS total\nFROM orders\nWHERE placed_at >= '2024-01-01'\nGROUP BY",
    ),
    _raw("numbers", "2, 3, 5, 7, 11, 13, 17, 19, 23,"),
    _raw("arithmetic", "12 + 30 = 42\n15 + 27 = 42\n19 + 23 ="),
    _raw("german", "Der alte Leuchtturm steht seit über hundert Jahren am Rand der Klippe, und jeden Abend"),
    _raw("french", "Les élèves ont posé leurs cahiers sur la table, puis la maîtresse a"),
    _raw("russian", "Сегодня утром на рынке было много людей, потому что"),
    _raw("greek", "Η θάλασσα ήταν ήσυχη και ο ψαράς"),
    _raw("chinese", "春天来了，花园里的花都开了。孩子们"),
    _raw("japanese", "昨日は雨が降っていたので、"),
    _raw("arabic", "في الصباح الباكر خرج الرجل إلى"),
    _raw("hindi", "सुबह होते ही किसान खेत की ओर"),
    _raw("emoji", "Weather today: ☀️ 24°C. Tomorrow: 🌧️ 17°C. Mood: 👩‍👩‍👧 "),
    _raw("page", _PAGE + "In one sentence, the three books of the harbor are"),
    _raw("spaces", "a\tb\tc\n1\t2\t3\n\n    indented   text   with   gaps\n"),
    _chat("greeting", "Hello! Who are you?"),
    _chat("question", "Why is the sky blue? Answer in two sentences."),
    _chat("code-request", "Write a Python function that reverses the words of a sentence."),
    _chat(
        "rewrite", "Make this polite: Send me the report now.", system="You answer with one sentence only."
    ),
    _chat(
        "three-turns",
        "I have 12 apples and give away 5.",
        "You have 7 apples left.",
        "Then I buy twice as many as I have. How many are there now?",
    ),
    _chat("translate", "Translate to Spanish: The library opens at nine o'clock."),
    _chat("chinese-chat", "请用一句话介绍一下长城。"),
    _chat("summary", "Summarize the following text in one sentence.\n\n" + _PAGE.split("\n\n")[1]),
)
