"""What the SDK makes of JSON that a server sends. Each case is a JSON text and either what pydantic parsed, as neutral
JSON, or where it refused. The texts are generated from each model, plus the lenient readings that pydantic allows."""

from __future__ import annotations

import json

import pydantic
from tinker.lib._pydantic_conv import deserialize_json_response

from . import neutral, samples, sdk


def record(identifier: str, name: str, text: str) -> dict[str, object]:
    """One case, parsed as the SDK parses a response body: standard JSON parser, then lax validation."""
    case: dict[str, object] = {"id": identifier, "text": text, "type": name}
    try:
        return case | {"parsed": neutral.value(deserialize_json_response(json.loads(text), sdk.models()[name]))}
    except pydantic.ValidationError as error:
        return case | {"error": neutral.failure(error)}


def _text(item: object) -> str:
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"))


# JSON texts that probe one field, by the field's kind. The few in LIGHT go to every field of every model, the rest
# to one field of each kind.
_LIGHT: dict[str, list[str]] = {
    "string": ["5"], "int": ['"5"', "5.5"], "float": ['"1.5"', '"x"'], "bool": ['"false"', "2"], "datetime": ["1760000000", '"soon"'],
    "list": ['"x"', "{}"], "map": ["[]", '{"k":5}'], "model": ["[]", '"x"', "{}"],
}  # fmt: skip
_HEAVY: dict[str, list[str]] = {
    "string": ['"\\ud83e\\uddea"', '"\\u0000"', "true", "1.5", "[]", '["a"]', "{}", '""', '"\\ud83e"'],
    "int": ["5.0", '"5.0"', '" 5 "', '"+5"', '"-5"', '"5_000"', '"0x10"', '""', '"five"', "true", "false", "1e3", "-0", "9007199254740993", "9223372036854775807", "18446744073709551616", '"9007199254740993"', "NaN", "Infinity", "[5]"],
    "float": ["1", "-0.0", '"NaN"', '"inf"', '"-Infinity"', '"Infinity"', "NaN", "Infinity", "-Infinity", "true", '"1e-5"', '" 2 "', '"1_0"', "1e400", "9007199254740993", "[]"],
    "bool": ["1", "0", "1.0", "0.5", '"true"', '"True"', '"TRUE"', '"t"', '"yes"', '"y"', '"on"', '"1"', '"no"', '"off"', '"n"', '"f"', '"0"', '""', '" true"', "-1", "[]"],
    "datetime": [
        '"2026-03-04T05:06:07Z"', '"2026-03-04T05:06:07+00:00"', '"2026-03-04T05:06:07+0230"', '"2026-03-04T05:06:07-08:00"', '"2026-03-04T05:06:07"',
        '"2026-03-04 05:06:07"', '"2026-03-04t05:06:07z"', '"2026-03-04T05:06"', '"2026-03-04T05:06Z"', '"2026-03-04T05"', '"2026-03-04"', '"20260304T050607Z"',
        '"2026-03-04T05:06:07.1Z"', '"2026-03-04T05:06:07.123456Z"', '"2026-03-04T05:06:07.123456789Z"', '"2026-03-04T05:06:07,5Z"', '"2026-3-4T05:06:07Z"',
        '"2026-02-30T00:00:00Z"', '"2026-03-04T24:00:00Z"', '"2026-03-04T05:06:60Z"', '"2026-03-04T05:06:07+25:00"', '"2026-03-04T05:06:07 Z"', '" 2026-03-04T05:06:07Z "',
        "0", "-1", "1760000000.123456", "1760000000000", "1760000000123", "20000000000", "20000000001", "-20000000001", "253402300799", "253402300800", "1e20", "1e300", '"1760000000"', '"1760000000.5"', '"1760000000000"',
        "true", "NaN", '""', '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"', '"0000-01-01T00:00:00Z"', "[]", "{}", '"1970-01-01T00:00:00+00:00"', '"2026-03-04T05:06:07.000001+05:30"',
    ],
}  # fmt: skip
_HEAVY_FIELDS = [
    ("HealthResponse", "status", "string"), ("UntypedAPIFuture", "request_id", "string"), ("Cursor", "offset", "int"), ("Cursor", "limit", "int"),
    ("StorageBillingEvent", "gigabyte_hours", "float"), ("Checkpoint", "public", "bool"), ("Checkpoint", "time", "datetime"), ("Checkpoint", "expires_at", "datetime"),
    ("TrainingRun", "is_lora", "bool"), ("CreateModelResponse", "model_id", "string"),
]  # fmt: skip


