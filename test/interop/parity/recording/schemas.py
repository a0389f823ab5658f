"""The shape of every type: field names, aliases, types, defaults, policy on unknown fields; the protobuf descriptor; and
the routes that the SDK's source calls."""

from __future__ import annotations

import ast
import dataclasses
import enum
import pathlib
import typing

import pydantic
import tinker

from . import neutral, sdk


def _default(field: pydantic.fields.FieldInfo) -> dict[str, object]:
    if field.is_required():
        return {}
    factory = field.default_factory
    return {"default": neutral.value(factory() if factory is not None else field.default)}  # type: ignore[call-arg]


def _aliases(field: pydantic.fields.FieldInfo) -> dict[str, object]:
    accepted = field.validation_alias
    if isinstance(accepted, pydantic.AliasChoices):
        return {"accepts": [str(choice) for choice in accepted.choices]}
    return {"alias": field.alias} if field.alias else {}


def _constraints(field: pydantic.fields.FieldInfo) -> dict[str, object]:
    found = {}
    for item in field.metadata:
        for name in ("ge", "gt", "le", "lt", "min_length", "max_length"):
            bound = getattr(item, name, None)
            if bound is not None:
                found[name] = bound
    return {"constraints": found} if found else {}


def _without_prose(schema: object, inside_properties: bool = False) -> object:
    """A JSON schema less its titles and descriptions: those are the SDK's documentation, not its wire."""
    if isinstance(schema, list):
        return [_without_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_prose(item, key in ("properties", "$defs"))
        for key, item in schema.items()
        if inside_properties or key not in ("title", "description")
    }


def _model(model: type[pydantic.BaseModel]) -> dict[str, object]:
    fields = []
    for name, field in model.model_fields.items():
        fields.append(
            {"name": name, "required": field.is_required(), "type": neutral.type_text(field.annotation)}
            | _default(field) | _aliases(field) | _constraints(field)
        )
    schema = _without_prose(model.model_json_schema())
    return {"extra": model.model_config.get("extra", "ignore"), "fields": fields, "jsonSchema": schema, "kind": "model"}


def _dataclass(cls: type) -> dict[str, object]:
    # The SDK renames the module of its public classes, so the names in annotations are looked up where `__init__` was made.
    hints = typing.get_type_hints(cls, cls.__init__.__globals__)  # type: ignore[misc]
    fields = []
    for field in dataclasses.fields(cls):
        if field.name.startswith("_"):
            continue
        entry: dict[str, object] = {"name": field.name, "type": neutral.type_text(hints.get(field.name, field.type))}
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        entry["required"] = missing
        if not missing:
            made = field.default if field.default is not dataclasses.MISSING else field.default_factory()  # type: ignore[misc]
            entry["default"] = neutral.value(made)
        fields.append(entry)
    return {"fields": fields, "kind": "dataclass"}


def _describe(value: object) -> dict[str, object]:
    if sdk.is_model(value):
        return _model(value)  # type: ignore[arg-type]
    if isinstance(value, type) and dataclasses.is_dataclass(value):
        return _dataclass(value)
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return {"kind": "enum", "values": [member.value for member in value]}
    if typing.get_origin(value) is typing.Literal:
        return {"kind": "literal", "values": list(typing.get_args(value))}
    return {"kind": "alias", "type": neutral.type_text(value)}


def schemas() -> list[dict[str, object]]:
    """Every type of the table, by name."""
    return [
        {"name": name, "public": name in sdk.PUBLIC_NAMES} | _describe(value) for name, value in sorted(sdk.TYPES.items())
    ]


_WIRE_TYPES = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 12: "bytes", 13: "uint32"}


def _proto_field(field) -> dict[str, object]:
    if field.message_type is not None:
        kind = field.message_type.name
    elif field.enum_type is not None:
        kind = field.enum_type.name
    else:
        kind = _WIRE_TYPES[field.type]
    entry: dict[str, object] = {"name": field.name, "number": field.number, "type": kind}
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, item = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        entry["type"] = f"map<{_proto_field(key)['type']}, {_proto_field(item)['type']}>"
    elif field.is_repeated:
        entry["repeated"] = True
        if field.is_packed:
            entry["packed"] = True
    oneof = field.containing_oneof
    if oneof is not None:
        # A synthetic oneof is how proto3 spells an explicit `optional`.
        synthetic = oneof.name == f"_{field.name}"
        entry["optional" if synthetic else "oneof"] = True if synthetic else oneof.name
    return entry


def proto() -> dict[str, object]:
    """The protobuf file descriptor: messages with their fields in order of number, and enums."""
    from tinker.proto import tinker_public_pb2 as pb

    messages, enums = [], []
    todo = list(pb.DESCRIPTOR.message_types_by_name.values())
    for message in sorted(todo, key=lambda m: m.name):
        fields = [_proto_field(f) for f in sorted(message.fields, key=lambda f: f.number)]
        messages.append({"fields": fields, "name": message.name})
        nested = [n for n in message.nested_types if not n.GetOptions().map_entry]
        if nested:
            raise NotImplementedError(f"nested message types in {message.name}")
    for item in sorted(pb.DESCRIPTOR.enum_types_by_name.values(), key=lambda e: e.name):
        enums.append({"name": item.name, "values": {v.name: v.number for v in item.values}})
    return {"package": pb.DESCRIPTOR.package, "enums": enums, "messages": messages}


def _path_text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [p.value if isinstance(p, ast.Constant) else "{" + ast.unparse(p.value).split(".")[-1] + "}" for p in node.values]  # type: ignore[attr-defined]
        return "".join(str(p) for p in parts)
    return None


def routes() -> list[dict[str, str]]:
    """Every route that the source calls: `client.post("/api/v1/…")` and its kin."""
    found = set()
    root = pathlib.Path(tinker.__file__).parent
    for source in root.rglob("*.py"):
        if source.name.endswith("_test.py"):
            continue
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            method = node.func.attr.lstrip("_")
            arguments = list(node.args)
            if method == "request" and arguments:  # request("GET", path)
                method = str(_path_text(arguments.pop(0))).lower()
            if method not in ("get", "post", "put", "delete", "patch"):
                continue
            path = _path_text(arguments[0]) if arguments else None
            if path and path.startswith("/api/"):
                found.add((path, method.upper()))
    return [{"method": method, "path": path} for path, method in sorted(found)]
