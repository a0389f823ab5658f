"""The SDK's small pure functions, with inputs and outputs: how chunk results combine, how `tinker://` paths parse, how
durations print, how byte counts are estimated, how long a model input is, how query strings are written."""

from __future__ import annotations

import base64
import datetime
from typing import Callable

import tinker.types as types
from tinker.lib import chunked_fwdbwd_helpers as helpers
from tinker.lib.internal_client_holder import InternalClientHolder
from tinker.lib.public_interfaces import training_client

from . import neutral, recipe, requests


def _attempt(case: dict[str, object], work: Callable[[], object]) -> dict[str, object]:
    try:
        return case | {"output": neutral.value(work())}
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what we record
        return case | {"error": neutral.failure(error)}


_NAN, _INF = {"$float": "NaN"}, {"$float": "Infinity"}
# Each chunk is [how many outputs it has, its metrics].
_METRICS: dict[str, list[tuple[int, dict[str, object]]]] = {
    "no chunks": [], "one chunk": [(2, {"loss:sum": 1.5, "loss:mean": 0.75})], "sum": [(1, {"a:sum": 0.1}), (1, {"a:sum": 0.2}), (1, {"a:sum": 0.3})],
    "mean, equal weights": [(2, {"a:mean": 1.0}), (2, {"a:mean": 2.0})], "mean, weights": [(1, {"a:mean": 1.0}), (3, {"a:mean": 2.0})], "mean, one empty": [(0, {"a:mean": 100.0}), (3, {"a:mean": 2.0})],
    "mean, all empty": [(0, {"a:mean": 1.0}), (0, {"a:mean": 2.0})], "mean, thirds": [(1, {"a:mean": 0.1}), (1, {"a:mean": 0.2}), (1, {"a:mean": 0.4})], "mean, many": [(i + 1, {"a:mean": 1 / (i + 1)}) for i in range(20)],
    "min and max": [(1, {"a:min": 1.0, "a:max": 1.0}), (1, {"a:min": -2.0, "a:max": 5.0})], "slack": [(1, {"a:slack": 1.0}), (3, {"a:slack": 2.0})], "slack, one chunk": [(4, {"a:slack": 7.0})], "slack, empty": [(0, {"a:slack": 1.0})],
    "unique": [(1, {"a:unique": 1.0}), (1, {"a:unique": 1.0}), (1, {"a:unique": 3.0})], "unique, one chunk": [(1, {"a:unique": 9.5})],
    "unknown reduction": [(1, {"a:median": 1.0, "b:sum": 2.0})], "key missing in the second": [(1, {"a:sum": 1.0, "b:sum": 1.0}), (1, {"a:sum": 1.0})], "key missing in the first": [(1, {"a:sum": 1.0}), (1, {"a:sum": 1.0, "b:sum": 1.0})],
    "no colon": [(1, {"loss": 1.0})], "two colons": [(1, {"a:b:sum": 1.0})], "empty reduction": [(1, {"a:": 1.0})], "empty name": [(1, {":sum": 1.0})], "no metrics": [(1, {}), (2, {})],
    "sum with NaN": [(1, {"a:sum": _NAN}), (1, {"a:sum": 1.0})], "min with NaN": [(1, {"a:min": _NAN}), (1, {"a:min": 1.0})], "max with NaN": [(1, {"a:max": 1.0}), (1, {"a:max": _NAN})], "mean with infinity": [(1, {"a:mean": _INF}), (1, {"a:mean": 1.0})],
    "sum of twenty": [(1, {"a:sum": 0.1 * i}) for i in range(20)], "sum cancels": [(1, {"a:sum": 1e16}), (1, {"a:sum": 1.0}), (1, {"a:sum": -1e16})],
}  # fmt: skip
for _label, _values in {
    "one": [5.0], "zero": [0.0], "minus one": [-1.0], "two": [1.0, 2.0], "two swapped": [2.0, 1.0], "fractions": [1.9, -1.9], "large": [2.0**61, 2.0**62, 9e18], "huge": [1e30], "negative large": [-(2.0**61), -5e18],
    "modulus": [float(2**61 - 1)], "three": [3.0, -7.0, 123456789.0], "many": [float(i * i - 50) for i in range(12)], "NaN": [_NAN], "infinity": [_INF],
}.items():  # fmt: skip
    _METRICS[f"hash_unordered {_label}"] = [(1, {"h:hash_unordered": v}) for v in _values]
    _METRICS[f"hash2 {_label}"] = [(1, {"h:hash2": v}) for v in _values]