def _kind(annotation: object) -> str:
    text = neutral.type_text(annotation).removesuffix(" | null")
    if text.startswith("list<"):
        return "list"
    if text.startswith("map<"):
        return "map"
    if text in ("string", "int", "float", "bool"):
        return text
    if text.startswith("datetime"):
        return "datetime"
    return "model" if sdk.children(annotation) else "literal"


def _generated(name: str) -> list[tuple[str, str]]:
    model = sdk.models()[name]
    least = samples.example(model, False, True)
    cases = [("minimal", _text(least)), ("full", _text(samples.example(model, True, True)))]
    cases.append(("unknown fields", _text(least | {"not_yet": {"invented": [1, None]}, "another": None})))
    cases += [("empty object", "{}"), ("array", "[]"), ("null", "null")]
    for field_name, field in model.model_fields.items():
        def put(text: str, key: str = field_name) -> str:
            rest = {k: v for k, v in least.items() if k != key}
            return (_text(rest)[:-1] + ("," if rest else "") + f"{json.dumps(key)}:{text}" + "}")

        cases.append((f"{field_name}=null", put("null")))
        for index, item in enumerate(samples.valid(field.annotation, field_name, True)[1:]):
            cases.append((f"{field_name}#{index + 1}", put(_text(item))))
        for probe in _LIGHT.get(_kind(field.annotation), ['"no such value"', "5"]):
            cases.append((f"{field_name}={probe}", put(probe)))
        if (name, field_name, _kind(field.annotation)) in _HEAVY_FIELDS:
            cases += [(f"{field_name}={probe}", put(probe)) for probe in _HEAVY[_kind(field.annotation)]]
        if field.is_required():
            cases.append((f"{field_name} missing", _text({k: v for k, v in least.items() if k != field_name})))
    return cases


