from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.chat.lenient_json import LenientJson, partial_suffix, repair_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def pour(pieces: list[str]) -> tuple[str, str]:
    reader = LenientJson()
    out = "".join(reader.feed(piece) for piece in pieces)
    return out + reader.finish(), reader.rest


@settings(deadline=None)
@given(
    value=st.lists(VALUES, max_size=3) | st.dictionaries(st.text(), VALUES, max_size=3),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
    cut=st.integers(0, 200),
)
def test_valid_json_passes_unchanged(value: Any, ascii_only: bool, indent: int | None, cut: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert pour([text]) == (text, "")
    assert pour(list(text)) == (text, "")
    assert pour([text[:cut], text[cut:] + " tail"]) == (text, " tail")


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="{}[]:,\"'\\ \nabTrue1u0", max_size=40), st.integers(0, 40))
def test_what_comes_out_is_always_json(text: str, cut: int) -> None:
    reader = LenientJson()
    out = reader.feed("{" + text[:cut]) + reader.feed(text[cut:]) + reader.finish()
    assert isinstance(json.loads(out), dict)
    again = LenientJson()
    assert again.feed("{" + text) + again.finish() == out


@settings(deadline=None)
@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=3), st.integers(1, 300))
def test_a_cut_value_is_closed(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)[:cut]
    out, _ = pour([text])
    assert isinstance(json.loads(out), dict)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': True, 'b': None,}", {"a": True, "b": None}),
        ("{a: 1, b-c: [x, 'y',]}", {"a": 1, "b-c": ["x", "y"]}),
        ('{"a": 01, "b": .5, "c": +3}', {"a": "01", "b": ".5", "c": "+3"}),
        ('{"a": "x\ny", "b": "\\d \\n \\""}', {"a": "x\ny", "b": '\\d \n "'}),
        ('{"url": http://x/y?z=1, "n": 2}', {"url": "http://x/y?z=1", "n": 2}),
        ("[1 , 2 ,]", [1, 2]),
        ('{"a" = 1}', {"a": 1}),
    ],
)
def test_repairs(text: str, value: Any) -> None:
    repaired = repair_value(text)
    assert repaired is not None
    assert json.loads(repaired) == value


@pytest.mark.parametrize("text", ["", "hello", "{]", '{"a" 1}', '{"a": 1} x', "}{"])
def test_no_value(text: str) -> None:
    assert repair_value(text) is None


def test_raw_quotes_have_no_escapes() -> None:
    reader = LenientJson(raw_quotes=("<|>",))
    out = "".join(reader.feed(char) for char in '{a:<|>x\\n"{}\n<|>,b:<|><|>}!')
    assert json.loads(out) == {"a": 'x\\n"{}\n', "b": ""}
    assert (reader.done, reader.rest) == (True, "!")


def test_nothing_is_given_out_that_may_still_change() -> None:
    reader = LenientJson()
    assert reader.feed('{"a": Tr') == '{"a": '
    assert reader.feed("ue,") == "true"
    assert reader.feed(" }") == " }"


def test_partial_suffix() -> None:
    assert partial_suffix("abc<to", ("<tool>", "</x>")) == 3
    assert partial_suffix("abc<tool>", ("<tool>",)) == 0
    assert partial_suffix("", ("<tool>",)) == 0
