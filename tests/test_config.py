"""stoker.config: precedence, parsing, and one clear sentence for each bad value."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config import SETTINGS, SettingError, Settings, default_config_file, resolve


@pytest.fixture
def config(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture(autouse=True)
def no_config_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


def test_defaults_are_those_of_the_contract():
    settings = resolve({}, environ={})
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert (settings.batch, settings.max_queued) == (8, 64)
    assert settings.shutdown_timeout_ms == 120_000
    assert settings.temperature is settings.top_p is settings.top_k is settings.max_tokens is None


# Every subset of sources; the winner is the first in the documented order.
ORDER = ("flag", "STOKER_PORT", "MLX_BUN_PORT", "config")


@given(present=st.sets(st.sampled_from(ORDER)))
def test_precedence(present: set[str], tmp_path_factory: pytest.TempPathFactory):
    value = {source: 9000 + position for position, source in enumerate(ORDER)}
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_text(f"port = {value['config']}" if "config" in present else "")
    environ = {name: str(value[name]) for name in ORDER[1:3] if name in present}
    flags = {"port": str(value["flag"])} if "flag" in present else {"port": None}
    settings = resolve(flags, environ=environ, config_file=path)
    winner = next((source for source in ORDER if source in present), None)
    assert settings.port == (value[winner] if winner else 8080)
    shown = {"flag": "--port", "config": str(path), None: "default"}.get(winner, winner)
    assert settings.sources["port"] == shown


def test_the_snapshot_cannot_be_changed():
    settings = resolve({}, environ={})
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.sources["port"] = "x"  # type: ignore[index]


def test_later_changes_of_the_environment_do_not_reach_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STOKER_BATCH", "3")
    settings = resolve()
    monkeypatch.setenv("STOKER_BATCH", "5")
    assert settings.batch == 3


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("port", "high", "--port must be a whole number (0 to 65535), not 'high'"),
        ("port", "65536", "--port must be 0 to 65535, not 65536"),
        ("port", "8080.0", "--port must be a whole number (0 to 65535), not '8080.0'"),
        ("temperature", "-0.1", "--temperature must be 0 to 5, not -0.1"),
        ("temperature", "nan", "--temperature must be 0 to 5, not nan"),
        ("temperature", "inf", "--temperature must be 0 to 5, not inf"),
        ("top_p", "1.01", "--top-p must be 0 to 1, not 1.01"),
        ("top_k", "1000001", "--top-k must be 0 to 1000000, not 1000001"),
        ("max_tokens", "0", "--max-tokens must be 1 to 10000000, not 0"),
        ("quantize", "5", "--quantize must be one of 4, 8, not '5'"),
        ("dtype", "int8", "--dtype must be one of auto, float32, bfloat16, float16, not 'int8'"),
        ("host", "", "--host is empty; leave it out to get the default"),
    ],
)
def test_bad_values_of_a_flag(name: str, text: str, sentence: str):
    with pytest.raises(SettingError) as error:
        resolve({name: text}, environ={})
    assert error.value.message == sentence


def test_bad_values_name_the_environment_variable_they_came_from():
    for prefix in ("STOKER_", "MLX_BUN_"):
        with pytest.raises(SettingError, match=f"^{prefix}PORT must be a whole number"):
            resolve({}, environ={f"{prefix}PORT": "x"})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('port = "8080"', "port in {path} must be a whole number (0 to 65535), not '8080'"),
        ("port = true", "port in {path} must be a whole number (0 to 65535), not True"),
        ("port = 1.5", "port in {path} must be a whole number (0 to 65535), not 1.5"),
        ("access_log = 1", "access_log in {path} must be true or false, not 1"),
        ("allowed_hosts = [1]", "allowed_hosts in {path} must be a list of texts, not [1]"),
        ("prot = 1", "{path} sets prot, which is no setting; did you mean port?"),
        ("zzz = 1", "{path} sets zzz, which is no setting"),
    ],
)
def test_bad_values_of_the_config_file(config, text: str, sentence: str):
    path = config(text)
    with pytest.raises(SettingError) as error:
        resolve({}, environ={}, config_file=path)
    assert error.value.message == sentence.format(path=path)


def test_a_config_file_that_is_no_toml_is_named(config):
    path = config("port = ")
    with pytest.raises(SettingError, match=f"the config file {path} cannot be read"):
        resolve({}, environ={}, config_file=path)


def test_a_named_config_file_must_exist_but_the_default_one_need_not(tmp_path: Path):
    missing = tmp_path / "missing.toml"
    with pytest.raises(SettingError, match="does not exist"):
        resolve({}, environ={}, config_file=missing)
    with pytest.raises(SettingError, match="does not exist"):
        resolve({}, environ={"STOKER_CONFIG": str(missing)})
    assert resolve({}, environ={"XDG_CONFIG_HOME": str(tmp_path)}).port == 8080


def test_the_default_config_file_follows_xdg(tmp_path: Path):
    (tmp_path / "stoker").mkdir()
    (tmp_path / "stoker" / "config.toml").write_text('max-queued = 5\nallowed-hosts = ["a", "b"]\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert default_config_file(environ) == tmp_path / "stoker" / "config.toml"
    settings = resolve({}, environ=environ)
    assert (settings.max_queued, settings.allowed_hosts) == (5, ("a", "b"))


@pytest.mark.parametrize(
    ("text", "expected"), [("1", True), ("0", False), ("true", False), ("", False), ("2", False)]
)
def test_environment_booleans_read_only_1_and_0(text: str, expected: bool):
    # access_log is off by default: anything but "1" leaves or makes it so
    assert resolve({}, environ={"STOKER_ACCESS_LOG": text}).access_log is expected


def test_a_boolean_that_does_not_count_falls_through_to_the_alias():
    environ = {"STOKER_ACCESS_LOG": "yes", "MLX_BUN_ACCESS_LOG": "1"}
    assert resolve({}, environ=environ).sources["access_log"] == "MLX_BUN_ACCESS_LOG"


def test_names_that_differ_from_the_field_are_those_of_the_contract():
    environ = {
        "STOKER_RD_CONTEXT_LIMIT": "4096",
        "MLX_BUN_RD_PREFILL_CHUNK": "128",
        "STOKER_SHUTDOWN_TIMEOUT_MS": "5",
    }
    settings = resolve({}, environ=environ)
    assert (settings.context_limit, settings.prefill_chunk, settings.shutdown_timeout_ms) == (4096, 128, 5)


def test_lists_are_split_at_commas():
    assert resolve({"allowed_hosts": "a, b,,c "}, environ={}).allowed_hosts == ("a", "b", "c")


def test_the_api_key_is_not_in_the_repr():
    assert "hunter2" not in repr(resolve({"api_key": "hunter2"}, environ={}))


def test_every_setting_is_complete():
    flags = [flag for setting in SETTINGS.values() for flag in setting.flags]
    names = [setting.env for setting in SETTINGS.values()]
    assert len(set(flags)) == len(flags)
    assert len(set(names)) == len(names)
    assert list(SETTINGS) == [f.name for f in dataclasses.fields(Settings) if f.name != "sources"]
    for setting in SETTINGS.values():
        assert setting.help
        assert not setting.help.endswith(".")
        assert setting.default_help


@given(data=st.data())
def test_any_value_in_range_survives_text_and_toml(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
):
    setting = data.draw(st.sampled_from([s for s in SETTINGS.values() if s.low is not None]))
    number = (
        data.draw(st.integers(int(setting.low), int(setting.high)))
        if setting.kind == "int"
        else data.draw(st.floats(setting.low, setting.high))
    )
    assert getattr(resolve({setting.name: str(number)}, environ={}), setting.name) == number
    path = tmp_path_factory.mktemp("toml") / "config.toml"
    path.write_text(f"{setting.name} = {number!r}\n")
    assert getattr(resolve({}, environ={}, config_file=path), setting.name) == number
