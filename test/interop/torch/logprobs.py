"""Log-probs of a model's tokens, and how far they are from others."""

import torch


def logprobs(model, tokens):
    with torch.inference_mode():
        logits = model(input_ids=tokens[None, :-1]).logits[0].float()
    return torch.log_softmax(logits, -1).gather(1, tokens[1:, None])[:, 0]


def difference(got, wanted):
    """The largest difference, relative to the largest of the wanted ones."""
    wanted = torch.as_tensor(wanted)
    return float((got - wanted).abs().max() / wanted.abs().max())
