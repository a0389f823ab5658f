"""What the SDK sends as protobuf: tensors, datums and forward/backward requests, built by its own `request_conv` and
serialised with map entries in key order (the SDK itself leaves that order open)."""

from __future__ import annotations

import base64
from typing import Callable

import tinker.types as types
from tinker.proto import request_conv

from . import neutral, recipe, sdk


def _bytes(message) -> str:
    return base64.b64encode(message.SerializeToString(deterministic=True)).decode()


def _tensor(value: object) -> str:
    return _bytes(request_conv._tensor_data_to_proto(value))  # type: ignore[arg-type]


def _request(value: object, forward_only: bool = False) -> str:
    message = request_conv.forward_backward_request_to_proto(value)  # type: ignore[arg-type]
    # The resource layer sets this after the conversion.
    message.forward_only = forward_only
    return _bytes(message)


def _datum(value: object) -> str:
    body = types.ForwardBackwardInput(data=[value], loss_fn="cross_entropy")  # type: ignore[list-item]
    request = types.ForwardBackwardRequest(forward_backward_input=body, model_id="m")
    return _bytes(request_conv.forward_backward_request_to_proto(request).data[0])


def _encode(encoder: Callable[[object], str], identifier: str, type_name: str, fields: dict[str, object]) -> dict[str, object]:
    case: dict[str, object] = {"id": identifier, "input": fields, "type": type_name}
    try:
        built = recipe.construct(type_name, fields)
        return case | {"proto": encoder(built), "python": repr(built)}
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what we record
        return case | {"error": neutral.failure(error)}


_HUGE = str(2**63 - 1)
_F32_EDGES = [0.0, 1.0, -1.5, 1.401298464324817e-45, 1.1754943508222875e-38, 3.4028234663852886e38, "NaN", "Infinity", "-Infinity", "-0.0"]

