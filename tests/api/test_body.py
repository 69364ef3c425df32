"""Bytes to a JSON object, strictly."""

import json

import pytest

from stoker.api.body import MAX_DEPTH, parse_object
from stoker.errors import InvalidRequest


def test_plain_object() -> None:
    assert parse_object('{"a": [1, 2.5, null, "é 🌍"]}'.encode()) == {"a": [1, 2.5, None, "é 🌍"]}


def test_byte_order_mark_is_allowed() -> None:
    assert parse_object(b"\xef\xbb\xbf{}") == {}


def test_escaped_surrogate_pair_is_one_character() -> None:
    assert parse_object(rb'{"a": "\ud83c\udf0d"}') == {"a": "🌍"}


def test_escaped_backslash_before_u_is_no_escape() -> None:
    assert parse_object(rb'{"a": "\\ud800"}') == {"a": "\\ud800"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"[]",
        b"null",
        b'"text"',
        b"3",
        b"{",
        b'{"a": 1',
        b'{"a": 1}}',
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"x": {"a": 1, "a": 1}}',
        rb'{"a": "\ud800"}',
        rb'{"\udfff": 1}',
        rb'{"a": "\uDE00\uD83D"}',
        b'{"a": "\xff"}',
        b'{"a": "\xc3\x28"}',
        '{"a": "é"}'.encode("latin-1"),
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-32"),
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"a":' * 500 + b"1" + b"}" * 500,
        b'{"a": "tab\tin text"}',
        b"\x1f\x8b\x08\x00garbage",
    ],
)
def test_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_object(body)
    assert caught.value.message.startswith("invalid JSON body: ")
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b" \n", "it is empty"),
        (b'{"a": 1,\n "b": }', "at line 2, column 7"),
        (b'{"a": 1} x', "at line 1, column 10"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b'[{"a": 1}]', "it must be an object"),
        (b'{"x": {"a": 1, "b": 2, "a": 1}}', 'the key "a" comes twice in one object'),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number has too many digits"),
        (rb'{"a": "\ud800"}', "it has half a surrogate pair"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "it nests more than 64 levels deep"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "it nests more than 64 levels deep"),
    ],
)
def test_the_message_says_where(body: bytes, where: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_object(body)
    assert caught.value.message.startswith("invalid JSON body: ")
    assert caught.value.message.endswith(where)


def test_depth_limit_is_exact() -> None:
    def nested(depth: int) -> bytes:
        value: object = {}
        for _ in range(depth - 1):
            value = {"a": value}
        return json.dumps(value).encode()

    parse_object(nested(MAX_DEPTH))
    with pytest.raises(InvalidRequest):
        parse_object(nested(MAX_DEPTH + 1))
