"""What the SDK sends as JSON. Each case is a recipe; its wire text comes from the SDK's own client, which builds the HTTP
request exactly as it would before sending it."""

from __future__ import annotations

from tinker._client import AsyncTinker
from tinker._compat import model_dump
from tinker._models import FinalRequestOptions

from . import neutral, recipe, samples, sdk

_CLIENT = AsyncTinker(api_key="tml-fixture", base_url="http://server.invalid")


def body_text(model: object) -> str:
    """The body of a POST that carries this model."""
    body = model_dump(model, exclude_unset=False, exclude_none=True, mode="json")  # type: ignore[arg-type]
    options = FinalRequestOptions.construct(method="post", url="/api/v1/any", json_data=body)
    return _CLIENT._build_request(options).content.decode("utf-8")


def query_text(parameters: dict[str, object]) -> str:
    """The query string of a GET with these parameters."""
    options = FinalRequestOptions.construct(method="get", url="/api/v1/any", params=parameters)
    return _CLIENT._build_request(options).url.query.decode("ascii")


def record(identifier: str, type_name: str, fields: dict[str, object]) -> dict[str, object]:
    """One case: what the constructor and the encoder made of the fields, or how they refused."""
    case: dict[str, object] = {"id": identifier, "input": fields, "type": type_name}
    try:
        built = recipe.construct(type_name, fields)
        return case | {"python": repr(built), "wire": body_text(built)}
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what we record
        return case | {"error": neutral.failure(error)}


def _generated(name: str) -> list[tuple[str, dict[str, object]]]:
    """Every field set and unset, missing, null, of the wrong kind; an unknown field."""
    model = sdk.models()[name]
    least = {key: item for key, item in samples.example(model, False, False).items() if key != "$type"}
    cases: list[tuple[str, dict[str, object]]] = [("minimal", least)]
    cases.append(("full", {k: v for k, v in samples.example(model, True, False).items() if k != "$type"}))
    for field_name, field in model.model_fields.items():
        for index, item in enumerate(samples.valid(field.annotation, field_name)):
            if least.get(field_name, samples) != item:
                cases.append((f"{field_name}#{index}", least | {field_name: item}))
        cases.append((f"{field_name}=null", least | {field_name: None}))
        cases.append((f"{field_name}=wrong", least | {field_name: {"$tuple": [{"no": "such"}]}}))
        if field.is_required():
            cases.append((f"{field_name} missing", {k: v for k, v in least.items() if k != field_name}))
    cases.append(("unknown field", least | {"surprise": 1}))
    return cases


STRINGS = {
    "empty": "",
    "accents": "d\u00e9j\u00e0 vu \u2014 \u00fcber",
    "astral": "\U0001f9ea\U0001f468\u200d\U0001f469\u200d\U0001f467 \U00010348",
    "right to left": "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "quotes and slashes": 'a"b\\c/d\'e',
    "controls": "\u0000\u0001\b\t\n\u000b\f\r\u001f\u007f\u0080",
    "line separators": "\u2028\u2029\ufeff",
    "combining": "e\u0301 n\u0303",
    "html": "</script><!-- & -->",
    "lone high surrogate": "\ud83e",
    "lone low surrogate": "x\udc00",
    "long": "ab" * 200,
    "proto keys": "__proto__ constructor",
}

FLOATS: dict[str, object] = {
    "one": 1, "tenth": 0.1, "third": 1 / 3, "tiny": 1e-12, "smallest": 5e-324, "normal": 2.2250738585072014e-308,
    "largest": 1.7976931348623157e308, "big integer": 1e16, "exponent": 1e21, "exponent 22": 1e22, "small": 1e-7,
    "negative zero": {"$float": "-0"}, "negative": -2.5, "nan": {"$float": "NaN"}, "infinity": {"$float": "Infinity"},
    "minus infinity": {"$float": "-Infinity"}, "precise": 123456789.12345679, "million": 1e6,
}  # fmt: skip

