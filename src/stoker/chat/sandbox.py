"""The Jinja environment chat templates run in: what transformers gives them, and limits.

A template comes with the weights, so it is code from a stranger. It sees plain JSON values only,
and cannot run for ever or build a text without end. The limits stop accidents and simple bombs;
they are no proof against every way to waste memory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace

MAX_RENDER_S = 10.0
MAX_TEXT_CHARS = 64 * 2**20  # of one rendered prompt, and of any string an operator builds
MAX_NUMBER_BITS = 4096

_deadline: ContextVar[float] = ContextVar("stoker_template_deadline")


class Refusal(jinja2.TemplateError):
    """The template itself called `raise_exception`: its message is meant for the caller."""


class LimitReached(jinja2.TemplateError):
    """The template ran too long or wrote too much."""


@contextmanager
def render_deadline() -> Iterator[None]:
    """Templates rendered inside must end within MAX_RENDER_S."""
    token = _deadline.set(time.monotonic() + MAX_RENDER_S)
    try:
        yield
    finally:
        _deadline.reset(token)


def check_deadline() -> None:
    """Raises LimitReached when the surrounding `render_deadline` is over."""
    if time.monotonic() > _deadline.get(float("inf")):
        raise LimitReached(f"the chat template ran for more than {MAX_RENDER_S:g} s")


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """trim_blocks, lstrip_blocks, loop controls and `{% generation %}`, as in transformers."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols], autoescape=False
        )
        self.filters["tojson"] = _tojson
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now
        self.globals["namespace"] = _PlainNamespace
        self.globals["range"] = _Range
        del self.globals["lipsum"]

    def getattr(self, obj: Any, attribute: str) -> Any:
        check_deadline()
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        check_deadline()
        return super().getitem(obj, argument)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        check_deadline()
        if isinstance(getattr(obj, "__self__", None), str):  # "".center(10 ** 9)
            for argument in args:
                if isinstance(argument, int) and argument > MAX_TEXT_CHARS:
                    raise LimitReached(f"the chat template asked for a text of {argument} characters")
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        check_deadline()
        _check_size(operator, left, right)
        return super().call_binop(context, operator, left, right)


class GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}` marks what the model wrote, for training masks.

    Rendering ignores the mark. As in transformers the body is a scope of its own: what it sets is
    gone behind it.
    """

    tags = {"generation"}  # noqa: RUF012 - the attribute's type is Jinja's

    def parse(self, parser: Parser) -> nodes.Node:
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(lineno)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class _Range:
    """The sandbox's `range` (100000 items at most) that notices the deadline while it is iterated."""

    def __init__(self, *args: int) -> None:
        self._range = safe_range(*args)

    def __iter__(self) -> Iterator[int]:
        for count, value in enumerate(self._range):
            if count % 4096 == 0:
                check_deadline()
            yield value

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, index: Any) -> Any:
        return self._range[index]

    def __contains__(self, value: object) -> bool:
        return value in self._range

    def __reversed__(self) -> Iterator[int]:
        return reversed(self._range)

    def __repr__(self) -> str:
        return repr(self._range)


class _PlainNamespace(Namespace):
    """Jinja's `namespace` without underscored attributes, which would reach Python's own."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args  # `self` stays free as a name: namespace(self=...)
        values = dict(*rest, **kwargs)
        for name in values:
            _refuse_private(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"the namespace attribute {name!r} begins with an underscore")


def _check_size(operator: str, left: Any, right: Any) -> None:
    size = 0
    if operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
        size = len(left) + len(right)
    elif operator == "*" and isinstance(left, str | list | tuple) and isinstance(right, int):
        size = len(left) * right
    elif operator == "*" and isinstance(right, str | list | tuple) and isinstance(left, int):
        size = len(right) * left
    elif operator == "*" and isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * right)
    elif operator == "%" and isinstance(left, str) and any(len(run) > 8 for run in _digit_runs(left)):
        raise LimitReached("the chat template formats to a width of more than 8 digits")
    if size > MAX_TEXT_CHARS:
        raise LimitReached(f"the chat template builds a value of {size} items; the limit is {MAX_TEXT_CHARS}")


def _check_bits(bits: int) -> None:
    if bits > MAX_NUMBER_BITS:
        raise LimitReached(f"the chat template computes a number of more than {MAX_NUMBER_BITS} bits")


def _digit_runs(text: str) -> list[str]:
    return "".join(char if char.isdigit() else " " for char in text).split()


def _raise_exception(message: object = "") -> NoReturn:
    raise Refusal(str(message))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without Jinja's HTML escapes: models were trained on the plain form."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)
