"""`stoker generate`: one answer to one prompt, then exit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stoker.cli.options import MODEL_SETTINGS, SAMPLING_SETTINGS, Query, Seed, pick_model, with_settings
from stoker.cli.output import fail, note, write_dim
from stoker.config import Settings


@with_settings(*MODEL_SETTINGS, *SAMPLING_SETTINGS)
def run(
    settings: Settings,
    first: Annotated[str | None, typer.Argument(metavar="MODEL", show_default=False)] = None,
    second: Annotated[str | None, typer.Argument(metavar="PROMPT", show_default=False)] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", metavar="TEXT", help="The prompt; - reads standard input.")
    ] = None,
    query: Query = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="A system message before the prompt.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the text as it is, without a chat template.")
    ] = False,
    seed: Seed = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print model, counts and speeds on stderr.")
    ] = False,
) -> None:
    """Generate one answer, streamed to standard output.

    \b
      stoker generate "Why is the sky blue?"
      stoker generate smollm2 "Why is the sky blue?" --temperature 0
      stoker generate --raw "Once upon a time" --max-tokens 100
      cat report.txt | stoker generate -p - --system "Summarize this."

    With one argument it is the prompt, unless it is the path of a model; with two they are the model
    and the prompt. Without a model the one `stoker serve` would choose is used; without a prompt it
    is read from standard input.
    """
    model, prompt = _model_and_prompt(first, second, prompt)
    if prompt is None or prompt == "-":
        if prompt is None and sys.stdin.isatty():
            fail("no prompt: give it as an argument, with --prompt, or on standard input", 2)
        prompt = sys.stdin.read()
    if not prompt:
        fail("the prompt is empty", 2)

    from stoker.cli.generation import generate_reply, prompt_of
    from stoker.cli.loading import loaded

    with loaded(settings, pick_model(settings, model, query), verbose=verbose) as served:
        if raw or served.text.template is None:
            if system is not None:
                fail("--system needs a chat template; put the text into the prompt", 2)
            if not raw:
                note(f"{served.text.id} has no chat template; continuing the text as it is (--raw)")
            ids, reading = served.text.prompt_from_text(prompt), None
        else:
            messages = [{"role": "system", "content": system}] if system is not None else []
            ids, reading = prompt_of(served.text, [*messages, {"role": "user", "content": prompt}])
        reply = generate_reply(
            served,
            ids,
            served.sampling(seed=seed),
            max_tokens=settings.max_tokens,
            emit=_write,
            emit_thinking=write_dim,
            reading=reading,
        )
        if not reply.text.endswith("\n"):
            _write("\n")
        if verbose:
            note(reply.speeds())
    if reply.reason == "cancelled":
        raise typer.Exit(130)


def _model_and_prompt(
    first: str | None, second: str | None, prompt: str | None
) -> tuple[str | None, str | None]:
    """One positional argument is the prompt unless --prompt gives it, or it is the path of a model;
    two are model and prompt."""
    if prompt is not None:
        if second is not None:
            fail("the prompt is given twice, as an argument and with --prompt", 2)
        return first, prompt
    if second is not None or (first is not None and _is_model_path(first)):
        return first, second
    return None, first


def _is_model_path(argument: str) -> bool:
    """Whether this is a file or folder with a model, which nobody means as a prompt."""
    try:
        path = Path(argument).expanduser()
        return (path.suffix == ".gguf" and path.is_file()) or (path / "config.json").is_file()
    except (OSError, ValueError):  # too long for a path, or with a null in it
        return False


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
