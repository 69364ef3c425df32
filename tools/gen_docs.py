"""Writes docs/cli.md and docs/settings.md from the code. A test fails when they differ from it."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from stoker.cli import VERBS, main
from stoker.config import SETTINGS, Setting

DOCS = Path(__file__).resolve().parent.parent / "docs"

CLI_HEAD = """\
# The command line

Written by `make docs` from the program's own help; do not edit.

Value flags may be written `--name value` or `--name=value`. An unknown flag is an error that names the
nearest one. `stoker` without a verb runs `stoker serve`. Exit codes: 0 done, 1 it could not be done,
2 the command was wrong, 130 interrupted. Answers go to standard output, everything else to standard error.
"""

SETTINGS_HEAD = """\
# Settings

Written by `make docs` from the code; do not edit.

Each setting can be given in four places; the first that has it wins:

1. a flag of the command line;
2. the environment: `STOKER_` and the name below, or the same with `MLX_BUN_`, which older scripts use;
   yes/no settings read only `1` and `0`;
3. the config file, `~/.config/stoker/config.toml` (below `$XDG_CONFIG_HOME` if set; another one with
   `--config` or `STOKER_CONFIG`);
4. the default.

They are read once at start. A bad value ends the program with a sentence that names the place it came from.
`stoker doctor` shows which settings are not at their defaults, and why.

```toml
# ~/.config/stoker/config.toml
model = "smollm2"
port = 9000
allowed_hosts = ["box.local"]
temperature = 0.2
```

Other programs' names are read too: `HF_TOKEN`, `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT` and `HF_HUB_OFFLINE`
for downloads, `XDG_CACHE_HOME` for the place of caches, `OMP_NUM_THREADS` when `threads` is not set.
"""


def cli_page() -> str:
    parts = [CLI_HEAD, _help_of([])]
    for verb in VERBS:
        parts += [f"## stoker {verb}\n", _help_of([verb])]
    return "\n".join(parts)


def settings_page() -> str:
    groups = dict.fromkeys(setting.group for setting in SETTINGS.values())
    parts = [SETTINGS_HEAD]
    for group in groups:
        parts.append(f"## {group}\n")
        parts.append("| Config file | Flag | Environment | Accepts | Default | Meaning |")
        parts.append("|---|---|---|---|---|---|")
        parts += [_row(setting) for setting in SETTINGS.values() if setting.group == group]
        parts.append("")
    return "\n".join(parts)


def _row(setting: Setting) -> str:
    flags = ", ".join(f"`{flag}`" for flag in setting.flags) or "none"
    if setting.kind == "bool" and setting.flags:
        flags = f"`{setting.flags[0]}`, `--no-{setting.flags[0][2:]}`"
    kinds = {
        "int": "whole number",
        "float": "number",
        "str": "text",
        "bool": "yes or no",
        "list": "list",
        "path": "path",
    }
    accepts = setting.range_help if setting.choices else f"{kinds[setting.kind]} {setting.range_help}".strip()
    unit = {"MiB": " MiB", "GB": " GB", "MS": " ms", "TOKENS": " tokens", "SECONDS": " s", "GiB": " GiB"}.get(
        setting.unit, ""
    )
    cells = (
        f"`{setting.name}`",
        flags,
        f"`STOKER_{setting.env}`",
        accepts + unit,
        setting.default_help,
        setting.help[0].upper() + setting.help[1:],
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _help_of(arguments: list[str]) -> str:
    captured = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(captured), contextlib.suppress(SystemExit):
            main([*arguments, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    lines = [line.rstrip() for line in captured.getvalue().strip().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```\n"


PAGES = {"cli.md": cli_page, "settings.md": settings_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
