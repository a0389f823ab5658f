"""The names that a program can use: what `tinker` and `tinker.types` export, the methods and properties of their classes, and
the commands of the command line. Signatures are in the recorded conversations; this is what docs/PARITY.md must have rows for."""

from __future__ import annotations

import functools
import inspect

import click
import tinker
import tinker.types
from tinker.cli.__main__ import main_cli
from tinker.lib import public_interfaces

from . import sdk


def _function(member: object) -> object:
    """What a method or property runs; anything else is none."""
    if isinstance(member, (classmethod, staticmethod)):
        return member.__func__
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    return member if inspect.isfunction(member) else None


def names() -> list[str]:
    """What `from tinker import …` is documented to find."""
    return sorted(tinker.__all__)


def _members(cls: type) -> set[str]:
    """Public methods and properties that the SDK wrote; those of its libraries, fields and pydantic's hooks are not its surface."""
    found = set()
    for owner in cls.__mro__:
        decorators = getattr(owner, "__pydantic_decorators__", None)
        hooks = {*decorators.field_validators, *decorators.field_serializers} if decorators else set()
        for name, member in vars(owner).items():
            written_by = getattr(_function(member), "__module__", None) or ""
            inner = written_by.startswith(("tinker._", "tinker.lib._"))  # generated models and their base
            if not name.startswith("_") and name not in hooks and written_by.startswith("tinker") and not inner:
                found.add(name)
    return found


def methods() -> dict[str, list[str]]:
    """Class by class; a method with an `_async` twin is named once."""
    found = {}
    homes = (tinker, tinker.types, public_interfaces)
    for name in sorted({*tinker.__all__, *sdk.PUBLIC_NAMES, *public_interfaces.__all__}):
        cls = next((getattr(home, name) for home in homes if hasattr(home, name)), None)
        if not inspect.isclass(cls):
            continue
        members = _members(cls)
        single = sorted(m for m in members if not (m.endswith("_async") and m.removesuffix("_async") in members))
        if single:
            found[name] = single
    return found


def commands() -> list[str]:
    """Every command with its group, as it is typed after `tinker`."""

    def walk(group: click.Group, prefix: str) -> list[str]:
        context = click.Context(group)
        found = []
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            text = f"{prefix}{name}"
            found += walk(command, f"{text} ") if isinstance(command, click.Group) else [text]
        return found

    return sorted(walk(main_cli, ""))


def surface() -> dict[str, object]:
    return {"names": names(), "methods": methods(), "types": sorted(sdk.PUBLIC_NAMES), "commands": commands()}
