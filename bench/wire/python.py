"""The official SDK's side of the wire bench: prints JSON lists of milliseconds."""

import json
import sys
import time

from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import deserialize_sample_response

response = open(sys.argv[1], "rb").read()
data, length = int(sys.argv[2]), int(sys.argv[3])

plain = [
    (
        [(i * 31 + t * 7) % 150_000 for t in range(length)],
        [(i * 31 + t * 7 + 7) % 150_000 for t in range(length)],
        [0.0 if t % 4 == 0 else 1.0 for t in range(length)],
    )
    for i in range(data)
]


def build_encode() -> None:
    batch = [
        types.Datum(
            model_input=types.ModelInput.from_ints(tokens),
            loss_fn_inputs={"target_tokens": targets, "weights": weights},
        )
        for tokens, targets, weights in plain
    ]
    request = types.ForwardBackwardRequest(
        forward_backward_input=types.ForwardBackwardInput(data=batch, loss_fn="cross_entropy"),
        model_id="s:train:0",
        seq_id=1,
    )
    forward_backward_request_to_proto(request).SerializeToString()


def read_all() -> None:
    for sequence in deserialize_sample_response(response).sequences:
        len(sequence.tokens) + len(sequence.logprobs)


def times(body, repeats: int, warmup: int = 2) -> list[float]:
    for _ in range(warmup):
        body()
    out = []
    for _ in range(repeats):
        start = time.perf_counter()
        body()
        out.append((time.perf_counter() - start) * 1000)
    return out


print(
    json.dumps(
        {
            "build_encode": times(build_encode, 5),
            "lazy": times(lambda: deserialize_sample_response(response), 51, 10),
            "read_all": times(read_all, 15),
        }
    )
)
