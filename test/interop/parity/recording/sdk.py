"""The installed SDK as a table of types: every public name of `tinker.types`, plus the internal models and dataclasses
that reach the wire. One place decides how a type is named in the fixtures, so that a type which moved between releases
keeps its name."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import pkgutil
import types as pytypes
import typing

import pydantic
import tinker
import tinker.types as public

VERSION: str = tinker.__version__


def _modules() -> list[pytypes.ModuleType]:
    found = []
    for info in sorted(pkgutil.walk_packages(public.__path__, "tinker.types."), key=lambda i: i.name):
        if not info.name.endswith("_test"):
            found.append(importlib.import_module(info.name))
    return found


def _internal_enums() -> dict[str, type]:
    """Enumerations outside `tinker.types` whose values are seen on the wire or by users."""
    found: dict[str, type] = {}
    for module_name, name in (
        ("tinker.lib.api_future_impl", "QueueState"),
        ("tinker.lib.client_connection_pool_type", "ClientConnectionPoolType"),
    ):
        try:
            found[name] = getattr(importlib.import_module(module_name), name)
        except (ImportError, AttributeError):
            pass
    return found


def _is_alias(value: object) -> bool:
    return typing.get_origin(value) is not None or value in (str, int)


def is_record(value: object) -> bool:
    """A pydantic model or a dataclass of the SDK."""
    if not inspect.isclass(value) or value.__module__.split(".")[0] != "tinker":
        return False
    return issubclass(value, pydantic.BaseModel) or dataclasses.is_dataclass(value)


def _collect() -> tuple[dict[str, object], set[str]]:
    table: dict[str, object] = {}
    for name in sorted(vars(public)):
        value = getattr(public, name)
        if name.startswith("_") or isinstance(value, pytypes.ModuleType):
            continue
        if is_record(value) or _is_alias(value) or (inspect.isclass(value) and issubclass(value, enum.Enum)):
            table[name] = value
    names = set(table)
    known = {id(value) for value in table.values()}
    for module in _modules():
        for name, value in sorted(vars(module).items()):
            if is_record(value) and value.__module__ == module.__name__ and id(value) not in known:
                # A second type of the same name is the pydantic twin of a public dataclass.
                table[name if name not in table else f"pydantic:{name}"] = value
                known.add(id(value))
    table.update(_internal_enums())
    return table, names


TYPES, PUBLIC_NAMES = _collect()
_NAMES = {id(value): name for name, value in TYPES.items() if inspect.isclass(value)}


def name_of(cls: type) -> str:
    """The fixture name of a type of the table."""
    return _NAMES.get(id(cls), cls.__name__)


def is_model(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, pydantic.BaseModel)


def models() -> dict[str, type[pydantic.BaseModel]]:
    return {name: value for name, value in TYPES.items() if is_model(value)}  # type: ignore[misc]


def children(annotation: object) -> set[type]:
    """The pydantic models that an annotation mentions, at any depth."""
    if is_model(annotation):
        return {annotation}  # type: ignore[arg-type]
    found: set[type] = set()
    for argument in typing.get_args(annotation):
        found |= children(argument)
    return found


def outgoing_models() -> set[str]:
    """Models that a client sends: every `*Request`, and whatever those contain."""
    todo = [value for name, value in models().items() if name.endswith("Request") and ":" not in name]
    todo += [value for name, value in models().items() if name in ("ModelInput", "TelemetryBatch")]
    todo += [value for name, value in models().items() if name.endswith(("Params", "OptimizerConfig"))]
    seen: set[str] = set()
    while todo:
        model = todo.pop()
        name = name_of(model)
        if name in seen:
            continue
        seen.add(name)
        for field in model.model_fields.values():
            todo.extend(children(field.annotation))
    return seen
