"""Schemas in the manner of JSONSchemaBench: each with a corner that grammar engines get wrong. Texts and
numbers are bounded, so that a random model comes to an end."""

from typing import Any

SHORT = {"type": "string", "maxLength": 5}
DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    defaults = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **defaults, **more}


SCHEMAS: dict[str, dict[str, Any]] = {
    "enum behind a reference": closed(
        {"color": {"$ref": "#/$defs/color"}}, **{"$defs": {"color": {"enum": ["red", "green"]}}}
    ),
    "reference into an array": closed(
        {"x": {"anyOf": [{"enum": [1, 2]}, {"type": "null"}]}, "y": {"$ref": "#/properties/x/anyOf/0"}}
    ),
    "recursive tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": closed(
                {"v": DIGIT, "kids": {"type": "array", "maxItems": 1, "items": {"$ref": "#/$defs/node"}}}
            )
        },
    },
    "two definitions that need each other": {
        "$ref": "#/definitions/a",
        "definitions": {
            "a": closed({"b": {"anyOf": [{"$ref": "#/definitions/b"}, {"type": "null"}]}}),
            "b": closed({"a": {"anyOf": [{"$ref": "#/definitions/a"}, {"const": 0}]}}),
        },
    },
    "anyOf with null": closed({"a": {"anyOf": [DIGIT, {"type": "null"}]}}),
    "types in a list": closed({"a": {"type": ["boolean", "null", "integer"], "minimum": -9, "maximum": 9}}),
    "oneOf by discriminator": {
        "oneOf": [closed({"kind": {"const": "cat"}, "lives": DIGIT}), closed({"kind": {"const": "dog"}})]
    },
    "allOf": {
        "allOf": [
            {"type": "object", "properties": {"a": DIGIT}, "required": ["a"]},
            {"properties": {"b": {"type": "boolean"}}, "required": ["b"]},
        ],
        "maxProperties": 2,
    },
    "const": closed({"a": {"const": {"k": [1, 2.5, 'é"\\\n', None, True]}}}),
    "enum to quote": {"enum": ['say "hi"', "back\\slash", "tab\tnew\nline", "🙂", "é", "", "</think>"]},
    "enum of everything": {"enum": [1, "1", 1.5, True, None, [], {"a": 1}]},
    "pattern": closed({"id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}(a|b)?$"}}),
    "pattern found anywhere": closed({"id": {"type": "string", "pattern": "ab", "maxLength": 6}}),
    "pattern and length": closed(
        {"id": {"type": "string", "pattern": "^[a-c]+$", "minLength": 3, "maxLength": 5}}
    ),
    "length of unicode": closed({"s": {"type": "string", "minLength": 2, "maxLength": 4}}),
    "formats": closed(
        {
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time", "maxLength": 30},
            "id": {"type": "string", "format": "uuid"},
            "ip": {"type": "string", "format": "ipv4"},
        }
    ),
    "integer bounds": closed({"a": {"type": "integer", "minimum": -12, "maximum": 345}}),
    "exclusive bounds": closed({"a": {"type": "integer", "exclusiveMinimum": 4, "exclusiveMaximum": 6}}),
    "number bounds": closed({"a": {"type": "number", "minimum": 0.25, "maximum": 0.75}}),
    "multiple": closed({"a": {"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 700}}),
    "array of one length": {"type": "array", "items": DIGIT, "minItems": 3, "maxItems": 3},
    "tuple": {"type": "array", "prefixItems": [SHORT, DIGIT], "items": False, "minItems": 2},
    "array that may be empty": {"type": "array", "items": {"type": "boolean"}, "maxItems": 4},
    "nested arrays": {
        "type": "array",
        "maxItems": 2,
        "items": {"type": "array", "maxItems": 2, "items": DIGIT},
    },
    "further properties of a kind": {
        "type": "object",
        "properties": {"a": DIGIT},
        "required": ["a"],
        "additionalProperties": {"type": "boolean"},
        "maxProperties": 3,
    },
    "properties by pattern": {
        "type": "object",
        "patternProperties": {"^x[0-9]$": DIGIT},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 2,
    },
    "unicode keys": closed(
        {"naïve": DIGIT, "ключ": {"type": "boolean"}, "🙂": {"type": "null"}, 'q"\\': DIGIT}
    ),
    "optional properties": {**closed({"a": DIGIT, "b": DIGIT, "c": DIGIT}), "required": ["b"]},
    "required in another order": {**closed({"z": DIGIT, "a": DIGIT}), "required": ["a", "z"]},
    "empty object": closed({}),
    "deep": closed(
        {"a": closed({"b": closed({"c": closed({"d": {"type": "array", "maxItems": 1, "items": SHORT}})})})}
    ),
    "title and description": {"title": "T", "description": "d", "default": 1, "examples": [2], **DIGIT},
}
