"""What the SDK makes of protobuf results: sample responses and forward/backward outputs, decoded by its own
`response_conv`, with every dtype, ragged chunks, missing and unknown parts."""

from __future__ import annotations

import base64
import struct

import numpy as np
from google.protobuf.message import DecodeError
from tinker.proto import response_conv
from tinker.proto import tinker_public_pb2 as pb

from . import neutral


def _i32(*values: int) -> bytes:
    return np.array(values, dtype="<i4").tobytes()


def _i64(*values: int) -> bytes:
    return np.array(values, dtype="<i8").tobytes()


def _f32(*values: float) -> bytes:
    return np.array(values, dtype="<f4").tobytes()


def _tensor(data) -> dict[str, object]:
    numbers = [neutral.value(item) for item in data._numpy.ravel()]
    found: dict[str, object] = {"data": numbers, "dtype": data.dtype, "shape": data.shape}
    if data.sparse_crow_indices is not None:
        found |= {"sparse_col_indices": data.sparse_col_indices, "sparse_crow_indices": data.sparse_crow_indices}
    return found


def _sample_view(response) -> dict[str, object]:
    """The sample response as its user reads it: lists, with null where the wire had NaN or a sentinel."""
    view: dict[str, object] = {
        "prompt_cache_hit_tokens": response.prompt_cache_hit_tokens,
        "prompt_logprobs": neutral.value(response.prompt_logprobs),
        "sequences": [
            {"logprobs": neutral.value(s.logprobs), "stop_reason": s.stop_reason, "tokens": neutral.value(s.tokens)}
            | ({"topk_logprobs": neutral.value(s.topk_logprobs)} if hasattr(s, "topk_logprobs") else {})
            for s in response.sequences
        ],
        "topk_prompt_logprobs": neutral.value(response.topk_prompt_logprobs),
    }
    if getattr(response, "target_prompt_logprobs", None) is not None:
        view["target_prompt_logprobs"] = _tensor(response.target_prompt_logprobs)
    if getattr(response, "prompt_alt_tokens", None) is not None:
        alternatives = response.prompt_alt_tokens
        view["prompt_alt_tokens"] = {"logprobs": _tensor(alternatives.logprobs), "tokens": _tensor(alternatives.tokens)}
    return view


def _output_view(output) -> dict[str, object]:
    return {
        "loss_fn_output_type": output.loss_fn_output_type,
        "loss_fn_outputs": [{name: _tensor(data) for name, data in sorted(datum.items())} for datum in output.loss_fn_outputs],
        "metrics": neutral.value(dict(sorted(output.metrics.items()))),
    }


def _record(identifier: str, kind: str, wire: bytes) -> dict[str, object]:
    case: dict[str, object] = {"id": f"{kind}/{identifier}", "proto": base64.b64encode(wire).decode(), "type": kind}
    try:
        if kind == "SampleResponse":
            return case | {"parsed": _sample_view(response_conv.deserialize_sample_response(wire))}
        return case | {"parsed": _output_view(response_conv.deserialize_forward_backward_output(wire))}
    except DecodeError:
        return case | {"error": {"type": "DecodeError"}}
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what we record
        return case | {"error": neutral.failure(error)}