_TENSORS: dict[str, dict[str, object]] = {
    "f32 array": {"data": {"$f32": _F32_EDGES}, "dtype": "float32", "shape": [10]},
    "f32 array without shape": {"data": {"$f32": [1, 2]}, "dtype": "float32"},
    "f32 subnormals": {"data": {"$f32": [1.401298464324817e-45, -1.401298464324817e-45, 5.877471754111438e-39]}, "dtype": "float32"},
    "f64 array narrowed": {"data": {"$f64": [0.1, 1 / 3, 1e300, 1e-300, "NaN"]}, "dtype": "float32"},
    "f64 ties": {"data": {"$f64": [16777217.0, 16777219.0, 1.00000005960464477539]}, "dtype": "float32"},
    "f32 into int64": {"data": {"$f32": [1.9, -1.9, 0.0]}, "dtype": "int64"},
    "i32 into float32": {"data": {"$i32": [1, -2, 16777217]}, "dtype": "float32"},
    "i64 array": {"data": {"$i64": ["0", "1", "-1", _HUGE, str(-(2**63))]}, "dtype": "int64"},
    "i64 beyond 2^53": {"data": {"$i64": [str(2**53 + 1), str(-(2**53) - 1), str(2**62 + 1)]}, "dtype": "int64", "shape": [3]},
    "i64 into float32": {"data": {"$i64": [str(2**53 + 1)]}, "dtype": "float32"},
    "u8 into int64": {"data": {"$u8": [0, 255]}, "dtype": "int64"},
    "u64 into int64": {"data": {"$u64": ["5"]}, "dtype": "int64"},
    "bool into int64": {"data": {"$bool": [True, False]}, "dtype": "int64"},
    "list of floats": {"data": [0.1, 2, -3.5], "dtype": "float32"},
    "list of ints": {"data": [1, 2, 3], "dtype": "int64", "shape": [3]},
    "list of floats as int64": {"data": [1.7, -1.7], "dtype": "int64"},
    "list with beyond 2^53": {"data": [{"$int": str(2**53 + 1)}], "dtype": "int64"},
    "list beyond int64": {"data": [{"$int": str(2**63)}], "dtype": "int64"},
    "list with NaN as int64": {"data": [{"$float": "NaN"}], "dtype": "int64"},
    "list with null": {"data": [1.0, None], "dtype": "float32"},
    "list with null as int64": {"data": [1, None], "dtype": "int64"},
    "list with text": {"data": ["a"], "dtype": "float32"},
    "list with numeric text": {"data": ["1.5"], "dtype": "float32"},
    "list of bools": {"data": [True, False], "dtype": "float32"},
    "nested list": {"data": [[1, 2], [3, 4]], "dtype": "int64"},
    "nested list with shape": {"data": [[1, 2], [3, 4]], "dtype": "int64", "shape": [2, 2]},
    "nested list reshaped": {"data": [[1, 2], [3, 4]], "dtype": "int64", "shape": [4]},
    "ragged": {"data": [[1, 2], [3]], "dtype": "int64"},
    "no data": {"dtype": "float32"},
    "no data, shape 0": {"data": [], "dtype": "float32", "shape": [0]},
    "no data, shape 2 by 0": {"data": [], "dtype": "int64", "shape": [2, 0]},
    "scalar shape": {"data": [5], "dtype": "int64", "shape": []},
    "scalar array": {"data": {"$f32": [2.5], "shape": []}, "dtype": "float32"},
    "one element": {"data": [5.0], "dtype": "float32", "shape": [1]},
    "two dimensions": {"data": [1, 2, 3, 4, 5, 6], "dtype": "float32", "shape": [2, 3]},
    "three dimensions": {"data": list(range(8)), "dtype": "int64", "shape": [2, 2, 2]},
    "inferred dimension": {"data": [1, 2, 3, 4], "dtype": "int64", "shape": [2, -1]},
    "shape too big": {"data": [1, 2, 3], "dtype": "int64", "shape": [2, 2]},
    "shape too small": {"data": [1, 2, 3], "dtype": "int64", "shape": [2]},
    "no dtype": {"data": [1]},
    "unknown dtype": {"data": [1], "dtype": "bfloat16"},
    "float64 dtype": {"data": [1], "dtype": "float64"},
    "sparse": {"data": [1.0, 2.0], "dtype": "float32", "shape": [2, 4], "sparse_crow_indices": [0, 1, 2], "sparse_col_indices": [3, 0]},
    "sparse int64": {"data": {"$i64": [_HUGE]}, "dtype": "int64", "shape": [3, 2], "sparse_crow_indices": [0, 0, 1, 1], "sparse_col_indices": [1]},
    "sparse without values": {"data": [], "dtype": "float32", "shape": [2, 4], "sparse_crow_indices": [0, 0, 0], "sparse_col_indices": []},
    "sparse, rows 0": {"data": [], "dtype": "float32", "shape": [0, 4], "sparse_crow_indices": [0], "sparse_col_indices": []},
    "sparse without columns": {"data": [1.0], "dtype": "float32", "shape": [1, 1], "sparse_crow_indices": [0, 1]},
    "sparse without rows": {"data": [1.0], "dtype": "float32", "shape": [1], "sparse_col_indices": [0]},
    "sparse without shape": {"data": [1.0], "dtype": "float32", "sparse_crow_indices": [0, 1], "sparse_col_indices": [0]},
    "sparse NaN": {"data": ["NaN"], "dtype": "float32", "shape": [1, 9], "sparse_crow_indices": [0, 1], "sparse_col_indices": [8]},
}  # fmt: skip

_PROMPT = {"$type": "ModelInput", "chunks": [{"$type": "EncodedTextChunk", "tokens": [1, 2, 3]}]}

