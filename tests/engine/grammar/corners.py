"""Further schemas in the manner of JSONSchemaBench. Each must be kept to the letter by whatever is written
under it, or be refused before anything is; ENFORCED ones must not be refused. Everything ends."""

from typing import Any

from tests.engine.grammar.schemas import DIGIT, SHORT, closed

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
BOOL = {"type": "boolean"}


def _nested(levels: int) -> dict[str, Any]:
    return closed({"n": _nested(levels - 1)}) if levels else DIGIT


ENFORCED: dict[str, Any] = {
    "references behind references": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": closed({"c": {"$ref": "#/$defs/c"}}), "c": DIGIT},
    },
    "reference with keywords beside it": closed(
        {"a": {"$ref": "#/$defs/n", "maximum": 3}}, **{"$defs": {"n": {"type": "integer", "minimum": 2}}}
    ),
    "reference to the root": {
        "type": "array",
        "items": {"$ref": "#"},
        "maxItems": 1,
    },
    "reference with escapes": closed(
        {"a": {"$ref": "#/$defs/x~1y"}, "b": {"$ref": "#/$defs/p~0q"}},
        **{"$defs": {"x/y": BOOL, "p~q": DIGIT}},
    ),
    "recursion with a bound": {
        "$ref": "#/$defs/t",
        "$defs": {"t": closed({"l": {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 1}})},
    },
    "property called $ref": closed({"$ref": DIGIT, "type": BOOL, "enum": SHORT}),
    "anyOf of objects that overlap": {
        "anyOf": [closed({"a": DIGIT}), closed({"a": DIGIT, "b": BOOL}), closed({"c": {"type": "null"}})]
    },
    "anyOf beside properties": {
        **closed({"kind": {"enum": ["x", "y"]}, "x": DIGIT, "y": BOOL}),
        "required": ["kind"],
        "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
    },
    "allOf of references": {
        "allOf": [{"$ref": "#/$defs/low"}, {"$ref": "#/$defs/high"}],
        "$defs": {"low": {"type": "integer", "minimum": 5}, "high": {"type": "integer", "maximum": 8}},
    },
    "const of a unicode tree": closed({"a": {"const": {"ключ": ["é", "🙂", {"": None}]}}}),
    "enum of unicode": {"enum": ["naïve", "e\u0301", "日本", "🏳️‍🌈", "\u2028", "\x7f", "a\u0000b"]},
    "enum that type narrows": {"type": "string", "enum": ["a", 1, None, "b"]},
    "enum that a length narrows": {"enum": ["a", "bb", "ccc"], "minLength": 2, "maxLength": 2},
    "pattern with anchors": closed({"a": {"type": "string", "pattern": "^(ab|c)?d$"}}),
    "pattern anchored on one side": closed(
        {
            "a": {"type": "string", "pattern": "^x", "maxLength": 4},
            "b": {"type": "string", "pattern": "x$", "maxLength": 4},
        }
    ),
    "pattern of alternatives with an anchor each": closed(
        {"a": {"type": "string", "pattern": "^a|b$", "maxLength": 3}}
    ),
    "pattern of what JSON escapes": closed({"a": {"type": "string", "pattern": '^["\\\\/\\n]{1,3}$'}}),
    "pattern of digits and words": closed({"a": {"type": "string", "pattern": "^\\d{1,2}\\s?\\w{1,2}$"}}),
    "more formats": closed(
        {
            "at": {"type": "string", "format": "date-time", "maxLength": 32},
            "time": {"type": "string", "format": "time", "maxLength": 20},
            "id": {"type": "string", "format": "uuid"},
            "mail": {"type": "string", "format": "email", "maxLength": 30},
        }
    ),
    "ipv6": {"type": "string", "format": "ipv6"},
    "array of bounded length": {"type": "array", "items": BOOL, "minItems": 2, "maxItems": 4},
    "tuple of an older draft": {
        "$schema": DRAFT_7,
        "type": "array",
        "items": [DIGIT, BOOL],
        "additionalItems": False,
        "minItems": 1,
    },
    "tuple with more": {"type": "array", "prefixItems": [DIGIT], "items": BOOL, "maxItems": 3},
    "no items": {"type": "array", "items": False},
    "additional properties forbidden": {**closed({"a": DIGIT, "b": BOOL}), "required": []},
    "additional properties of a schema": {
        "type": "object",
        "properties": {"a": BOOL},
        "required": ["a"],
        "additionalProperties": DIGIT,
        "maxProperties": 2,
    },
    "integer range across zero": closed({"a": {"type": "integer", "minimum": -105, "maximum": 7}}),
    "integers between fractions": closed({"a": {"type": "integer", "minimum": 1.5, "maximum": 3.5}}),
    "large integers": closed({"a": {"type": "integer", "minimum": 999999999, "maximum": 1000000002}}),
    "exclusive fractions": closed(
        {"a": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5, "multipleOf": 0.25}}
    ),
    "exclusive bound beside an inclusive one": closed(
        {"a": {"type": "integer", "minimum": 3, "exclusiveMinimum": 3, "maximum": 5}}
    ),
    "exclusive zero below a fraction": closed(
        {"a": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.25, "multipleOf": 0.125}}
    ),
    "exclusive bounds from two places": {
        "allOf": [{"$ref": "#/$defs/low"}, {"exclusiveMaximum": -1}],
        "$defs": {"low": {"type": "number", "minimum": -1.25, "multipleOf": 0.125}},
    },
    "multiples of a fraction": closed(
        {"a": {"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 9}}
    ),
    "required but not described": {
        "type": "object",
        "properties": {"a": DIGIT},
        "required": ["a", "z"],
        "additionalProperties": BOOL,
        "maxProperties": 2,
    },
    "keys to escape": closed({'a"b\\c/d\n': DIGIT, "": BOOL, "日本 ": {"type": "null"}, "\u2028": DIGIT}),
    "deep nesting": _nested(25),
    "boolean schemas": {
        "type": "object",
        "properties": {"a": False, "b": BOOL},
        "additionalProperties": False,
    },
    "types in a list, each with its bounds": closed(
        {
            "a": {
                "type": ["string", "integer", "array"],
                "maxLength": 2,
                "minimum": 0,
                "maximum": 5,
                "maxItems": 0,
            }
        }
    ),
    "null": closed({"a": {"type": "null"}, "b": {"const": None}, "c": {"enum": [None]}}),
    "nullable by union": closed({"a": {**closed({"b": DIGIT}), "type": ["object", "null"]}}),
}

# Of these some are kept and some refused, and nothing says which for ever.
KEPT_OR_REFUSED: dict[str, Any] = {
    "oneOf that overlaps": {
        "oneOf": [{**DIGIT, "multipleOf": 2}, {**DIGIT, "multipleOf": 3}],
    },
    "oneOf of objects that overlap": {
        "oneOf": [
            {"type": "object", "properties": {"a": DIGIT}, "required": ["a"], "maxProperties": 1},
            {**closed({"a": DIGIT, "b": BOOL}), "required": []},
        ]
    },
    "boolean exclusive bounds of draft 4": {
        "$schema": DRAFT_4,
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
        "maximum": 3,
    },
    "unique items": {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "maxItems": 2},
    "contains": {"type": "array", "items": DIGIT, "contains": {"const": 7}, "maxItems": 3},
    "at least so many properties": {
        **closed({"a": DIGIT, "b": BOOL, "c": DIGIT}),
        "required": [],
        "minProperties": 2,
    },
    "at most so many properties": {
        **closed({"a": DIGIT, "b": BOOL, "c": DIGIT}),
        "required": [],
        "maxProperties": 1,
    },
    "patterns of keys that overlap": {
        "type": "object",
        "patternProperties": {"^a": DIGIT, "b$": {"type": "integer", "minimum": 5}},
        "additionalProperties": False,
        "propertyNames": {"maxLength": 3},
        "maxProperties": 2,
    },
    "pattern of keys beside a property": {
        "type": "object",
        "properties": {"ab": {"type": "integer"}},
        "patternProperties": {"^a": {"minimum": 3, "maximum": 6}},
        "required": ["ab"],
        "additionalProperties": False,
        "maxProperties": 1,
    },
    "names of properties": {
        "type": "object",
        "additionalProperties": DIGIT,
        "propertyNames": {"enum": ["x", "y"]},
        "maxProperties": 2,
    },
    "not": {**DIGIT, "not": {"const": 5}},
    "if and then": {
        **closed({"a": BOOL, "b": DIGIT}),
        "required": ["a"],
        "if": {"properties": {"a": {"const": True}}},
        "then": {"required": ["b"]},
    },
    "dependent required": {
        **closed({"a": BOOL, "b": DIGIT}),
        "required": [],
        "dependentRequired": {"a": ["b"]},
    },
    "unevaluated properties": {
        "allOf": [{"type": "object", "properties": {"a": DIGIT}}],
        "properties": {"b": BOOL},
        "unevaluatedProperties": False,
    },
    "anchor": closed({"a": {"$ref": "#n"}}, **{"$defs": {"n": {"$anchor": "n", **DIGIT}}}),
    "required but forbidden": {
        "type": "object",
        "properties": {"a": DIGIT},
        "required": ["z"],
        "additionalProperties": False,
    },
    "empty enum": {"enum": []},
    "enum of another type": {"type": "integer", "enum": ["a"]},
    "bounds the wrong way round": {"type": "integer", "minimum": 5, "maximum": 4},
    "lengths the wrong way round": {"type": "string", "minLength": 3, "maxLength": 2},
    "nothing": False,
    "property that can have no value": closed({"a": False}),
    "unknown format": {"type": "string", "format": "postcode", "maxLength": 4},
    "look-ahead": {"type": "string", "pattern": "^(?=.*a)[ab]{2}$"},
    "email and length": {"type": "string", "format": "email", "minLength": 10, "maxLength": 12},
}
CORNERS = {**ENFORCED, **KEPT_OR_REFUSED}
