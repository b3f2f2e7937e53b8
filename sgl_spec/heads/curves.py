"""Draws curves over training steps as an SVG that needs nothing else. For people; outside any round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 720, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 150, 36, 46
_COLOURS = ("#2b6cb0", "#b3471d", "#2f855a", "#805ad5", "#b7791f", "#4a5568", "#c53030", "#00798c")
_TICKS = 5


class Curve(NamedTuple):
    """A named line. xs, ys: as many of each, xs ascending; values that are no numbers are left out."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]


class _Scale(NamedTuple):
    """Maps low..high to pixels from..to."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def draw_curves(title: str, x_name: str, curves: Sequence[Curve]) -> str:
    """The picture: axes with a handful of ticks, the curves, and their names beside it."""
    kept = [Curve(curve.name, *_numbers(curve)) for curve in curves]
    x = _scale([value for curve in kept for value in curve.xs], _LEFT, WIDTH - _RIGHT)
    y = _scale([value for curve in kept for value in curve.ys], HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(_LEFT, 20, title, "start", 'font-weight="bold"'),
        _text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 8, x_name, "middle"),
        *_axes(x, y),
    ]
    for number, curve in enumerate(kept):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in zip(curve.xs, curve.ys, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts.append(_text(WIDTH - _RIGHT + 10, _TOP + 12 + 18 * number, curve.name, "start", f'fill="{colour}"'))
    return "\n".join([*parts, "</svg>"]) + "\n"


def smooth(values: Sequence[float], window: int) -> list[float]:
    """The running mean of the last `window` values at each place."""
    means, total = [], 0.0
    for at, value in enumerate(values):
        total += value - (values[at - window] if at >= window else 0.0)
        means.append(total / min(at + 1, window))
    return means


def _numbers(curve: Curve) -> tuple[list[float], list[float]]:
    pairs = [(a, b) for a, b in zip(curve.xs, curve.ys, strict=True) if math.isfinite(a) and math.isfinite(b)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    low, high = min(values, default=0.0), max(values, default=1.0)
    return _Scale(low, high if high > low else low + max(1.0, abs(low)), start, end)


def _axes(x: _Scale, y: _Scale) -> list[str]:
    parts = []
    for tick in range(_TICKS + 1):
        value = y.low + (y.high - y.low) * tick / _TICKS
        parts.append(_line(x.start, y.at(value), x.end, y.at(value)))
        parts.append(_text(x.start - 6, y.at(value) + 4, _label(value), "end"))
        value = x.low + (x.high - x.low) * tick / _TICKS
        parts.append(_text(x.at(value), y.start + 18, _label(value), "middle"))
    return parts


def _label(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
