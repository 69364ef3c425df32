"""`stoker chat`: a conversation in the terminal, without a server."""

from __future__ import annotations

from typing import Annotated

import typer

from stoker.cli.options import MODEL_SETTINGS, SAMPLING_SETTINGS, Query, Seed, pick_model, with_settings
from stoker.cli.output import fail
from stoker.config import Settings


@with_settings(*MODEL_SETTINGS, *SAMPLING_SETTINGS)
def run(
    settings: Settings,
    positional: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Part of a model's name, or a path.", show_default=False),
    ] = None,
    query: Query = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="Instructions for the model.")
    ] = None,
    seed: Seed = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print counts and speeds after each answer.")
    ] = False,
) -> None:
    """Talk to a model in this terminal.

    \b
      stoker chat
      stoker chat smollm2 --system "Answer in one sentence."

    Ctrl-C stops the answer, not the program; at the prompt, press it twice to leave. /help lists
    the commands. Without a model the one `stoker serve` would choose is used.
    """
    from stoker.cli.conversation import Conversation
    from stoker.cli.loading import loaded
    from stoker.cli.terminal import Terminal
    from stoker.library.paths import store_dir

    with loaded(settings, pick_model(settings, positional, query)) as served:
        if served.text.template is None:
            fail(f"{served.text.id} has no chat template; use `stoker generate --raw` with it")
        terminal = Terminal(store_dir().parent / "chat-history")
        conversation = Conversation(served, terminal, system=system, seed=seed, verbose=verbose)
        conversation.run()
