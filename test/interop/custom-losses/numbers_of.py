"""Numbers that look arbitrary and are the same everywhere."""

import math


def series(name, shape, low, high):
    count = math.prod(shape)
    seed = sum(ord(letter) * (i + 1) for i, letter in enumerate(name))
    at = lambda i: math.sin(seed * 12.9898 + i * 78.233) * 43758.5453
    return [round(low + (high - low) * (at(i) - math.floor(at(i))), 3) for i in range(count)]
