"""The `stoker` command: finds the verb and runs it. One file per verb beside this one.

Only the verb that is run is imported, and nothing at the top of its file imports torch, so help
is instant.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Iterable, Sequence

import typer

from stoker import __version__
from stoker.cli.output import note

HELP = """A private AI endpoint on this machine, speaking the OpenAI protocol.

\b
  stoker serve                     start the server on http://127.0.0.1:8080
  stoker chat                      talk to a model in this terminal
  stoker generate "Why is the sky blue?"
  stoker transcribe talk.mp3       speech to text
  stoker embed --text "Hello."     a text's vector
  stoker get smollm2-135m-instruct download a model
  stoker ls                        the models on this machine

`stoker` alone runs `stoker serve`. `stoker help VERB` explains a verb. Every setting can also be
given in the environment (STOKER_PORT=9000) or in ~/.config/stoker/config.toml (port = 9000).
"""


VERBS = (
    "serve",
    "generate",
    "chat",
    "transcribe",
    "dictate",
    "embed",
    "get",
    "ls",
    "rm",
    "cache",
    "bench",
    "doctor",
    "version",
)
OPTIONAL_VALUES = {"dictate": {"--hotkey": "f9"}}
ALIASES = {"gen": "generate", "benchmark": "bench"}


def build_app(verbs: Iterable[str] = VERBS) -> typer.Typer:
    """The command tree, or the branch of it that `verbs` (and their aliases) make."""
    # Plain help: rich's panels cost a third of the start-up time.
    app = typer.Typer(
        help=HELP,
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    )
    app.callback()(_top)
    for verb in verbs:
        run = importlib.import_module(f"stoker.cli.{verb}").run
        app.command(verb)(run)
        for alias, meant in ALIASES.items():
            if meant == verb:
                app.command(alias, hidden=True)(run)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"stoker {__version__}")
        raise typer.Exit()


def _top(
    show_version: bool = typer.Option(
        False, "--version", "-v", help="Print the version.", is_eager=True, callback=_print_version
    ),
) -> None:
    pass


def normalize(arguments: Sequence[str]) -> list[str]:
    """The arguments with the verb made explicit: `stoker --port 9000` serves, `stoker help ls` helps."""
    given = list(arguments)
    if given[:1] == ["help"]:
        return [*given[1:2], "--help"]
    if not given or (given[0].startswith("-") and given[0] not in ("--help", "-h", "--version", "-v")):
        return ["serve", *given]
    return _with_values(given)


def _with_values(given: list[str]) -> list[str]:
    """Options that may stand without their value get it."""
    for option, value in OPTIONAL_VALUES.get(given[0], {}).items():
        if option in given:
            after = given.index(option) + 1
            if after == len(given) or given[after].startswith("-"):
                return [*given[:after], value, *given[after:]]
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script. Exits with the verb's code."""
    _tolerate_terminals()
    try:
        _run(arguments)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            raise
        # The output has nowhere to go; closing it again at exit would only repeat the complaint.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        note(f"stoker: cannot write: {error.strerror}")
        sys.exit(1)


def _tolerate_terminals() -> None:
    """A model may say what the terminal's encoding lacks; and there may be no terminal at all."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _run(arguments: Sequence[str] | None) -> None:
    given = normalize(sys.argv[1:] if arguments is None else arguments)
    verb = ALIASES.get(given[0], given[0])
    build_app([verb] if verb in VERBS else VERBS)(given, prog_name="stoker")
