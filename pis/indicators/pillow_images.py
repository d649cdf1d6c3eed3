"""The indicator ``pillow``: an RGB photograph-like image of 1,600 x 1,200 pixels.

- ``resize``: make it half as wide and high, with the Lanczos filter.
- ``jpeg_encode``: write it as JPEG of quality 85.
- ``jpeg_decode``: read the JPEG.
"""

from __future__ import annotations

import io
from math import pi, sin
from random import Random
from typing import Any

from pis.indicators.errors import WrongResult
from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator

_WIDTH, _HEIGHT = 1_600, 1_200
_SIZES = {"width": _WIDTH, "height": _HEIGHT, "threads": 1}
_PLACES = [(x, y) for x in range(20, 780, 95) for y in range(20, 580, 80)]


def _pixels(seed: int) -> list[bytes]:
    """Rows of waves of three lengths with some noise, shifted from row to row."""
    draw = Random(seed)  # noqa: S311
    waves = [(draw.uniform(100, 900), draw.uniform(0, 2 * pi)) for _ in range(9)]
    line = bytearray()
    for x in range(_WIDTH + 997):
        for color in range(3):
            level = sum(sin(2 * pi * x / length + phase) for length, phase in waves[color::3])
            line.append(round(128 + 38 * level + draw.uniform(-3, 3)))
    return [bytes(line[3 * (3 * y % 997) :][: 3 * _WIDTH]) for y in range(_HEIGHT)]


def _photo(image: Any, rows: list[bytes]) -> Any:
    return image.frombytes("RGB", (_WIDTH, _HEIGHT), b"".join(rows))


def _near(output: Any, expected: dict[tuple[int, int], list[float]], most: float) -> float:
    """Check the mean difference of some pixels, and return it."""
    pairs = [zip(output.getpixel(place), levels) for place, levels in expected.items()]
    differences = [abs(a - b) for pixel in pairs for a, b in pixel]
    mean = float(sum(differences) / len(differences))
    if mean > most:
        raise WrongResult(f"pixels differ by {mean:g} in the mean, at most {most:g} is right")
    return mean


def _lanczos(distance: float) -> float:
    if abs(distance) >= 3:
        return 0.0
    return 3 * sin(pi * distance) * sin(pi * distance / 3) / (pi * distance) ** 2


def resize(image: Any, seed: int) -> Made:
    rows = _pixels(seed)
    photo, size = _photo(image, rows), (_WIDTH // 2, _HEIGHT // 2)
    taps = [(offset, _lanczos((offset - 0.5) / 2)) for offset in range(-5, 7)]
    total = sum(weight for _, weight in taps) ** 2
    expected = {
        (x, y): [
            sum(
                u * v * rows[2 * y + b][3 * (2 * x + a) + color] for a, u in taps for b, v in taps
            ) / total
            for color in range(3)
        ]
        for x, y in _PLACES
    }  # fmt: skip
    call = lambda: photo.resize(size, image.Resampling.LANCZOS)  # noqa: E731
    return Made(call, lambda output: _near(output, expected, 0.6), _SIZES)


def jpeg_encode(image: Any, seed: int) -> Made:
    rows = _pixels(seed)
    photo = _photo(image, rows)
    expected = {(x, y): list(map(float, rows[y][3 * x : 3 * x + 3])) for x, y in _PLACES}

    def call() -> bytes:
        file = io.BytesIO()
        photo.save(file, "JPEG", quality=85)
        return file.getvalue()

    return Made(call, lambda it: _near(image.open(io.BytesIO(it)), expected, 5), _SIZES)


def jpeg_decode(image: Any, seed: int) -> Made:
    encoded = jpeg_encode(image, seed)
    data = encoded.call()

    def call() -> Any:
        photo = image.open(io.BytesIO(data))
        photo.load()
        return photo

    def check(output: Any) -> float:
        file = io.BytesIO()
        output.save(file, "BMP")
        return encoded.check(file.getvalue())

    return Made(call, check, _SIZES)


INDICATOR = library_indicator(
    "pillow",
    "PiPillow",
    "Resize, compress and read a photograph with Pillow.",
    {"resize": resize, "jpeg_encode": jpeg_encode, "jpeg_decode": jpeg_decode},
    {"pillow": "PIL.Image"},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
