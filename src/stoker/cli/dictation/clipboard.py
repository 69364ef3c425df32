"""The clipboard, by whichever program of the system knows it."""

from __future__ import annotations

import shutil
import subprocess

from stoker.cli.output import note

_PROGRAMS = (["pbcopy"], ["wl-copy"], ["xclip", "-selection", "clipboard"], ["clip"])


def copy(text: str) -> None:
    for command in _PROGRAMS:
        if shutil.which(command[0]):
            subprocess.run(command, input=text.encode(), check=False)
            return
    note("No clipboard program was found (pbcopy, wl-copy, xclip, clip).")