# Values under a key of `loss_fn_inputs`; the key decides the dtype of a plain list and of nothing else.
_VALUES: dict[str, object] = {
    "ints": [1, 2, 3], "floats": [0.5, 1.5, -2.5], "mixed numbers": [1, 2.5], "bools": [True, False], "bools and ints": [True, 2],
    "empty": [], "nested empty": [[]], "one": [7], "nested": [[1, 2], [3, 4]], "nested floats": [[0.5], [1.5]], "deep": [[[1], [2]], [[3], [4]]],
    "ragged": [[1, 2], [3]], "ragged depth": [1, [2]], "with null": [1.0, None], "nulls": [None], "nested null": [[1.0, None]], "text": ["a"],
    "numeric text": ["1"], "string": "abc", "number": 3, "null": None, "map": {"a": 1}, "tuple": {"$tuple": [1, 2]}, "bool": True,
    "nested bools": [[True], [False]], "beyond 2^53": [{"$int": str(2**53 + 1)}], "beyond int64": [{"$int": str(2**63)}],
    "beyond uint64": [{"$int": str(2**64)}], "nan": [{"$float": "NaN"}], "infinity": [{"$float": "Infinity"}], "1e300": [1e300],
    "-0": [{"$float": "-0"}], "truncated": [2.9, -2.9], "list of tuples": [{"$tuple": [1, 2]}, {"$tuple": [3, 4]}],
    "f32": {"$f32": [0.5, "NaN"]}, "f64": {"$f64": [0.1, 1e300]}, "f16": {"$f16": [0.5, 65504]}, "i64": {"$i64": [_HUGE, "-1"]}, "i32": {"$i32": [1, -2]},
    "i16": {"$i16": [-3]}, "i8": {"$i8": [-128]}, "u8": {"$u8": [1]}, "u16": {"$u16": [1]}, "u32": {"$u32": [1]}, "u64": {"$u64": ["1"]}, "bool array": {"$bool": [True]},
    "f32 2d": {"$f32": [1, 2, 3, 4], "shape": [2, 2]}, "i64 3d": {"$i64": ["1", "2"], "shape": [1, 2, 1]}, "f32 scalar": {"$f32": [1.5], "shape": []},
    "empty f32": {"$f32": []}, "TensorData": {"$type": "TensorData", "data": [1, 2], "dtype": "int64"},
    "TensorData of another dtype": {"$type": "TensorData", "data": [1, 2], "dtype": "float32", "shape": [2]},
    "sparse TensorData": {"$type": "TensorData"} | _TENSORS["sparse"],
}  # fmt: skip
_KEYS = ["target_tokens", "weights", "advantages", "logprobs", "clip_low_threshold", "clip_high_threshold", "mask", "sequence_ratio_mask"]


def _datums() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for label, item in _VALUES.items():
        # Every rule under one integer key, one float key and one unknown key; the plain rule under each key.
        keys = _KEYS if label in ("ints", "floats") else ["target_tokens", "weights", "mask"]
        if label in ("nan", "infinity", "1e300"):
            keys = keys[1:]  # what C makes of such a float as an integer depends on the processor
        for key in keys:
            found[f"{key}: {label}"] = {"model_input": _PROMPT, "loss_fn_inputs": {key: item}}
    found["no inputs"] = {"model_input": _PROMPT}
    found["many keys"] = {"model_input": _PROMPT, "loss_fn_inputs": {"weights": [1.0], "target_tokens": [1], "advantages": [0.5], "logprobs": [-0.5]}}
    found["unicode keys"] = {"model_input": _PROMPT, "loss_fn_inputs": {"\u00e9\U0001f9ea": {"$f32": [1]}, "": {"$i64": ["1"]}, "z": {"$f32": []}, "A": {"$f32": []}}}
    for label, chunks in {
        "none": [], "empty text": [{"$type": "EncodedTextChunk", "tokens": []}], "image": [{"$type": "ImageChunk", "data": {"$bytes": "//4A"}, "format": "png"}],
        "image with tokens": [{"$type": "ImageChunk", "data": {"$bytes": ""}, "format": "jpeg", "expected_tokens": 0}],
        "dmel": [{"$type": "DmelChunk", "dmel": {"$bytes": "BAEFAA=="}}], "pointer": [{"$type": "ImageAssetPointerChunk", "format": "png", "location": "x"}],
        "int32 extremes": [{"$type": "EncodedTextChunk", "tokens": [0, 2**31 - 1, -(2**31)]}], "beyond int32": [{"$type": "EncodedTextChunk", "tokens": [2**31]}],
        "several": [{"$type": "EncodedTextChunk", "tokens": [1]}, {"$type": "ImageChunk", "data": {"$bytes": "AA=="}, "format": "png", "expected_tokens": 9}, {"$type": "EncodedTextChunk", "tokens": [2]}],
    }.items():  # fmt: skip
        found[f"chunks {label}"] = {"model_input": {"$type": "ModelInput", "chunks": chunks}}
    return found


_DATUM = {"$type": "Datum", "model_input": _PROMPT, "loss_fn_inputs": {"target_tokens": [2, 3, 4], "weights": [1.0, 1.0, 0.0]}}


def _body(**fields: object) -> dict[str, object]:
    return {"$type": "ForwardBackwardInput", "data": [_DATUM], "loss_fn": "cross_entropy"} | fields