_RUN = '{"training_run_id":"r","base_model":"b","model_owner":"o","is_lora":true,"last_request_time":"2026-03-04T05:06:07Z"'
_CHECKPOINT = '{"checkpoint_id":"weights/x","checkpoint_type":"training","time":"2026-03-04T05:06:07Z","tinker_path":"tinker://r/weights/x"'
_EVENT = '{"bucket_start":"2026-03-04T05:00:00Z","bucket_end":"2026-03-04T06:00:00Z","event_info":'
_BY_HAND: list[tuple[str, str, str]] = [
    ("GetServerCapabilitiesResponse", "models as objects", '{"supported_models":[{"model_name":"a","max_context_length":32768},{}]}'),
    ("GetServerCapabilitiesResponse", "models as names", '{"supported_models":["a"]}'),
    ("GetServerCapabilitiesResponse", "unknown inside", '{"supported_models":[{"model_name":"a","vision":true}],"region":"x"}'),
    ("OptimStepResponse", "metrics", '{"metrics":{"grad_norm:mean":0.5,"count":3}}'),
    ("OptimStepResponse", "metric as text", '{"metrics":{"a":"1.5","b":"NaN","c":"Infinity"}}'),
    ("OptimStepResponse", "metric null", '{"metrics":{"a":null}}'),
    ("OptimStepResponse", "metric NaN", '{"metrics":{"a":NaN}}'),
    ("OptimStepResponse", "metric word", '{"metrics":{"a":"x"}}'),
    ("OptimStepResponse", "metric bool", '{"metrics":{"a":true}}'),
    ("OptimStepResponse", "odd keys", '{"metrics":{"":1,"__proto__":2,"snake_case":3,"camelCase":4}}'),
    ("CreateSessionResponse", "messages", '{"session_id":"s","info_message":"i","warning_message":"w","error_message":"e","type":"create_session"}'),
    ("CreateSessionResponse", "other type", '{"session_id":"s","type":"create_model"}'),
    ("TrainingRun", "metadata of texts", _RUN + ',"user_metadata":{"a":"1","snake_case":"x"}}'),
    ("TrainingRun", "metadata with a number", _RUN + ',"user_metadata":{"a":1}}'),
    ("TrainingRun", "metadata with null", _RUN + ',"user_metadata":{"a":null}}'),
    ("TrainingRun", "checkpoints", _RUN + ',"last_checkpoint":' + _CHECKPOINT + '},"last_sampler_checkpoint":' + _CHECKPOINT + ',"public":true,"size_bytes":9007199254740993}}'),
    ("TrainingRun", "bad date inside", _RUN + ',"last_checkpoint":' + _CHECKPOINT + ',"expires_at":"x"}}'),
    ("TrainingRunsResponse", "two", '{"training_runs":[' + _RUN + "}," + _RUN + '}],"cursor":{"offset":0,"limit":2,"total_count":9}}'),
    ("TrainingRunsResponse", "without cursor", '{"training_runs":[]}'),
    ("CheckpointsListResponse", "without cursor", '{"checkpoints":[' + _CHECKPOINT + "}]}"),
    ("CheckpointsListResponse", "error in the second", '{"checkpoints":[' + _CHECKPOINT + "}," + _CHECKPOINT + ',"size_bytes":"big"}]}'),
    ("RequestFailedResponse", "user", '{"error":"bad input","category":"user"}'),
    ("RequestFailedResponse", "upper case", '{"error":"bad input","category":"USER"}'),
    ("RequestFailedResponse", "other", '{"error":"bad input","category":"weather"}'),
    ("TryAgainResponse", "with reason", '{"type":"try_again","request_id":"r","queue_state":"paused_capacity","queue_state_reason":"busy"}'),
    ("TryAgainResponse", "unknown state", '{"request_id":"r","queue_state":"resting"}'),
    ("BillingUsageResponse", "sessions", '{"data":[],"sessions":{"s":{"user_metadata":{"a":"b"}},"t":{}}}'),
    ("AuditLogResponse", "two", '{"entries":[{"timestamp":1760000000,"event":"read"},{"timestamp":"2026-03-04T05:06:07Z","event":"write","purpose":"p"}]}'),
    ("WeightsInfoResponse", "lora", '{"base_model":"b","is_lora":true,"lora_rank":8,"train_mlp":false}'),
    ("GetInfoResponse", "full", '{"type":"get_info","model_data":{"arch":"a","model_name":"m","tokenizer_id":"t"},"model_id":"x","is_lora":true,"lora_rank":4,"model_name":"m"}'),
    ("ClientConfigResponse", "unknown flags", '{"new_flag":true,"fwdbwd_max_chunk_len":"16"}'),
]  # fmt: skip
for _label, _info in {
    "training": '{"type":"training","token_count":5}', "prefill": '{"type":"sampling_prefill","cached":true,"token_count":5}', "sample": '{"type":"sampling_sample","token_count":5}',
    "checkpoint": '{"type":"checkpoint","count":1}', "storage": '{"type":"storage","gigabyte_hours":1.5}', "untyped tokens": '{"token_count":5}', "untyped count": '{"count":5}',
    "unknown": '{"type":"gift","amount":5}', "extra": '{"type":"training","token_count":5,"discount":1}', "mismatch": '{"type":"checkpoint","token_count":5}',
}.items():  # fmt: skip
    _BY_HAND.append(("BillingUsageEvent", f"info {_label}", _EVENT + _info + "}"))


def cases() -> tuple[list[dict[str, object]], list[str]]:
    """Every incoming JSON case, and those for which this release has no type."""
    recorded, missing = [], []
    seen: set[tuple[str, str]] = set()
    outgoing = sdk.outgoing_models()
    incoming = [n for n in sorted(sdk.models()) if n not in outgoing and not n.startswith("pydantic:")]
    for name in incoming:
        for label, text in _generated(name):
            if (name, text) not in seen:
                seen.add((name, text))
                recorded.append(record(f"{name}/{label}", name, text))
    for name, label, text in _BY_HAND:
        if name in sdk.models():
            recorded.append(record(f"{name}/by hand: {label}", name, text))
        else:
            missing.append(f"{name}/by hand: {label}")
    return recorded, missing
