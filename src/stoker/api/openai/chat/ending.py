"""How a chat's prompt ends: with the beginning of a new turn, or in the middle of the assistant's last."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.api.fields import Fields, invalid


@dataclass(frozen=True, slots=True)
class Ending:
    continues: bool = False  # the reply goes on from the last message
    opens_turn: bool = True  # the template writes the beginning of the assistant's turn


def read_ending(fields: Fields) -> Ending:
    """`continue_final_message` and `add_generation_prompt`, as in vLLM."""
    continues = bool(fields.flag("continue_final_message"))
    opens_turn = fields.flag("add_generation_prompt")
    if continues and opens_turn:
        raise invalid(
            "continue_final_message", "continue_final_message and add_generation_prompt cannot both be true"
        )
    return Ending(continues, opens_turn is not False and not continues)
