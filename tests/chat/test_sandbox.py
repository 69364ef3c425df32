from __future__ import annotations

import time

import pytest

from stoker.chat import sandbox
from stoker.chat.template import ChatTemplate
from stoker.errors import TemplateError

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__ }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.format.__globals__ }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ namespace(__class__=1) }}",
        "{% set ns = namespace() %}{% set ns._x = 1 %}",
        "{{ strftime_now.__code__ }}",
        "{{ range.__init__.__globals__ }}",
        "{{ dict.mro() }}",
        "{{ messages.clear() }}",
        "{{ messages[0].update(role='system') }}",
        "{{ lipsum(n=100000) }}",
    ],
)
def test_nothing_leads_out(template: str) -> None:
    messages = [dict(message) for message in MESSAGES]
    try:
        text = ChatTemplate(template).render(messages)
    except TemplateError:
        text = ""
    assert not any(word in text for word in ("class", "object", "function", "sys", "os"))
    assert messages == MESSAGES


@pytest.mark.parametrize(
    "template",
    [
        "{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ messages[0] }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(n=0) %}{% for a in range(99999) %}{% for b in range(9999) %}"
        "{% set ns.n = ns.n + 1 %}{% endfor %}{% endfor %}",
    ],
)
def test_endless_templates_end(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_RENDER_S", 0.2)
    started = time.monotonic()
    with pytest.raises(TemplateError, match=r"ran for more than 0\.2 s"):
        ChatTemplate(template).render(MESSAGES)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10 ** 9 }}",
        "{{ 10 ** 9 * 'a' }}",
        "{{ [0] * 10 ** 9 }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'a'.center(10 ** 9) }}",
        "{{ 'a'.rjust(10 ** 9) }}",
        "{{ range(10 ** 9) | list }}",
        "{% set ns = namespace(s='a' * 2 ** 20) %}"
        "{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set s = 'a' * 2 ** 20 %}{% for i in range(9999) %}{{ s }}{% endfor %}",
    ],
)
def test_bombs_are_refused(template: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(template).render(MESSAGES)


def test_a_refused_template_serves_the_next_request() -> None:
    template = ChatTemplate("{{ messages[0].content }}{% if messages | length > 1 %}{{ 1 // 0 }}{% endif %}")
    for _ in range(3):
        with pytest.raises(TemplateError):
            template.render(MESSAGES * 2)
        assert template.render(MESSAGES) == "hi"
