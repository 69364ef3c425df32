"""`stoker dictate` with a microphone and a keyboard that are Python objects, on the fake model."""

from __future__ import annotations

import enum
import io
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.api.speech.fronts import chat_server
from tests.cli.conftest import Run
from tests.speech.fakes import FakeWhisper, make_service
from tests.speech.sounds import tone

from stoker.cli import normalize, speech
from stoker.cli.dictation import clipboard

SOUND = np.random.default_rng(1).uniform(-0.5, 0.5, 31 * 16_000).astype(np.float32)


class PortAudioError(Exception):
    pass


class FakeSound(types.ModuleType):
    """PortAudio: calls back with `sound` in blocks, and says when all of it has been heard."""

    PortAudioError = PortAudioError

    def __init__(self, sound: np.ndarray = SOUND, rates: tuple[int, ...] = (16_000,)) -> None:
        super().__init__("sounddevice")
        self.sound, self.rates = sound, rates
        self.heard = threading.Event()
        self.overflow = False
        self.opened: list[dict[str, Any]] = []

    def query_devices(self, device: object, kind: str) -> dict[str, float]:
        assert (device, kind) == (None, "input")
        if not self.rates:
            raise PortAudioError("no device")
        return {"default_samplerate": float(self.rates[0])}

    def InputStream(self, **options: Any) -> FakeStream:
        if options["samplerate"] not in self.rates:
            raise PortAudioError("Invalid sample rate [PaErrorCode -9997]")
        self.opened.append(options)
        return FakeStream(self, options["blocksize"], options["callback"])


class FakeStream:
    def __init__(self, library: FakeSound, size: int, callback: Callable[..., None]) -> None:
        self.library, self.size, self.callback = library, size, callback

    def __enter__(self) -> FakeStream:
        status = types.SimpleNamespace(input_overflow=self.library.overflow)
        buffer = np.empty((self.size, 1), np.float32)  # used again for every block, as PortAudio does
        whole = len(self.library.sound) // self.size * self.size
        for at in range(0, whole, self.size):
            buffer[:, 0] = self.library.sound[at : at + self.size]
            self.callback(buffer, self.size, None, status)
        self.library.heard.set()
        return self

    def __exit__(self, *_: object) -> None: ...


class Terminal(io.StringIO):
    """Presses Enter once the sound has been heard; after `presses` of them, there is no input any more."""

    def __init__(self, library: FakeSound, presses: int = 1) -> None:
        super().__init__()
        self.library, self.presses = library, presses

    def readline(self, size: int | None = -1, /) -> str:
        assert self.library.heard.wait(10)
        self.presses -= 1
        return "\n" if self.presses >= 0 else ""


@pytest.fixture
def sound(monkeypatch: pytest.MonkeyPatch) -> FakeSound:
    library = FakeSound()
    monkeypatch.setitem(sys.modules, "sounddevice", library)
    monkeypatch.setattr(sys, "stdin", Terminal(library))
    return library


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FakeWhisper:
    model = FakeWhisper([" Hellö there."])
    monkeypatch.setattr(speech, "local_service", lambda *_: make_service(model, idle_unload_s=None))
    return model


def test_here(stoker: Run, sound: FakeSound, model: FakeWhisper) -> None:
    code, out, err = stoker("dictate", "--once", "--no-vad", "--language", "en")
    assert (code, out) == (0, "Hellö there. Hellö there.\n")
    assert np.array_equal(np.concatenate(model.takes[0].fed), SOUND)
    assert "Enter ends the take" in err
    options = sound.opened[0]
    assert (options["samplerate"], options["channels"], options["dtype"]) == (16_000, 1, "float32")
    assert options["blocksize"] <= 1600  # what is in a block when Enter is pressed is lost


def test_on_a_server(stoker: Run, sound: FakeSound) -> None:
    server = chat_server()
    with server.serving() as port:
        url = f"http://127.0.0.1:{port}"
        code, out, _ = stoker("dictate", "--once", "--no-vad", "--server", url)
        assert (code, out) == (0, "Hello there. Hello there.\n")
        code, _, err = stoker("dictate", "--once", "--server", url, "--language", "xx")
        assert code == 1
        assert "unsupported language" in err
    assert np.array_equal(np.concatenate(server.model.takes[0].fed), SOUND)
    assert len(server.front.sessions) == 0


def test_a_server_that_fails_keeps_no_session(stoker: Run, sound: FakeSound) -> None:
    server = chat_server(FakeWhisper(fail_in_window=0))
    with server.serving() as port:
        code, out, err = stoker("dictate", "--once", "--no-vad", "--server", f"http://127.0.0.1:{port}")
    assert (code, out) == (1, "")
    assert "told to fail" in err
    assert len(server.front.sessions) == 0