INTEGERS: dict[str, object] = {
    "zero": 0, "minus one": -1, "int32 max": 2**31 - 1, "int32 over": 2**31, "safe": 2**53 - 1, "two to 53": {"$int": str(2**53)},
    "beyond safe": {"$int": str(2**53 + 1)}, "clone": {"$int": "54784135000000001"}, "int64 max": {"$int": str(2**63 - 1)},
    "int64 min": {"$int": str(-(2**63))}, "uint64 max": {"$int": str(2**64 - 1)}, "beyond uint64": {"$int": str(10**20)},
    "fraction": 1.5, "whole float": 2.0, "text": "3", "nan": {"$float": "NaN"}, "yes": True,
}  # fmt: skip

_TEXT_CHUNK = {"$type": "EncodedTextChunk", "tokens": [1, 2, 3]}
_IMAGE = {"$type": "ImageChunk", "data": {"$bytes": "//4A"}, "format": "png", "expected_tokens": 2}
_POINTER = {"$type": "ImageAssetPointerChunk", "format": "jpeg", "location": "gs://x"}
_DMEL = {"$type": "DmelChunk", "dmel": {"$bytes": "BAEFAA=="}}
_PROMPT = {"$type": "ModelInput", "chunks": [_TEXT_CHUNK]}


def _sample(**fields: object) -> dict[str, object]:
    base = {"prompt": _PROMPT, "sampling_params": {"$type": "SamplingParams"}}
    return base | fields


