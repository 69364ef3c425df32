"""The comparison as a small SVG: one bar per column, how many times better stoker is than the peer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _ROW, _LABEL, _RIGHT, _TOP, _BOTTOM = 760, 30, 300, 70, 46, 34
_BETTER, _WORSE, _LINE, _TEXT = "#1f8a70", "#b5533c", "#8a8f98", "#3c4149"


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    gain: float  # above 1: stoker is better by that factor, whichever direction is better
    needed: float | None = None  # the gain asked for, drawn as a tick


def svg(title: str, footnote: str, bars: Sequence[Bar]) -> str:
    """Logarithmic axis, so that twice as good and half as good are equally far from 1."""
    height = _TOP + _ROW * len(bars) + _BOTTOM
    reach = max(2.0, *(max(b.gain, 1 / b.gain if b.gain < 1 else 1, b.needed or 1) for b in bars)) * 1.1
    low = min(1.0, *(b.gain for b in bars)) / 1.1
    span = math.log(reach / low)

    def x(gain: float) -> float:
        return _LABEL + (_WIDTH - _LABEL - _RIGHT) * math.log(gain / low) / span

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{_TEXT}">',
        f'<rect width="{_WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        f'<text x="16" y="26" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for i, bar in enumerate(bars):
        middle = _TOP + _ROW * i + _ROW / 2
        left, right = sorted((x(1.0), x(bar.gain)))
        color = _BETTER if bar.gain >= 1 else _WORSE
        parts.append(
            f'<text x="{_LABEL - 12}" y="{middle + 4:.1f}" text-anchor="end">{escape(bar.label)}</text>'
        )
        parts.append(
            f'<rect x="{left:.1f}" y="{middle - 9:.1f}" width="{max(right - left, 1):.1f}" height="18" '
            f'rx="2" fill="{color}"/>'
        )
        parts.append(f'<text x="{right + 6:.1f}" y="{middle + 4:.1f}">{bar.gain:.2f}×</text>')
        if bar.needed:
            at = x(bar.needed)
            parts.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{middle - 12:.1f}" y2="{middle + 12:.1f}" '
                f'stroke="{_TEXT}" stroke-width="2"/>'
            )
    bottom = _TOP + _ROW * len(bars)
    parts.append(
        f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{_TOP}" y2="{bottom}" stroke="{_LINE}" '
        'stroke-dasharray="3 3"/>'
    )
    parts.append(f'<text x="16" y="{bottom + 22}" font-size="11">{escape(footnote)}</text>')
    return "\n".join([*parts, "</svg>", ""])