def _combine(chunks: list[tuple[int, dict[str, object]]]) -> object:
    results = [
        types.ForwardBackwardOutput(loss_fn_output_type=f"T{i}", loss_fn_outputs=[{}] * n, metrics=recipe.build(metrics))  # type: ignore[arg-type]
        for i, (n, metrics) in enumerate(chunks)
    ]
    combined = helpers.combine_fwd_bwd_output_results(results)
    return {"loss_fn_output_type": combined.loss_fn_output_type, "metrics": combined.metrics, "outputs": len(combined.loss_fn_outputs)}


_PATHS = [
    "tinker://run/weights/x", "tinker://run/sampler_weights/x", "tinker://run/external_weights/x", "tinker://sess-1:train:0/weights/step-0001", "tinker://a b/weights/\u00e9", "tinker://run/weights/", "tinker:///weights/x",
    "tinker://run/weights", "tinker://run/weights/x/y", "tinker://run//x", "tinker://run/other/x", "tinker://", "tinker:", "", "run/weights/x", "Tinker://run/weights/x", " tinker://run/weights/x", "tinker://run/weights/x ",
    "tinker://run/Weights/x", "http://run/weights/x", "tinker://run/weights/x?y=1", "tinker://run/weights/..", "tinker://run\\weights\\x", "tinker://run/weights/x/", "/tinker://run/weights/x", "tinker://tinker://run/weights/x",
]  # fmt: skip

# Days, seconds, microseconds.
_DURATIONS = [
    (0, 0, 0), (0, 0, 1), (0, 0, 551106), (0, 1, 0), (0, 59, 999999), (0, 60, 0), (0, 3599, 0), (0, 3600, 0), (0, 36000, 500000), (0, 86399, 999999), (1, 0, 0), (1, 1, 1), (2, 3723, 4), (30, 0, 0), (366, 86399, 0), (0, -1, 0), (-1, 0, 0), (0, 0, -1), (-2, 5, 0), (0, 12, 100000), (0, 12, 120), (1000000, 0, 0),
]  # fmt: skip

_TEXT = {"$type": "EncodedTextChunk", "tokens": [1, 2, 3]}
_IMAGE = {"$type": "ImageChunk", "data": {"$bytes": "//4AAQ=="}, "format": "png"}
_POINTER = {"$type": "ImageAssetPointerChunk", "format": "jpeg", "location": "gs://b\u00fccket/\U0001f9ea"}


def _dmel(*data: int) -> dict[str, object]:
    return {"$type": "DmelChunk", "dmel": {"$bytes": base64.b64encode(bytes(data)).decode()}}


_INPUTS: dict[str, list[object]] = {
    "nothing": [], "text": [_TEXT], "two texts": [_TEXT, _TEXT], "empty text": [{"$type": "EncodedTextChunk", "tokens": []}], "image": [_IMAGE], "image with tokens": [_IMAGE | {"expected_tokens": 9}], "image with 0 tokens": [_IMAGE | {"expected_tokens": 0}],
    "pointer": [_POINTER], "pointer with tokens": [_POINTER | {"expected_tokens": 4}], "text and image": [_TEXT, _IMAGE | {"expected_tokens": 9}], "dmel": [_dmel(4, 1, 5, 0)], "dmel constant": [_dmel(254, 4, 1, 5)], "dmel two dimensions": [_dmel(0, 2, 7, 80)],
    "dmel long varint": [_dmel(7, 1, 0x80, 0x01)], "dmel rank 0": [_dmel(4, 0)], "dmel empty": [_dmel()], "dmel marker only": [_dmel(254)], "dmel unknown dtype": [_dmel(8, 1, 5)], "dmel no rank": [_dmel(4)], "dmel cut short": [_dmel(4, 2, 5)], "dmel endless varint": [_dmel(4, 1, *([0x80] * 11))],
    "dmel ten-byte varint": [_dmel(4, 1, *([0xFF] * 9), 0x01)], "dmel and text": [_TEXT, _dmel(4, 1, 5, 0)],
}  # fmt: skip


