"""Records what the installed release of the official Tinker SDK does, as small deterministic JSON files.

    python record.py <folder>        writes <folder>/tinker-<version>/*.json

Run by parity.mjs inside an environment that holds that release (see venv.mjs and versions.mjs). The files:

    schemas    every type: fields, types, defaults; enums and aliases; routes that the source calls
    proto      the protobuf descriptor
    surface    public names: exports, methods, commands
    requests   JSON that the SDK sends: recipe in, wire text or refusal out
    training   protobuf that the SDK sends: tensors, datums, forward/backward requests
    responses  JSON that a server sends: text in, parsed value or refusal out
    results    protobuf that a server sends: sample responses, forward/backward outputs
    derived    small functions: metric reduction, tinker:// paths, durations, byte estimates, query strings
    missing    cases that this release has no types for

Recipes and tags are described in recording/recipe.py. Two runs give the same bytes: no clock, no random number, no
machine path, no object id enters a file.
"""

from __future__ import annotations

import pathlib
import sys
import warnings

from recording import derived, output, requests, responses, results, schemas, sdk, surface, training


def main(folder: pathlib.Path) -> None:
    warnings.simplefilter("ignore")  # numpy reports casts that we make on purpose
    target = folder / f"tinker-{sdk.VERSION}"
    header = {"tinker": sdk.VERSION}
    sent, no_request = requests.cases()
    received, no_response = responses.cases()
    output.write(target, "schemas", header | {"types": schemas.schemas(), "routes": schemas.routes()})
    output.write(target, "proto", header | schemas.proto())
    output.write(target, "surface", header | surface.surface())
    output.write(target, "requests", header | {"values": sent})
    output.write(target, "training", header | {"values": training.cases()})
    output.write(target, "responses", header | {"values": received})
    output.write(target, "results", header | {"values": results.cases()})
    output.write(target, "derived", header | derived.all_cases())
    output.write(target, "missing", header | {"requests": no_request, "responses": no_response})
    print(f"tinker {sdk.VERSION}: recorded into {target.name}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
