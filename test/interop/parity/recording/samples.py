"""Sample values for any annotation, so that every field of every model is exercised, those of a newer release included.
Outgoing samples are recipes (see recipe.py); incoming ones are plain JSON as a server would send it."""

from __future__ import annotations

import collections.abc
import datetime
import types as pytypes
import typing

import pydantic

from . import neutral, sdk

STAMP = "2026-03-04T05:06:07.089012Z"


def _strings(field: str) -> list[object]:
    if field in ("path", "model_path", "tinker_path", "source_path"):
        return ["tinker://run-1/weights/step-0001", "name"]
    return [f"{field or 'text'}-1", ""]


def _scalar(kind: str, field: str, incoming: bool) -> list[object] | None:
    if kind == "string":
        return _strings(field)
    if kind in ("datetime", "datetime with zone"):
        return [STAMP] if incoming else [{"$date": STAMP}]
    if kind == "bytes":
        return ["AP/+", ""] if incoming else [{"$bytes": "AP/+"}, {"$bytes": ""}]
    return {
        "int": [7, 0, 1],
        "float": [0.5, 0.0, 1],
        "bool": [True, False],
        "any": ["free", {"deep": [1, None, {"x": True}]}, None],
        "null": [None],
    }.get(kind)  # type: ignore[return-value]


def valid(annotation: object, field: str = "", incoming: bool = False) -> list[object]:
    """Values that the annotation admits; the first is the plainest."""
    kind = neutral.type_text(annotation) if not sdk.is_model(annotation) else ""
    scalar = _scalar(kind, field, incoming)
    if scalar is not None:
        return scalar
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return valid(arguments[0], field, incoming)
    if origin is typing.Literal:
        return list(arguments)
    if origin in (typing.Union, pytypes.UnionType):
        inner = [item for a in arguments if a is not type(None) for item in valid(a, field, incoming)[:3]]
        return inner
    if origin in (list, collections.abc.Sequence):
        items = valid(arguments[0], field, incoming)
        return [items[:1], items[:3], []]
    if origin in (dict, collections.abc.Mapping):
        items = valid(arguments[1], field, incoming)
        return [{"key": items[0]}, {f"key {i}": item for i, item in enumerate(items)}, {}]
    if sdk.is_model(annotation):
        return [example(annotation, False, incoming), example(annotation, True, incoming)]  # type: ignore[arg-type]
    if isinstance(annotation, type):
        return [member.value for member in annotation]  # type: ignore[attr-defined]
    raise NotImplementedError(f"no sample for {annotation}")


def example(model: type[pydantic.BaseModel], full: bool, incoming: bool) -> dict[str, object]:
    """A value of a model: required fields only, or every field set."""
    fields: dict[str, object] = {} if incoming else {"$type": sdk.name_of(model)}
    for name, field in model.model_fields.items():
        if field.is_required() or full:
            fields[name] = valid(field.annotation, name, incoming)[0]
    return fields


def nullable(annotation: object) -> bool:
    return type(None) in typing.get_args(annotation) or annotation is typing.Any


def is_datetime(annotation: object) -> bool:
    return datetime.datetime in (annotation, *typing.get_args(annotation))
