"""Recipes: JSON descriptions of values that any language can build. This is the Python builder; the fixtures carry the
recipes as `input`.

    {"$type": "LoraConfig", "rank": 8}     a typed object, fields by their wire name
    {"$f32": [1.5, "NaN"], "shape": [2]}   a typed array: f16 f32 f64, i8 i16 i32 i64, u8 u16 u32 u64, bool;
                                           64-bit integers and non-finite floats are texts; without shape: one-dimensional
    {"$bytes": "…"}                        bytes, base64
    {"$int": "9007199254740993"}           an integer beyond 2^53
    {"$float": "NaN"}                      NaN, Infinity, -Infinity, -0
    {"$date": "2026-01-02T03:04:05Z"}      a moment
    {"$tuple": […]}, {"$map": [[k, v], …]} a tuple; a free-form map whose keys may start with `$`
"""

from __future__ import annotations

import base64
import datetime

import numpy as np

from . import sdk

_ARRAYS = {f"${kind}{bits}": f"{kind}{bits // 8}" for kind, sizes in {"f": (16, 32, 64), "i": (8, 16, 32, 64), "u": (8, 16, 32, 64)}.items() for bits in sizes}
_ARRAYS["$bool"] = "?"


def build(recipe: object) -> object:
    """The Python value that a recipe describes."""
    if isinstance(recipe, list):
        return [build(item) for item in recipe]
    if not isinstance(recipe, dict):
        return recipe
    if "$type" in recipe:
        return construct(recipe["$type"], {key: item for key, item in recipe.items() if key != "$type"})
    tag = next(iter(recipe), "")
    if tag in _ARRAYS:
        return _array(tag, recipe)
    if tag == "$bytes":
        return base64.b64decode(recipe[tag])
    if tag == "$int":
        return int(recipe[tag])
    if tag == "$float":
        return float(recipe[tag])
    if tag == "$date":
        return datetime.datetime.fromisoformat(recipe[tag])
    if tag == "$tuple":
        return tuple(build(item) for item in recipe[tag])
    if tag == "$map":
        return {key: build(item) for key, item in recipe[tag]}
    return {key: build(item) for key, item in recipe.items()}


def construct(type_name: str, fields: dict[str, object]) -> object:
    """The SDK's object of that type; raises what its constructor raises."""
    return sdk.TYPES[type_name](**{key: build(item) for key, item in fields.items()})  # type: ignore[operator]


def _array(tag: str, recipe: dict) -> np.ndarray:
    dtype = np.dtype(_ARRAYS[tag])
    parse = int if dtype.kind in "iu" else float if dtype.kind == "f" else bool
    array = np.array([parse(item) for item in recipe[tag]], dtype=dtype)
    return array.reshape(recipe["shape"]) if "shape" in recipe else array


def types_in(recipe: object) -> set[str]:
    """Every type name that a recipe needs."""
    if isinstance(recipe, list):
        return set().union(*map(types_in, recipe)) if recipe else set()
    if not isinstance(recipe, dict):
        return set()
    here = {recipe["$type"]} if "$type" in recipe else set()
    return here.union(*(types_in(item) for item in recipe.values())) if recipe else here
