"""Seeded values that Python and TypeScript make alike (the twin is test/integration/torch/seeded.ts): no weights need to be stored."""

import numpy as np


def _mix(x):
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
        x = (x ^ (x >> np.uint32(15))) * np.uint32(0x735A2D97)
        return x ^ (x >> np.uint32(15))


def _hash(text):
    value = 0x811C9DC5
    for character in text.encode():
        value = ((value ^ character) * 0x01000193) & 0xFFFFFFFF
    return np.uint32(value)


def uniform(name, count):
    """`count` values in [-1, 1)."""
    index = np.arange(count, dtype=np.uint32)
    bits = _mix(_mix(index + np.uint32(1)) ^ _hash(name))
    return (bits.astype(np.float64) / 2147483648.0 - 1.0).astype(np.float32)


def weight(name, shape):
    """A model weight: norms near 1, everything else of about unit gain."""
    values = uniform(name, int(np.prod(shape))).reshape(shape)
    if "norm" in name:
        return 1 + 0.1 * values
    return values * np.float32(np.sqrt(3.0 / shape[-1]))


def tokens(name, count, vocab):
    return ((uniform(name, count).astype(np.float64) + 1) / 2 * vocab).astype(np.int64)
