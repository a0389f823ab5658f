"""The token stream that training reads: all documents end to end, and where each starts. Windows always begin at a
document's start, as prompts do, and run over into the documents that follow."""

import numpy as np
import torch


class Stream:
    """tokens: int16 [n]; starts: int64 [documents], ascending."""

    def __init__(self, tokens: torch.Tensor, starts: torch.Tensor):
        self.tokens, self.starts = tokens, starts

    @staticmethod
    def from_documents(documents: list[np.ndarray], device: str) -> "Stream":
        lengths = np.array([len(document) for document in documents])
        tokens = torch.from_numpy(np.concatenate(documents).astype(np.int16)).to(device)
        return Stream(tokens, torch.from_numpy(np.cumsum(lengths) - lengths).to(device))

    def joined(self, other: "Stream") -> "Stream":
        return Stream(torch.cat([self.tokens, other.tokens]), torch.cat([self.starts, other.starts + len(self.tokens)]))

    def shuffled(self, generator: torch.Generator) -> "Stream":
        """The same documents in another order."""
        device = self.starts.device
        total = torch.tensor([len(self.tokens)], device=device)
        lengths = torch.diff(self.starts, append=total)
        order = torch.randperm(len(lengths), generator=generator, device=device)
        lengths = lengths[order]
        starts = torch.cumsum(lengths, 0) - lengths
        shift = torch.repeat_interleave(self.starts[order] - starts, lengths)
        return Stream(self.tokens[shift + torch.arange(len(shift), device=device)], starts)

    def batches(self, batch: int, length: int, generator: torch.Generator):
        """Endless [batch, length + 1] windows; each pass visits every start once, then the documents change order."""
        stream = self
        device = self.starts.device
        offsets = torch.arange(length + 1, device=device)
        while True:
            starts = stream.starts[stream.starts < len(stream.tokens) - length - 1]
            order = torch.randperm(len(starts), generator=generator, device=device)
            # A pass over the starts would read most tokens several times over; take one window per `length` tokens.
            windows = max(batch, len(stream.tokens) // length)
            for i in range(0, min(windows, len(order)) - batch + 1, batch):
                yield stream.tokens[starts[order[i : i + batch]].unsqueeze(1) + offsets].long()
            stream = stream.shuffled(generator)