def test_no_server(stoker: Run, sound: FakeSound) -> None:
    code, _, err = stoker("dictate", "--once", "--server", "http://127.0.0.1:9")
    assert code == 1
    assert "does not answer" in err


def test_takes_until_there_is_no_input(
    stoker: Run, sound: FakeSound, model: FakeWhisper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `< /dev/null`: never an endless loop of empty takes."""
    monkeypatch.setattr(sys, "stdin", Terminal(sound, presses=2))
    code, out, _ = stoker("dictate", "--no-vad")
    assert (code, out) == (0, "Hellö there. Hellö there.\n" * 3)


def test_a_device_with_a_rate_of_its_own(
    stoker: Run, sound: FakeSound, model: FakeWhisper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound.rates, sound.sound = (48_000,), tone(2.0, 48_000)
    assert stoker("dictate", "--once", "--no-vad")[0] == 0
    heard = np.concatenate(model.takes[0].fed)
    assert len(heard) == pytest.approx(32_000, abs=2)
    middle = slice(1000, 30_000)  # the resampler's ends are its own
    assert heard[middle] == pytest.approx(tone(2.0)[middle], abs=2e-3)


def test_no_device(stoker: Run, sound: FakeSound, model: FakeWhisper) -> None:
    sound.rates = ()
    code, out, err = stoker("dictate", "--once")
    assert (code, out) == (1, "")
    assert "the microphone cannot be opened: Invalid sample rate" in err


def test_lost_sound_is_told(stoker: Run, sound: FakeSound, model: FakeWhisper) -> None:
    sound.overflow = True
    code, out, err = stoker("dictate", "--once", "--no-vad")
    assert (code, out) == (0, "Hellö there. Hellö there.\n")
    assert err.count("sound was lost") == 1


def test_interrupted(
    stoker: Run, sound: FakeSound, model: FakeWhisper, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(model)
    monkeypatch.setattr(speech, "local_service", lambda *_: service)

    def interrupt(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("stoker.cli.dictation.recorders.LocalRecorder.send", interrupt)
    code, out, err = stoker("dictate", "--no-vad")
    assert (code, out) == (0, "")
    assert "Discarded" in err
    assert not service.stats().residency.resident


@pytest.mark.parametrize(
    ("flags", "idle_unload_s"),
    [([], 30.0), (["--idle-unload", "0"], 0.0), (["--idle-unload", "5"], 5.0), (["--resident"], None)],
)
def test_how_long_weights_stay(
    stoker: Run,
    sound: FakeSound,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    idle_unload_s: float | None,
) -> None:
    asked: list[object] = []

    def service(*arguments: object) -> object:
        asked.append(arguments[2])
        return make_service(FakeWhisper())

    monkeypatch.setattr(speech, "local_service", service)
    assert stoker("dictate", "--once", *flags)[0] == 0
    assert asked == [idle_unload_s]


def test_options(stoker: Run, sound: FakeSound, model: FakeWhisper) -> None:
    flags = ["--language", "german", "--beam-size", "5", "--prompt", "Hi.", "--no-vad"]
    assert stoker("dictate", "--once", *flags, "--vocabulary", "Ada, Bea")[0] == 0
    options = model.takes[0].options
    assert (options.language, options.beam_size, options.initial_prompt) == ("de", 5, "Hi.")
    assert options.vocabulary == ("Ada", "Bea")


def test_the_gate_is_on(stoker: Run, sound: FakeSound, model: FakeWhisper) -> None:
    sound.sound = np.zeros(32_000, np.float32)
    assert stoker("dictate", "--once")[:2] == (0, "\n")
    assert model.num_steps == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--idle-unload", "-1"], "--idle-unload must be from 0"),
        (["--type-delay", "nan"], "--type-delay must be from 0"),
        (["--beam-size", "99"], "beam_size must be an integer in [1, 16]"),
        (["--language", "xx"], "unsupported language: xx"),
    ],
)
def test_bad_flags(stoker: Run, sound: FakeSound, model: FakeWhisper, flags: list[str], message: str) -> None:
    code, out, err = stoker("dictate", "--once", *flags)
    assert code != 0
    assert out == ""
    assert message in err
    assert not sound.opened


def test_copied(stoker: Run, sound: FakeSound, model: FakeWhisper, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[bytes] = []
    monkeypatch.setattr(clipboard.shutil, "which", lambda name: name == "xclip" or None)
    monkeypatch.setattr(clipboard.subprocess, "run", lambda command, input, check: copied.append(input))
    assert stoker("dictate", "--once", "--no-vad", "--copy")[0] == 0
    assert copied == ["Hellö there. Hellö there.".encode()]
    monkeypatch.setattr(clipboard.shutil, "which", lambda name: None)
    sys.stdin = Terminal(sound)
    _, out, err = stoker("dictate", "--once", "--no-vad", "--copy")
    assert out == "Hellö there. Hellö there.\n"
    assert "No clipboard program" in err


class Key(enum.Enum):
    f9 = types.SimpleNamespace(vk=120)
    ctrl_r = types.SimpleNamespace(vk=163)


def character(letter: str) -> types.SimpleNamespace:
    return types.SimpleNamespace(char=letter, vk=ord(letter))


class FakeKeyboard(types.ModuleType):
    """pynput.keyboard. `script` is what the person does, (key, pressed), once somebody listens; a key goes up
    when all has been said."""

    Key = Key

    def __init__(self) -> None:
        super().__init__("pynput.keyboard")
        self.script: list[tuple[object, bool]] = []
        self.sound: FakeSound | None = None
        self.typed: list[str] = []
        self.stopped = False

    def Controller(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(type=self.typed.append)

    def Listener(self, on_press: Callable[..., None], on_release: Callable[..., None]) -> Any:
        def act() -> None:
            for key, down in self.script:
                if not down:
                    assert self.sound is not None
                    assert self.sound.heard.wait(10)
                (on_press if down else on_release)(key)

        return types.SimpleNamespace(start=threading.Thread(target=act, daemon=True).start, stop=self._stop)

    def _stop(self) -> None:
        self.stopped = True


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch, sound: FakeSound) -> FakeKeyboard:
    module = FakeKeyboard()
    module.sound = sound
    package = types.ModuleType("pynput")
    package.keyboard = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynput", package)
    monkeypatch.setitem(sys.modules, "pynput.keyboard", module)
    return module


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("f9", Key.f9),
        ("ctrl_r", Key.ctrl_r),
        ("Ctrl-R", Key.ctrl_r),
        ("163", Key.ctrl_r),
        ("x", character("x")),
        ("x", character("X")),
    ],
)
def test_a_key_held_down(
    stoker: Run, model: FakeWhisper, keyboard: FakeKeyboard, name: str, key: object
) -> None:
    other = character("q")
    # The system repeats the key while it is held: that ends nothing.
    keyboard.script = [(other, True), (key, True), (key, False), (key, True), (other, False), (key, False)]
    code, out, err = stoker("dictate", "--once", "--no-vad", "--hotkey", name)
    assert (code, out) == (0, "Hellö there. Hellö there.\n")
    assert f"Hold {name}" in err
    assert keyboard.stopped


def test_a_key_that_is_none(stoker: Run, model: FakeWhisper, keyboard: FakeKeyboard) -> None:
    code, _, err = stoker("dictate", "--hotkey", "hyper")
    assert code == 2
    assert "no key is called hyper" in err
    assert "f9, ctrl_r" in err


def test_a_hotkey_without_a_name() -> None:
    assert normalize(["dictate", "--hotkey"]) == ["dictate", "--hotkey", "f9"]
    assert normalize(["dictate", "--hotkey", "--type"]) == ["dictate", "--hotkey", "f9", "--type"]
    assert normalize(["dictate", "--hotkey", "x", "--type"]) == ["dictate", "--hotkey", "x", "--type"]
    assert normalize(["dictate", "base"]) == ["dictate", "base"]


@pytest.mark.parametrize(("delay", "pieces"), [("0", 1), ("1", len("Hellö there. Hellö there. "))])
def test_typed(stoker: Run, model: FakeWhisper, keyboard: FakeKeyboard, delay: str, pieces: int) -> None:
    code, _, _ = stoker("dictate", "--once", "--no-vad", "--type", "--type-delay", delay)
    assert code == 0
    assert "".join(keyboard.typed) == "Hellö there. Hellö there. "
    assert len(keyboard.typed) == pieces


@pytest.mark.parametrize("flags", [["--type"], ["--hotkey", "f9"]])
def test_without_the_keyboard_library(
    stoker: Run, sound: FakeSound, model: FakeWhisper, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pynput", None)
    code, _, err = stoker("dictate", *flags)
    assert code == 1
    assert 'pip install "stoker[keyboard]"' in err


def test_without_the_microphone_library(stoker: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    code, _, err = stoker("dictate")
    assert code == 1
    assert 'pip install "stoker[microphone]"' in err