def _model_inputs() -> list[dict[str, object]]:
    found = []
    for label, chunks in _INPUTS.items():
        fields = {"chunks": chunks}
        built = recipe.construct("ModelInput", fields)
        case: dict[str, object] = {"id": label, "input": fields}
        for name, work in {"length": lambda: built.length, "to_ints": built.to_ints}.items():  # type: ignore[attr-defined]
            case[name] = _attempt({}, work)
        # The estimate behind the sampling byte budget; it never reads the holder's own state.
        case["sample_bytes"] = _attempt({}, lambda: InternalClientHolder.estimate_bytes_count_in_model_input(_Holder(), built))  # type: ignore[arg-type]
        datum = types.Datum(model_input=built)  # type: ignore[arg-type]
        case["training_bytes"] = _attempt({}, lambda: training_client._estimate_datum_bytes_count_proto(datum))
        found.append(case)
    return found


class _Holder:
    """Stands in for a client holder: the estimates are methods but use nothing of the object."""

    def estimate_bytes_count_in_chunk(self, chunk: object) -> int:
        return InternalClientHolder.estimate_bytes_count_in_chunk(self, chunk)  # type: ignore[arg-type]


def _datum_bytes() -> list[dict[str, object]]:
    prompt = {"$type": "ModelInput", "chunks": [_TEXT]}
    sparse = {"$type": "TensorData", "data": [1.0], "dtype": "float32", "shape": [2, 9], "sparse_crow_indices": [0, 1, 1], "sparse_col_indices": [3]}
    found = []
    for label, inputs in {"none": {}, "both": {"target_tokens": [1, 2, 3], "weights": [1, 1, 1]}, "empty": {"weights": []}, "sparse": {"weights": sparse}, "i32": {"x": {"$i32": [1, 2]}}, "f64": {"x": {"$f64": [1, 2]}}}.items():
        fields = {"model_input": prompt, "loss_fn_inputs": inputs}
        datum = recipe.construct("Datum", fields)
        found.append(_attempt({"id": label, "input": fields}, lambda d=datum: training_client._estimate_datum_bytes_count_proto(d)))  # type: ignore[misc]
    return found


_QUERIES: dict[str, dict[str, object]] = {
    "paging": {"limit": 20, "offset": 0}, "audit": {"event_type": "all", "day": "2025-01-15"}, "null dropped": {"a": None, "b": 1}, "empty text": {"a": "", "b": 1}, "bools": {"a": True, "b": False}, "list": {"a": [1, 2, 3]}, "list of texts": {"a": ["x", "y z"]}, "empty list": {"a": []},
    "nested": {"a": {"b": {"c": 1}}}, "reserved": {"a": "x:y/z?&=+ #%"}, "unicode": {"\u00e9": "\U0001f9ea"}, "float": {"a": 1.0, "b": 0.1, "c": 1e-12}, "none": {},
}  # fmt: skip


def all_cases() -> dict[str, list[dict[str, object]]]:
    """Every group of cases by name."""
    return {
        "metrics": [_attempt({"id": label, "input": [[n, m] for n, m in chunks]}, lambda c=chunks: _combine(c)) for label, chunks in _METRICS.items()],  # type: ignore[misc]
        "paths": [_attempt({"input": path}, lambda p=path: types.ParsedCheckpointTinkerPath.from_tinker_path(p)) for path in _PATHS],  # type: ignore[misc]
        "durations": [{"input": list(parts), "output": str(datetime.timedelta(*parts))} for parts in _DURATIONS],
        "modelInputs": _model_inputs(),
        "datumBytes": _datum_bytes(),
        "queries": [_attempt({"id": label, "input": params}, lambda p=params: requests.query_text(p)) for label, params in _QUERIES.items()],  # type: ignore[misc]
    }
