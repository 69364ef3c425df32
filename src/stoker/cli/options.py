"""Turns settings into command-line options, so that each is declared only in stoker.config.

A command takes `settings: Settings` and lists the settings it shows as flags; the others still
come from the environment and the config file.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from stoker.cli.output import fail
from stoker.config import SETTINGS, Setting, resolve
from stoker.errors import StokerError

MODEL_SETTINGS = ("model", "dtype", "quantize", "device", "threads", "context_limit")
SAMPLING_SETTINGS = ("temperature", "top_p", "top_k", "max_tokens")

Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Repeat an answer. Default: fresh each time.")
]
Query = Annotated[str | None, typer.Option("--query", "-q", metavar="TEXT", help="The same as MODEL.")]


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose `settings` argument is resolved from the named settings' flags.

    Errors of the StokerError tree end the program with one sentence on stderr: exit code 2 for
    a bad setting, 1 for the rest.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        options = [option for name in names for option in _options(SETTINGS[name])]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            config_file = given.pop("config")
            flags = {name: _take(given, SETTINGS[name]) for name in names}
            try:
                settings = resolve(flags, config_file=Path(config_file) if config_file else None)
                if settings.home is not None:  # the library asks the environment
                    os.environ["STOKER_HOME"] = str(settings.home)
                command(settings=settings, **given)
            except StokerError as error:
                fail(error)

        parameters = [p for p in own.parameters.values() if p.name != "settings"]
        run.__signature__ = inspect.Signature([*_keyword_only(parameters), *options, _config_option()])  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return wrap


def pick_model(settings: Any, positional: str | None, query: str | None) -> str | None:
    """What the user asked for: --model > positional > --query > environment and config file."""
    if settings.sources.get("model") == "--model":
        return str(settings.model)
    return positional or query or settings.model


def option_help(setting: Setting) -> str:
    """One line of help: what it does, what is chosen otherwise, its range and its environment name."""
    text = setting.help[0].upper() + setting.help[1:]
    within = f" {setting.range_help}." if setting.low is not None else ""
    also = f" Also {', '.join(setting.flags[1:])}." if setting.flags[1:] else ""
    return f"{text}.{within}{also} Default: {setting.default_help}. [STOKER_{setting.env}]"


def _options(setting: Setting) -> list[inspect.Parameter]:
    """The main flag, and each alias as a hidden option: when both are given the main one wins."""
    if setting.kind == "bool":
        flag = setting.flags[0]
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=option_help(setting), show_default=False)
        return [_parameter(setting.name, bool | None, option)]
    found = []
    for position, flag in enumerate(setting.flags):
        option = typer.Option(
            flag, metavar=setting.metavar, help=option_help(setting), hidden=position > 0, show_default=False
        )
        found.append(_parameter(_key(setting, position), str | None, option))
    return found


def _take(given: dict[str, Any], setting: Setting) -> Any:
    values = [given.pop(_key(setting, position)) for position in range(len(setting.flags))]
    return next((value for value in values if value is not None), None)


def _key(setting: Setting, position: int) -> str:
    return setting.name if position == 0 else f"{setting.name}_alias_{position}"


def _config_option() -> inspect.Parameter:
    text = "Config file. Default: ~/.config/stoker/config.toml if it exists. [STOKER_CONFIG]"
    return _parameter("config", str | None, typer.Option("--config", metavar="PATH", help=text))


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )


def _keyword_only(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
