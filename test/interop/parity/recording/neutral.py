"""Python values and type annotations as plain JSON that another language can compare with: numbers that a double cannot
hold, non-finite floats, dates, bytes and arrays are tagged objects; annotations are short texts."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime
import enum
import inspect
import math
import types as pytypes
import typing

import numpy as np
import pydantic

from . import sdk

SAFE_INTEGER = 2**53 - 1


def number(value: float) -> object:
    """A float as JSON; what JSON or a JavaScript literal cannot say is tagged."""
    if math.isnan(value):
        return {"$float": "NaN"}
    if math.isinf(value):
        return {"$float": "Infinity" if value > 0 else "-Infinity"}
    if value == 0 and math.copysign(1, value) < 0:
        return {"$float": "-0"}
    return value


def date(value: datetime.datetime) -> object:
    """UTC with microseconds; a date that came without a zone says so and is shown as if it were UTC."""
    naive = value.tzinfo is None
    utc = value if naive else value.astimezone(datetime.timezone.utc)
    text = utc.strftime("%Y-%m-%dT%H:%M:%S.%f").rjust(26, "0") + "Z"
    return {"$date": text, "naive": True} if naive else {"$date": text}


def value(item: object) -> object:
    """Any value that the SDK hands to its user, as tagged JSON."""
    if item is None or isinstance(item, (str, bool)) and not isinstance(item, enum.Enum):
        return item
    if isinstance(item, enum.Enum):
        return item.value
    if isinstance(item, (int, np.integer)):
        return int(item) if abs(int(item)) <= SAFE_INTEGER else {"$int": str(int(item))}
    if isinstance(item, (float, np.floating)):
        return number(float(item))
    if isinstance(item, bytes):
        return {"$bytes": base64.b64encode(item).decode()}
    if isinstance(item, datetime.datetime):
        return date(item)
    if isinstance(item, np.ndarray):
        return {f"${_dtype_tag(item.dtype)}": [value(x) for x in item.ravel()], "shape": list(item.shape)}
    if isinstance(item, pydantic.BaseModel):
        fields = {name: value(getattr(item, name)) for name in type(item).model_fields}
        return fields | {name: value(extra) for name, extra in (item.model_extra or {}).items()}
    if dataclasses.is_dataclass(item):
        return {f.name: value(getattr(item, f.name)) for f in dataclasses.fields(item)}
    if isinstance(item, collections.abc.Mapping):
        return {str(key): value(child) for key, child in item.items()}
    if isinstance(item, (list, tuple, set)):
        return [value(child) for child in item]
    raise TypeError(f"no neutral form for {type(item)}")


def _dtype_tag(dtype: np.dtype) -> str:
    return {"f": "f", "i": "i", "u": "u", "b": "bool"}[dtype.kind] + ("" if dtype.kind == "b" else str(dtype.itemsize * 8))


_SCALARS = {str: "string", int: "int", float: "float", bool: "bool", bytes: "bytes", type(None): "null", object: "any"}


def type_text(annotation: object) -> str:
    """An annotation as one short text, the same for `Optional[str]` and `str | None`."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]  # type: ignore[index]
    if annotation is typing.Any:
        return "any"
    if annotation is datetime.datetime:
        return "datetime"
    if getattr(annotation, "__name__", "") == "AwareDatetime":
        return "datetime with zone"
    if annotation is np.ndarray:
        return "ndarray"
    if isinstance(annotation, str):
        return annotation
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return type_text(arguments[0])
    if origin is typing.Literal:
        return " | ".join(_literal(a) for a in arguments)
    if origin in (typing.Union, pytypes.UnionType):
        texts = [type_text(a) for a in arguments]
        return " | ".join([t for t in texts if t != "null"] + [t for t in texts if t == "null"])
    if origin in (list, collections.abc.Sequence):
        return f"list<{type_text(arguments[0])}>"
    if origin in (dict, collections.abc.Mapping):
        return f"map<{type_text(arguments[0])}, {type_text(arguments[1])}>"
    if origin is tuple:
        return f"tuple<{', '.join(type_text(a) for a in arguments)}>"
    if inspect.isclass(annotation):
        return sdk.name_of(annotation)
    return str(annotation)


def _literal(item: object) -> str:
    return f'"{item}"' if isinstance(item, str) else str(item)


def failure(error: BaseException) -> dict[str, object]:
    """What went wrong, without the wording: the exception's type and, for validation, each place and kind."""
    if isinstance(error, pydantic.ValidationError):
        places = [{"loc": [str(part) for part in e["loc"]], "type": e["type"]} for e in error.errors(include_url=False)]
        return {"errors": places, "type": "ValidationError"}
    return {"type": type(error).__name__}