def _by_hand() -> list[tuple[str, str, dict[str, object]]]:
    cases: list[tuple[str, str, dict[str, object]]] = []
    model = {"session_id": "sess-1", "model_seq_id": 0, "base_model": "Qwen/Qwen3-8B"}
    session = {"tags": [], "user_metadata": {}, "sdk_version": "0.25.0"}
    load = {"path": "tinker://r/weights/x", "optimizer": False}
    for name, text in STRINGS.items():
        cases.append(("CreateModelRequest", f"base_model {name}", model | {"base_model": text}))
        cases.append(("CreateSessionRequest", f"tag {name}", session | {"tags": [text]}))
        cases.append(("CreateModelRequest", f"metadata value {name}", model | {"user_metadata": {"k": text}}))
        cases.append(("CreateModelRequest", f"metadata key {name}", model | {"user_metadata": {"$map": [[text, 1]]}}))
        cases.append(("SamplingParams", f"stop {name}", {"stop": text}))
    for name, number in FLOATS.items():
        cases.append(("AdamParams", f"learning_rate {name}", {"learning_rate": number}))
        cases.append(("SamplingParams", f"temperature {name}", {"temperature": number}))
        cases.append(("CreateModelRequest", f"metadata number {name}", model | {"user_metadata": {"x": number}}))
    for name, number in INTEGERS.items():
        cases.append(("SampleRequest", f"seq_id {name}", _sample(sampling_session_id="s", seq_id=number)))
        cases.append(("SamplingParams", f"seed {name}", {"seed": number}))
        cases.append(("CreateModelRequest", f"metadata integer {name}", model | {"user_metadata": {"x": number}}))
    for name, metadata in {
        "nulls": {"a": None, "b": [None, {"c": None}]},
        "nested": {"a": {"b": {"c": [1, 2.5, "x", True, False]}}},
        "empty": {},
        "snake and camel": {"snake_case": 1, "camelCase": 2, "Kebab-Case": 3},
        "like a schema": {"type": "create_model", "lora_config": {"rank": 1}},
        "dollar keys": {"$map": [["$type", "x"], ["$int", "5"]]},
        "proto key": {"$map": [["__proto__", {"x": 1}], ["constructor", 2]]},
    }.items():
        cases.append(("CreateSessionRequest", f"metadata {name}", session | {"user_metadata": metadata}))
        cases.append(("CreateModelRequest", f"metadata {name}", model | {"user_metadata": metadata}))
        cases.append(("LoadWeightsRequest", f"metadata {name}", load | {"user_metadata": metadata}))
    for name, stop in {
        "list of texts": ["\n\n", "User:"], "list of tokens": [1, 2], "empty list": [], "one token": [151643], "text": "STOP",
        "mixed": ["a", 1], "tokens as text": ["1", "2"], "nested": [[1]], "number": 5, "float tokens": [1.5], "null": None,
        "tuple of texts": {"$tuple": ["a", "b"]}, "tuple of tokens": {"$tuple": [3, 4]}, "with null": ["a", None], "zero": [0],
    }.items():  # fmt: skip
        cases.append(("SamplingParams", f"stop {name}", {"stop": stop}))
    for name, chunks in {
        "text": [_TEXT_CHUNK], "none": [], "empty text": [{"$type": "EncodedTextChunk", "tokens": []}], "image": [_IMAGE],
        "pointer": [_POINTER], "dmel": [_DMEL], "all": [_TEXT_CHUNK, _IMAGE, _POINTER, _DMEL],
        "two texts": [_TEXT_CHUNK, _TEXT_CHUNK], "big token": [{"$type": "EncodedTextChunk", "tokens": [2**31 - 1, 2**31, 2**53 - 1]}],
        "untyped text": [{"tokens": [1]}], "untyped image": [{"data": "//4A", "format": "jpeg"}], "unknown": [{"type": "video", "url": "x"}],
        "negative token": [{"$type": "EncodedTextChunk", "tokens": [-1]}], "text tuple": [{"$type": "EncodedTextChunk", "tokens": {"$tuple": [5, 6]}}],
    }.items():  # fmt: skip
        cases.append(("ModelInput", f"chunks {name}", {"chunks": chunks}))
        cases.append(("SampleRequest", f"prompt {name}", _sample(prompt={"$type": "ModelInput", "chunks": chunks})))
    for name, data in {"one byte": "AA==", "two": "AP8=", "three": "AP/+", "url-safe letters": "+/+/", "bad alphabet": "*", "text": "plain"}.items():
        cases.append(("ImageChunk", f"data as text {name}", {"data": data, "format": "png"}))
    for name, fields in {
        "session": {"sampling_session_id": "sess-1:sample:0", "seq_id": 0}, "base model": {"base_model": "Qwen/Qwen3-8B"},
        "model path": {"model_path": "tinker://r/sampler_weights/x"}, "all modes": {"base_model": "b", "model_path": "p", "sampling_session_id": "s", "seq_id": 1},
        "prompt_logprobs true": {"prompt_logprobs": True}, "prompt_logprobs false": {"prompt_logprobs": False}, "topk": {"topk_prompt_logprobs": 20},
        "many": {"num_samples": 64}, "none": {"num_samples": 0}, "negative": {"num_samples": -1},
        "appendix": {"prompt": {"$type": "ModelInput", "chunks": [{"$type": "EncodedTextChunk", "tokens": [1]}, _IMAGE, _POINTER, _DMEL]},
                     "sampling_params": {"$type": "SamplingParams", "seed": 7, "stop": [1, 2], "temperature": 0.0},
                     "sampling_session_id": "sess-1:sample:0", "seq_id": 0, "prompt_logprobs": True, "topk_prompt_logprobs": 3},
    }.items():  # fmt: skip
        cases.append(("SampleRequest", name, _sample(**fields)))
    train = {"model_id": "sess-1:train:0"}
    cases += [
        ("SaveWeightsRequest", "appendix", train | {"path": "ck1", "seq_id": 4, "ttl_seconds": 60}),
        ("SaveWeightsRequest", "overwrite", train | {"path": "ck1", "seq_id": 4, "overwrite": True}),
        ("SaveWeightsForSamplerRequest", "named", train | {"path": "s1", "seq_id": 5}),
        ("SaveWeightsForSamplerRequest", "ephemeral", train | {"sampling_session_seq_id": 0, "seq_id": 7}),
        ("LoadWeightsRequest", "into a model", train | {"seq_id": 6, "path": "tinker://r/weights/ck1", "optimizer": False}),
        ("LoadWeightsRequest", "creating", {"session_id": "sess-1", "model_seq_id": 0, "user_metadata": {"k": "v"}, "path": "tinker://r/weights/x", "optimizer": True, "weights_access_token": "tml-other"}),
        ("CreateSessionRequest", "appendix", {"tags": ["b", "a"], "user_metadata": {"n": None}, "sdk_version": "0.25.0", "project_id": "proj"}),
        ("CreateModelRequest", "appendix", model | {"user_metadata": {"x": "y"}, "lora_config": {"$type": "LoraConfig", "rank": 8, "seed": 3, "train_mlp": False}}),
        ("OptimStepRequest", "appendix", train | {"seq_id": 2, "adam_params": {"$type": "AdamParams"}}),
        ("OptimStepRequest", "all set", train | {"seq_id": 2, "adam_params": {"$type": "AdamParams", "learning_rate": 1e-5, "beta1": 0, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.1, "grad_clip_norm": 1}}),
        ("LoraConfig", "nothing trained", {"rank": 1, "train_mlp": False, "train_attn": False, "train_unembed": False}),
        ("FutureRetrieveRequest", "appendix", {"request_id": "req-1", "allow_metadata_only": True}),
    ]  # fmt: skip
    event = {"event_id": "e-1", "event_session_index": 0, "severity": "INFO", "timestamp": {"$date": samples.STAMP}}
    for name, moment in {
        "microseconds": "2026-11-15T06:21:47.117530+00:00", "whole second": "2026-11-15T06:21:47+00:00", "offset": "2026-11-15T06:21:47.5+02:00",
        "naive": "2026-11-15T06:21:47.000001", "year one": "0001-01-01T00:00:00+00:00", "year 9999": "9999-12-31T23:59:59.999999+00:00",
        "before the epoch": "1969-12-31T23:59:59.999000+00:00", "odd offset": "2026-11-15T06:21:47-03:30",
    }.items():  # fmt: skip
        cases.append(("SessionStartEvent", f"timestamp {name}", event | {"event": "SESSION_START", "timestamp": {"$date": moment}}))
        cases.append(("GetBillingUsageRequest", f"start {name}", {"starting_on": {"$date": moment}, "ending_before": {"$date": moment}}))
    events = [
        {"$type": "SessionStartEvent", "event": "SESSION_START"} | event,
        {"$type": "SessionEndEvent", "event": "SESSION_END", "duration": "0:00:00.551106"} | event,
        {"$type": "UnhandledExceptionEvent", "event": "UNHANDLED_EXCEPTION", "error_type": "ValueError", "error_message": "bad"} | event,
        {"$type": "UnhandledExceptionEvent", "event": "UNHANDLED_EXCEPTION", "error_type": "E", "error_message": "", "traceback": "line 1\nline 2"} | event,
        {"$type": "GenericEvent", "event": "GENERIC_EVENT", "event_name": "user_error", "event_data": {"message": None, "n": [1, {"deep": None}]}} | event,
    ]
    batch = {"platform": "Linux", "sdk_version": "0.25.0", "session_id": "sess-1", "process_uuid": "p-1"}
    for index, item in enumerate(events):
        cases.append(("TelemetrySendRequest", f"event {index}", batch | {"events": [item]}))
    cases.append(("TelemetrySendRequest", "all events", batch | {"events": events}))
    cases.append(("TelemetryBatch", "all events", batch | {"events": events}))
    return cases


def cases() -> tuple[list[dict[str, object]], list[str]]:
    """Every JSON request case, and the names of those that this release has no types for."""
    recorded, missing = [], []
    for name in sorted(sdk.outgoing_models()):
        recorded += [record(f"{name}/{label}", name, fields) for label, fields in _generated(name)]
    for name, label, fields in _by_hand():
        if (recipe.types_in(fields) | {name}) - set(sdk.TYPES):
            missing.append(f"{name}/{label}")
        else:
            recorded.append(record(f"{name}/{label}", name, fields))
    identifiers = [case["id"] for case in recorded]
    repeated = sorted({i for i in identifiers if identifiers.count(i) > 1})  # type: ignore[type-var]
    if repeated:
        raise ValueError(f"ids used twice: {repeated}")
    return recorded, missing