def _requests() -> dict[str, tuple[dict[str, object], bool]]:
    def one(body: dict[str, object], forward_only: bool = False, **fields: object) -> tuple[dict[str, object], bool]:
        return {"forward_backward_input": body, "model_id": "sess-1:train:0", "seq_id": 1} | fields, forward_only

    found = {
        "appendix": one(_body()), "forward only": one(_body(), True), "no seq_id": one(_body(), seq_id=None), "seq_id 0": one(_body(), seq_id=0),
        "seq_id int32 max": one(_body(), seq_id=2**31 - 1), "seq_id beyond int32": one(_body(), seq_id=2**31), "seq_id negative": one(_body(), seq_id=-1),
        "empty model id": one(_body(), model_id=""), "unicode model id": one(_body(), model_id="\U0001f9ea:train:0"), "lone surrogate": one(_body(), model_id="\ud800"),
        "no data": one(_body(data=[])), "three datums": one(_body(data=[_DATUM, _DATUM, _DATUM])),
        "bare datum": one(_body(data=[{"$type": "Datum", "model_input": {"$type": "ModelInput", "chunks": []}}])),
        "empty config": one(_body(loss_fn_config={})), "config": one(_body(loss_fn="ppo", loss_fn_config={"clip_low_threshold": 0.8, "clip_high_threshold": 1.2})),
        "config integers": one(_body(loss_fn_config={"beta": 1, "big": 2**53})), "config bool": one(_body(loss_fn_config={"on": True})),
        "config non-finite": one(_body(loss_fn_config={"a": {"$float": "NaN"}, "b": {"$float": "Infinity"}, "c": {"$float": "-0"}})),
        "config text": one(_body(loss_fn_config={"a": "1.5"})), "config word": one(_body(loss_fn_config={"mode": "token", "beta": 0.1})),
        "config null": one(_body(loss_fn_config={"a": None})), "config list": one(_body(loss_fn_config={"a": [1]})), "unknown loss": one(_body(loss_fn="no_such_loss")),
        "empty loss": one(_body(loss_fn="")), "config unicode": one(_body(loss_fn_config={"\u00e9": 1.0, "z": 2.0, "A": 3.0})),
    }  # fmt: skip
    for loss in ("cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"):
        found[f"loss {loss}"] = one(_body(loss_fn=loss))
    return found


def _provenance() -> list[dict[str, object]]:
    """Spans that say where the tokens of a datum came from; releases without them record nothing."""
    if "PromptProvenanceSpan" not in sdk.TYPES:
        return []
    prompt = {"$type": "PromptProvenanceSpan", "sequence_id": "s:1:0", "length": 2}
    sampled = {"$type": "SampledProvenanceSpan", "sequence_id": "s:1:0", "offset": 4, "length": 1}
    base = {"model_input": _PROMPT, "loss_fn_inputs": {"target_tokens": [1, 2, 3]}}
    variants: dict[str, dict[str, object]] = {
        "both": {"model_input_spans": [prompt, sampled], "loss_fn_input_spans": [prompt, sampled]},
        "empty": {"model_input_spans": [], "loss_fn_input_spans": []},
        "one only": {"model_input_spans": [prompt]},
        "not a span": {"model_input_spans": [1], "loss_fn_input_spans": [1]},
        "negative length": {"model_input_spans": [prompt | {"length": -1}], "loss_fn_input_spans": []},
        "no sequence": {"model_input_spans": [prompt | {"sequence_id": ""}], "loss_fn_input_spans": []},
        "negative offset": {"model_input_spans": [prompt | {"offset": -1}], "loss_fn_input_spans": []},
    }
    return [_encode(_datum, f"Datum/spans {label}", "Datum", base | fields) for label, fields in variants.items()]


def cases() -> list[dict[str, object]]:
    """Every protobuf case."""
    recorded = [_encode(_tensor, f"TensorData/{label}", "TensorData", fields) for label, fields in _TENSORS.items()]
    recorded += [_encode(_datum, f"Datum/{label}", "Datum", fields) for label, fields in _datums().items()]
    recorded += _provenance()
    for label, (fields, forward_only) in _requests().items():
        case = _encode(lambda v, f=forward_only: _request(v, f), f"ForwardBackwardRequest/{label}", "ForwardBackwardRequest", fields)
        recorded.append(case | ({"forwardOnly": True} if forward_only else {}))
    return recorded