def _wire(message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _topk(n: int, k: int, ids: bytes, logprobs: bytes) -> dict[str, object]:
    # The newest release renamed the length field; its number is the same.
    length = "length" if "TopkLogprobs" in pb.DESCRIPTOR.message_types_by_name else "prompt_length"
    return {"token_ids": ids, "logprobs": logprobs, "k": k, length: n}


def _samples() -> dict[str, bytes]:
    sequence = {"stop_reason": 0, "tokens": _i32(1, 2, 3), "logprobs": _f32(-0.5, -1.25, -0.0)}
    mask = -99999.0

    def one(*sequences: dict[str, object], **fields: object) -> bytes:
        return _wire(pb.SampleResponse(sequences=[pb.SampledSequence(**s) for s in sequences], **fields))

    found = {
        "empty": b"", "no sequences": one(), "plain": one(sequence), "length": one(sequence | {"stop_reason": 1}), "three": one(sequence, sequence | {"stop_reason": 1}, {}),
        "no logprobs": one({"tokens": _i32(5)}), "empty logprobs": one({"tokens": _i32(5), "logprobs": b""}), "no tokens": one({"stop_reason": 1}),
        "token extremes": one({"tokens": _i32(0, 2**31 - 1, -(2**31))}), "logprob extremes": one({"tokens": _i32(1, 2, 3, 4), "logprobs": _f32(float("nan"), float("-inf"), 1e-45, -3.4e38)}),
        "more logprobs than tokens": one({"tokens": _i32(1), "logprobs": _f32(-1, -2)}), "odd token bytes": one({"tokens": b"\x01\x02\x03"}), "odd logprob bytes": one({"tokens": _i32(1), "logprobs": b"\x00\x00"}),
        "prompt logprobs": one(sequence, prompt_logprobs=_f32(float("nan"), -0.25, -1e-30, 0.0)), "prompt logprobs all NaN": one(prompt_logprobs=_f32(float("nan"))), "prompt logprobs empty": one(prompt_logprobs=b""),
        "prompt logprobs odd bytes": one(prompt_logprobs=b"\x00"), "prompt logprobs infinity": one(prompt_logprobs=_f32(float("-inf"))), "cache hits": one(sequence, prompt_cache_hit_tokens=1234), "negative cache hits": one(prompt_cache_hit_tokens=-1),
        "topk": one(topk_prompt_logprobs=_topk(2, 2, _i32(0, 0, 7, 8), _f32(mask, mask, -0.5, -1))), "topk short rows": one(topk_prompt_logprobs=_topk(2, 3, _i32(7, 0, 0, 1, 2, 0), _f32(-0.5, mask, mask, -1, -2, mask))),
        "topk token 0 is real": one(topk_prompt_logprobs=_topk(1, 2, _i32(0, 5), _f32(-0.1, -3))), "topk token 0 at the end": one(topk_prompt_logprobs=_topk(1, 2, _i32(5, 0), _f32(-0.1, -3))),
        "topk hole": one(topk_prompt_logprobs=_topk(1, 3, _i32(5, 0, 6), _f32(-0.1, mask, -0.2))), "topk masked then real": one(topk_prompt_logprobs=_topk(1, 2, _i32(0, 6), _f32(mask, -0.2))),
        "topk k 0": one(topk_prompt_logprobs=_topk(3, 0, b"", b"")), "topk length 0": one(topk_prompt_logprobs=_topk(0, 3, b"", b"")), "topk empty": one(topk_prompt_logprobs={}),
        "topk bytes too short": one(topk_prompt_logprobs=_topk(2, 2, _i32(1), _f32(-1))), "topk bytes too long": one(topk_prompt_logprobs=_topk(1, 1, _i32(1, 2), _f32(-1, -2))), "topk NaN": one(topk_prompt_logprobs=_topk(1, 1, _i32(3), _f32(float("nan")))),
        "unknown field": one(sequence) + b"\xf8\x07\x05", "unknown field in a sequence": _wire(pb.SampleResponse()) + b"\x0a\x05\x08\x01\xa2\x06\x00",
        "sequence split in two": b"\x0a\x02\x08\x01" + b"\x0a\x06\x12\x04" + _i32(9), "stop reason twice": b"\x0a\x04\x08\x01\x08\x00", "stop reason 2": b"\x0a\x02\x08\x02", "stop reason 99": b"\x0a\x02\x08\x63", "stop reason -1": b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01",
        "cut short": one(sequence)[:-3], "field number 0": b"\x00", "wrong wire type": b"\x08\x01", "group": b"\x0b\x0c", "varint too long": b"\x20" + b"\xff" * 11, "json": b'{"sequences":[]}', "cache hits beyond int32": b"\x20\x80\x80\x80\x80\x80\x01",
    }  # fmt: skip
    sequences = {f.name for f in pb.SampledSequence.DESCRIPTOR.fields}
    if "topk_sampled_logprobs" in sequences:
        found["sampled topk"] = one(sequence | {"topk_sampled_logprobs": _topk(3, 2, _i32(1, 5, 2, 0, 0, 0), _f32(-0.1, -2, -0.2, mask, mask, mask))})
        found["sampled topk empty"] = one(sequence | {"topk_sampled_logprobs": {}})
    responses = {f.name for f in pb.SampleResponse.DESCRIPTOR.fields}
    if "target_prompt_logprobs" in responses:
        found["target logprobs dense"] = one(target_prompt_logprobs={"dense": _f32(-1, 0), "dtype": 1, "shape": [2, 1]})
        csr = {"values": _f32(-1), "crow_indices": _i64(0, 0, 1), "col_indices": _i64(2)}
        found["target logprobs sparse"] = one(target_prompt_logprobs={"sparse_csr": csr, "dtype": 1, "shape": [2, 3]})
        found["target logprobs bf16"] = one(target_prompt_logprobs={"dense": struct.pack("<2H", 0x3F80, 0xBF80), "dtype": 4, "shape": [2]})
        found["target logprobs int32"] = one(target_prompt_logprobs={"dense": _i32(1, -1), "dtype": 3, "shape": [2]})
        found["target logprobs without dtype"] = one(target_prompt_logprobs={"dense": _f32(-1), "shape": [1]})
        found["target logprobs empty"] = one(target_prompt_logprobs={})
        found["target logprobs bad shape"] = one(target_prompt_logprobs={"dense": _f32(-1, 0), "dtype": 1, "shape": [3]})
    if "prompt_alt_tokens" in responses:
        tensors = {"tokens": {"dense": _i64(1, 2), "dtype": 2, "shape": [1, 2]}, "logprobs": {"dense": _f32(-1, -2), "dtype": 1, "shape": [1, 2]}}
        found["alternatives"] = one(prompt_alt_tokens=tensors)
        found["alternatives without logprobs"] = one(prompt_alt_tokens={"tokens": tensors["tokens"]})
    return found


def _outputs() -> dict[str, bytes]:
    logprobs = {"data": _f32(-1, -2, -3), "offsets": _i64(0, 4, 12), "dtype": 1}

    def one(*records: dict[str, object], kind: str = "pkg:ArrayRecord", **fields: object) -> bytes:
        return _wire(pb.ForwardBackwardOutput(loss_fn_output_type=kind, loss_fn_outputs=[pb.ArrayRecord(**r) for r in records], **fields))

    def field(num: int = 2, **tensor: object) -> bytes:
        return one({"fields": {"x": pb.BatchedTensor(**tensor)}, "num_datums": num})

    bf16 = struct.pack("<6H", 0x3F80, 0xC000, 0x7F80, 0x0001, 0x8000, 0x3F81)
    return {
        "empty": b"", "no records": one(kind=""), "no records, typed": one(kind="a:b:C"), "plain": one({"fields": {"logprobs": logprobs}, "num_datums": 2}), "metrics": one(kind="C", metrics={"loss:sum": 1.5, "n:mean": -0.0, "big": 1e300}),
        "metrics non-finite": one(metrics={"a": float("nan"), "b": float("inf"), "c": float("-inf")}), "metrics unicode": one(metrics={"\u00e9\U0001f9ea": 1.0, "": 2.0}), "type without colon": one({"fields": {"logprobs": logprobs}, "num_datums": 2}, kind="TorchLossReturn"),
        "type ends with colon": one({"fields": {"logprobs": logprobs}, "num_datums": 2}, kind="a:"), "no type": one({"fields": {"logprobs": logprobs}, "num_datums": 2}, kind=""), "num_datums unset": one({"fields": {"logprobs": logprobs}}),
        "num_datums too small": one({"fields": {"logprobs": logprobs}, "num_datums": 1}), "num_datums too large": one({"fields": {"logprobs": logprobs}, "num_datums": 3}), "stripped": one({"num_datums": 3}), "stripped and empty": one({}), "negative num_datums": one({"fields": {"logprobs": logprobs}, "num_datums": -1}),
        "two fields": one({"fields": {"logprobs": logprobs, "elementwise_loss": logprobs}, "num_datums": 2}), "fields of unequal count": one({"fields": {"a": logprobs, "b": {"data": b"", "offsets": _i64(0, 0), "dtype": 1}}, "num_datums": 2}),
        "two chunks": one({"fields": {"x": logprobs}, "num_datums": 2}, {"fields": {"x": {"data": _f32(9), "offsets": _i64(0, 4), "dtype": 1}}, "num_datums": 1}),
        "chunks of other dtypes": one({"fields": {"x": logprobs}, "num_datums": 2}, {"fields": {"x": {"data": _i32(9, -9), "offsets": _i64(0, 8), "dtype": 3}}, "num_datums": 1}),
        "ragged trailing shapes": one({"fields": {"x": {"data": _f32(1, 2, 3, 4), "offsets": _i64(0, 16), "dtype": 1, "trailing_shape": [2]}}, "num_datums": 1}, {"fields": {"x": {"data": _f32(1, 2, 3), "offsets": _i64(0, 12), "dtype": 1, "trailing_shape": [3]}}, "num_datums": 1}),
        "field missing from a chunk": one({"fields": {"x": logprobs, "y": logprobs}, "num_datums": 2}, {"fields": {"x": logprobs}, "num_datums": 2}), "field only in the second": one({"fields": {"x": logprobs}, "num_datums": 2}, {"fields": {"x": logprobs, "y": logprobs}, "num_datums": 2}),
        "float32": field(data=_f32(1, -1.5, 1e-45, float("nan"), float("inf")), offsets=_i64(0, 8, 20), dtype=1), "int64": field(data=_i64(1, 2**53 + 1, -(2**63), 2**63 - 1), offsets=_i64(0, 16, 32), dtype=2), "int32": field(data=_i32(1, -(2**31), 2**31 - 1), offsets=_i64(0, 4, 12), dtype=3),
        "bfloat16": field(data=bf16, offsets=_i64(0, 4, 12), dtype=4), "bfloat16 NaN": field(1, data=struct.pack("<H", 0x7FC0), offsets=_i64(0, 2), dtype=4), "dtype unset": field(data=_f32(1), offsets=_i64(0, 4)), "dtype 9": field(1, data=_f32(1), offsets=_i64(0, 4), dtype=9),
        "empty datums": field(data=b"", offsets=_i64(0, 0, 0), dtype=1), "some empty": field(3, data=_f32(1), offsets=_i64(0, 0, 4, 4), dtype=1), "no offsets": field(0, data=b"", offsets=b"", dtype=1), "one offset": field(0, data=b"", offsets=_i64(0), dtype=1),
        "trailing shape": field(data=_f32(*range(12)), offsets=_i64(0, 16, 48), dtype=1, trailing_shape=[2]), "two trailing": field(1, data=_f32(*range(12)), offsets=_i64(0, 48), dtype=1, trailing_shape=[2, 3]), "trailing 0": field(1, data=b"", offsets=_i64(0, 0), dtype=1, trailing_shape=[0]),
        "trailing does not divide": field(1, data=_f32(1, 2, 3), offsets=_i64(0, 12), dtype=1, trailing_shape=[2]), "trailing 1": field(data=_f32(1, 2, 3), offsets=_i64(0, 4, 12), dtype=1, trailing_shape=[1]), "offsets beyond data": field(1, data=_f32(1), offsets=_i64(0, 400), dtype=1),
        "offsets descending": field(data=_f32(1, 2), offsets=_i64(8, 4, 0), dtype=1), "offsets not from 0": field(1, data=_f32(1, 2), offsets=_i64(4, 8), dtype=1), "offset inside an element": field(1, data=_f32(1, 2), offsets=_i64(0, 6), dtype=1), "odd data bytes": field(1, data=b"\x00\x00\x80", offsets=_i64(0, 3), dtype=1),
        "odd offset bytes": field(1, data=_f32(1), offsets=b"\x00" * 9, dtype=1), "type tag ignored": one({"type_tag": "x", "fields": {"logprobs": logprobs}, "num_datums": 2}), "unknown field": one({"num_datums": 1}) + b"\xf8\x07\x05", "cut short": one({"fields": {"logprobs": logprobs}, "num_datums": 2})[:-2], "bad utf-8 type": b"\x0a\x01\xff",
        "metrics key twice": b"\x1a\x0c\x0a\x01a\x11" + struct.pack("<d", 1.0)[:8] + b"\x1a\x0c\x0a\x01a\x11" + struct.pack("<d", 2.0), "metric without value": b"\x1a\x03\x0a\x01a", "metric without key": b"\x1a\x09\x11" + struct.pack("<d", 2.0),
    }  # fmt: skip


def cases() -> list[dict[str, object]]:
    """Every protobuf result case."""
    recorded = [_record(label, "SampleResponse", wire) for label, wire in _samples().items()]
    return recorded + [_record(label, "ForwardBackwardOutput", wire) for label, wire in _outputs().items()]
