"""Prints the parameters of the installed SDK's public calls as JSON: `{"TrainingClient.optim_step": "(adam_params, ...)"}`. For
`npm run parity -- --release X`; the recorded files have no signatures, because these name types by their Python spelling."""

from __future__ import annotations

import inspect
import json

import tinker
import tinker.types
from recording import surface
from tinker.lib import public_interfaces


def parameters(member: object) -> str | None:
    function = surface._function(member)
    if function is None or isinstance(member, property):
        return None
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return f"({', '.join(str(p.replace(annotation=p.empty)) for p in found if p.name != 'self')})"


def main() -> None:
    found = {}
    for owner, names in surface.methods().items():
        cls = next(getattr(home, owner) for home in (tinker, tinker.types, public_interfaces) if hasattr(home, owner))
        for name in names:
            text = parameters(inspect.getattr_static(cls, name, None))
            if text is not None:
                found[f"{owner}.{name}"] = text
    print(json.dumps(found, sort_keys=True))


if __name__ == "__main__":
    main()
