"""Writes fixture files: one JSON object with a header line for each scalar and one line for each entry of each list, so
that a changed value is one changed line in a diff. ASCII only; keys sorted; the same input gives the same bytes."""

from __future__ import annotations

import json
import pathlib


def _line(item: object) -> str:
    return json.dumps(item, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))


def write(folder: pathlib.Path, name: str, content: dict[str, object]) -> None:
    """Writes `<folder>/<name>.json`."""
    parts = []
    for key, item in content.items():
        if isinstance(item, list):
            body = ",\n".join(_line(entry) for entry in item)
            parts.append(f"{_line(key)}: [\n{body}\n]" if item else f"{_line(key)}: []")
        elif isinstance(item, dict):
            body = ",\n".join(f"{_line(k)}: {_line(v)}" for k, v in sorted(item.items()))
            parts.append(f"{_line(key)}: {{\n{body}\n}}" if item else f"{_line(key)}: {{}}")
        else:
            parts.append(f"{_line(key)}: {_line(item)}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="ascii")
