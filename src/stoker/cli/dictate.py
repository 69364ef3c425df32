"""`stoker dictate`: the microphone into a streaming take, here or on a server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.options import with_settings
from stoker.cli.output import fail, note
from stoker.config import Settings

if TYPE_CHECKING:
    from stoker.cli.dictation.microphone import Microphone
    from stoker.cli.dictation.recorders import Takes
    from stoker.cli.dictation.triggers import Trigger

_IDLE_UNLOAD_S = 30.0


@with_settings("whisper_model", "vad_model", "device", "threads")
def run(
    settings: Settings,
    query: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Part of a Whisper model's name.", show_default=False),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="TEXT", help="The same as MODEL.")] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server", metavar="URL", help="Use the server there instead of a model in this process."
        ),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option("--server-key", metavar="KEY", help="Its API key.", envvar="STOKER_API_KEY")
    ] = None,
    hotkey: Annotated[
        str | None,
        typer.Option(
            "--hotkey",
            metavar="[KEY]",
            help="Listen while this key is held down, whatever window is in front: a character, a name like "
            "f9 or ctrl_r, or the system's number of a key. f9 when no key is named.",
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", metavar="CODE", help="Code or name. Default: detected.")
    ] = None,
    beam_size: Annotated[int | None, typer.Option("--beam-size", metavar="N", help="1 to 16.")] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="TEXT", help="Style and words to expect.")
    ] = None,
    vocabulary: Annotated[
        str | None, typer.Option("--vocabulary", metavar="A,B", help="Terms to expect.")
    ] = None,
    no_vad: Annotated[
        bool, typer.Option("--no-vad", help="Transcribe even when nobody seems to speak.")
    ] = False,
    idle_unload: Annotated[
        float,
        typer.Option(
            "--idle-unload",
            metavar="SECONDS",
            help="Keep the weights in memory for so long after a take; 0 releases them at once. Default: 30.",
        ),
    ] = _IDLE_UNLOAD_S,
    resident: Annotated[bool, typer.Option("--resident", help="Never release the weights.")] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the text to the clipboard.")] = False,
    type_: Annotated[
        bool, typer.Option("--type", help="Type the text into the window that has the focus.")
    ] = False,
    type_delay: Annotated[
        float, typer.Option("--type-delay", metavar="MS", help="Wait so long after each character.")
    ] = 0.0,
    once: Annotated[bool, typer.Option("--once", help="End after one take.")] = False,
) -> None:
    """Dictate: speak, press Enter, and get the text.

    \b
      stoker dictate
      stoker dictate --language de --vocabulary "Kubernetes, PyTorch"
      stoker dictate --hotkey ctrl_r --type
      stoker dictate --server http://127.0.0.1:8080 --copy --once

    Text is on standard output, one take per line. Long takes appear while you speak. Needs the
    microphone extra, and --hotkey and --type the keyboard extra:
    pip install "stoker[microphone,keyboard]". Ctrl-C discards a take.
    """
    values: dict[str, Any] = {
        "language": language,
        "prompt": prompt,
        "beam_size": beam_size,
        "vocabulary": vocabulary,
        "vad": not no_vad,
    }
    values = {name: value for name, value in values.items() if value is not None}
    for name, number in (("--idle-unload", idle_unload), ("--type-delay", type_delay)):
        if not 0 <= number <= 1_000_000:
            fail(f"{name} must be from 0 to 1000000", 2)

    from stoker.cli.dictation import clipboard, keys, microphone, recorders, triggers

    device = microphone.Microphone()
    with contextlib.ExitStack() as open_until_the_end:
        typist = keys.Typist(type_delay / 1000) if type_ else None
        trigger = triggers.Held(hotkey) if hotkey is not None else triggers.Enter()
        open_until_the_end.callback(trigger.close)
        if server:
            takes = recorders.on_server(open_until_the_end, server, api_key, values)
        else:
            takes = recorders.here(settings, model or query, None if resident else idle_unload, values)
        while not trigger.over:
            try:
                note(trigger.hint)
                trigger.wait_begin()
                text = _take(takes, device, trigger)
            except KeyboardInterrupt:
                note("\nDiscarded.")
                return
            print(text, flush=True)
            if copy and text:
                clipboard.copy(text)
            if typist is not None and text:
                typist.type(f"{text} ")  # takes follow each other as sentences do
            if once:
                return


def _take(takes: Takes, microphone: Microphone, trigger: Trigger) -> str:
    """The microphone is on before the model is in memory or the server has answered."""
    with microphone.recording(trigger.wait_end) as chunks:
        recorder = takes()
        try:
            for samples in chunks:
                for text in recorder.send(samples):
                    note(text.strip())
        except BaseException:
            recorder.discard()
            raise
    try:
        return recorder.finish()
    except BaseException:
        recorder.discard()
        raise
