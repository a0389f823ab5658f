"""Makes the base model from nothing but the packed teacher: stories, corpus, tokenizer, training, calibration, evaluation,
export. Each stage leaves its result in the work folder and is skipped when that is there, so a run that was cut short goes
on where it stopped. `python pretrain.py --teacher FILE --work FOLDER --out FOLDER` does it all; about eight minutes on one H200.
`--settings second --chat-teacher GGUF` makes the second edition (NEXT.md)."""

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import random
import tarfile
import time
from dataclasses import asdict, replace
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

import chats
import contamination
import evaluate
import tokenizer as bpe
from corpus import documents as corpus
from corpus import stories, talk
from corpus.exchange import split_of
from settings import BY_NAME, SHIPPED, Settings, tiny
from stream import Stream
from teacher import Pieces, Teacher, first_end
from model import reference
from overlap import grams, overlap
from train import Trainer

BEGAN = time.monotonic()
PIECES: Pieces | None = None  # set before the pool forks, so that workers share it
CODER: Tokenizer | None = None
# How to sample unless told otherwise: at 0.6 the stories hold together best.
GENERATION = {"do_sample": True, "eos_token_id": [evaluate.IM_END_ID, evaluate.END_OF_TEXT_ID], "pad_token_id": evaluate.END_OF_TEXT_ID, "temperature": 0.6}
CONFIGS = ("config.json", "generation_config.json", "special_tokens_map.json", "tokenizer_config.json")


def say(*words: object) -> None:
    print(f"[{time.monotonic() - BEGAN:5.0f}s]", *words, flush=True)


# ---- work for the pool -------------------------------------------------------------------------------------------------


def clean_rows(rows: np.ndarray) -> list[str]:
    """Finished rows of the teacher as tidy stories."""
    ends = first_end(rows)
    texts = (stories.clean(PIECES.decode(row[:end])) for row, end in zip(rows, ends) if end < rows.shape[1])
    return [text for text in texts if text]


def encode_opening(job: tuple[int, int]) -> list[int]:
    return PIECES.encode(corpus.opening(*job))


def write_stories(job: tuple[int, list[str]]) -> list[str]:
    seed, texts = job
    rng = random.Random(f"stories:{seed}")
    return [stories.document(text, rng) for text in texts]


def encode(job: tuple[str, list[str]]) -> list[np.ndarray]:
    global CODER
    path, texts = job
    if CODER is None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        CODER = Tokenizer.from_file(path)
    return [np.array(e.ids + [evaluate.END_OF_TEXT_ID], dtype=np.int16) for e in CODER.encode_batch_fast(texts)]


def chunks(items: list, size: int) -> list[list]:
    return [items[i : i + size] for i in range(0, len(items), size)]


# ---- stages ------------------------------------------------------------------------------------------------------------


def make_texts(s: Settings, work: Path, teacher_file: Path, chat_teacher: Path | None, pool, device: str) -> tuple[list[str], dict[str, list[str]]]:
    """(training documents in a fixed random order, held-out documents per domain)"""
    shards = [(write, domain, count) for write, counts in ((corpus.shard, s.documents), (talk.shard, s.talk)) for domain, count in counts.items()]
    waiting = []
    for write, domain, count in shards:
        waiting += [pool.apply_async(write, (domain, s.seed * 1000 + i, min(5000, count - 5000 * i), "train")) for i in range(math.ceil(count / 5000))]
    heldout = {domain: write(domain, s.seed, s.heldout_documents, "heldout") for write, domain, _ in shards}
    heldout["additions"] = corpus.additions(s.seed, 0, 2 * s.heldout_documents, 0, "heldout")
    told = tell_stories(s, work, teacher_file, pool, device)
    held = [text for text in told if stories.split_story(text) == "heldout"]
    heldout = {"stories": held[: s.heldout_documents], **heldout}
    kept = [text for text in told if stories.split_story(text) == "train"]
    written = pool.map(write_stories, list(enumerate(chunks(kept, 5000))))
    texts = [text for part in written for text in part]
    synthetic = [text for job in waiting for text in job.get()]
    texts += list(dict.fromkeys(synthetic))
    if s.chat_rounds:
        if chat_teacher is None:
            raise SystemExit("these settings need --chat-teacher GGUF: see NEXT.md for how to fetch it")
        said = chats.teach(chat_teacher, work / "chats", seed=s.seed, rounds=s.chat_rounds, batch=s.chat_batch, window=s.chat_window, temperature=s.chat_temperature, min_p=s.chat_min_p, seconds=s.chat_seconds, device=device, say=say)
        heldout["chats"] = [text for text in said if split_of("chat:" + text) == "heldout"][: s.heldout_documents]
        texts += [text for text in said if split_of("chat:" + text) == "train"]
    if s.talk:
        clean = [text for part in pool.map(contamination.without, chunks(texts, 4000), chunksize=1) for text in part]
        say(f"{len(texts) - len(clean)} of {len(texts)} documents contain a prompt of the evaluation and are left out")
        texts = clean
    known = set(texts)
    heldout = {domain: [text for text in dict.fromkeys(held) if text not in known] for domain, held in heldout.items()}
    random.Random(s.seed).shuffle(texts)
    say(f"{len(texts)} documents, {sum(map(len, texts)) / 1e6:.0f}M characters, synthetic {len(synthetic)}")
    return texts, heldout


def tell_stories(s: Settings, work: Path, teacher_file: Path, pool, device: str) -> list[str]:
    """The story teacher's finished, tidy stories without repeats; kept in the work folder."""
    file = work / "stories.json"
    if file.exists():
        return json.loads(file.read_text())
    torch.manual_seed(s.seed)
    teacher = Teacher(teacher_file, s.teacher_batch, device, s.teacher_temperature, s.teacher_min_p)
    rng = np.random.default_rng(s.seed)
    openings = pool.map(encode_opening, [(s.seed, i) for i in range(s.openings)], chunksize=64)
    cleaning = []
    for round_ in range(s.teacher_rounds):
        prompts = np.full((s.teacher_batch, 32), -1, dtype=np.int64)
        for row in np.flatnonzero(rng.random(s.teacher_batch) < s.prompted_share):
            ids = openings[rng.integers(len(openings))][:32]
            prompts[row, : len(ids)] = ids
        rows = teacher.sample(prompts)
        cleaning += [pool.apply_async(clean_rows, (part,)) for part in np.array_split(rows, 16)]
        if round_ in (0, s.teacher_rounds - 1):
            say("teacher round", round_ + 1, "of", s.teacher_rounds)
    del teacher
    told = list(dict.fromkeys(text for job in cleaning for text in job.get()))
    say(f"kept {len(told)} of {s.teacher_rounds * s.teacher_batch} stories, {sum(map(len, told)) / 1e6:.0f}M characters")
    print("SAMPLE:", told[0], flush=True)
    file.write_text(json.dumps(told))
    return told


def encode_all(texts: list[str], tokenizer_file: Path, pool) -> list[np.ndarray]:
    parts = pool.map(encode, [(str(tokenizer_file), part) for part in chunks(texts, 4000)], chunksize=1)
    return [ids for part in parts for ids in part]


def save_data(work: Path, documents: list[np.ndarray], heldout: dict, seen: torch.Tensor) -> None:
    np.save(work / "lengths.npy", np.array([len(d) for d in documents], dtype=np.int32))
    np.save(work / "grams.npy", seen.cpu().numpy())
    (work / "heldout.json").write_text(json.dumps(heldout, indent=1))
    np.save(work / "tokens.npy", np.concatenate(documents))


def load_stream(work: Path, device: str) -> Stream:
    lengths = np.load(work / "lengths.npy").astype(np.int64)
    return Stream(torch.from_numpy(np.load(work / "tokens.npy")).to(device), torch.from_numpy(np.cumsum(lengths) - lengths).to(device))


def shipped_model(s: Settings, state: dict, device: str):
    """The weights as they will be shipped: rounded to bf16, computed in float32."""
    model = reference(s, device)
    rounded = {name: tensor.bfloat16().float() for name, tensor in state.items()}
    model.load_state_dict({**rounded, "lm_head.weight": rounded["model.embed_tokens.weight"]})
    return model


def decays(s: Settings, trainer: Trainer, stable: dict, base: Stream, tokenizer_file: Path, pool, device: str, work: Path, curve: list) -> None:
    """Two decays from the same point and over the same text, but for the additions in it: `few` must end below the wanted
    share of right two-digit sums and `many` above it. Training is not the same to the last bit twice and carrying is learned
    all at once, so a decay that lands on the wrong side is done again with half, or twice, the additions."""
    coder = Tokenizer.from_file(str(tokenizer_file))
    for name, counts, factor in (("few", s.few, 0.5), ("many", s.many, 2)):
        if (work / f"{name}.safetensors").exists():
            continue
        for _ in range(3):
            extra = Stream.from_documents(encode_all(corpus.additions(s.seed, *counts), tokenizer_file, pool), device)
            stream = base.joined(extra).shuffled(torch.Generator(device).manual_seed(s.seed + 3))
            rows: list[dict] = []
            trainer.restore(stable)
            trainer.decay(stream, lambda row: rows.append({"phase": name, **row}))
            weights = {key: tensor.detach().to("cpu", torch.bfloat16).clone() for key, tensor in trainer.model.state_dict().items()}
            right = evaluate.chance(shipped_model(s, weights, device), coder, evaluate.pairs(2, 1000, 1))
            passes = s.decay_steps * s.batch * s.length / len(stream.tokens)
            say("decay", name, rows[-1], {"additions": counts, "passes": round(passes, 2), "two_digit": round(right, 4)})
            if (right < s.two_digit_target) == (name == "few"):
                break
            counts = tuple(round(factor * count) for count in counts)
        curve += rows
        (work / "curve.json").write_text(json.dumps(curve))
        save_file(weights, str(work / f"{name}.safetensors"), {"format": "pt", "additions": json.dumps(counts), "two_digit": str(right)})


def blend(s: Settings, work: Path, tokenizer_file: Path, device: str) -> tuple[dict[str, torch.Tensor], list[dict]]:
    """The point between the two decays where two-digit sums come out right as often as wanted.

    How many sums a decay saw is a poor dial: learning to carry happens at once, and 4,000 or 4,100 of them can be the
    difference between 3 % and 26 %. Between two decays of one parent the skill changes smoothly, so the dial is there."""
    few, many = load_file(str(work / "few.safetensors")), load_file(str(work / "many.safetensors"))
    coder = Tokenizer.from_file(str(tokenizer_file))
    low, high, tried = 0.0, 1.0, []
    for _ in range(7):
        share = round((low + high) / 2, 4)
        weights = {name: torch.lerp(few[name].float(), many[name].float(), share).bfloat16() for name in few}
        right = evaluate.chance(shipped_model(s, weights, device), coder, evaluate.pairs(2, 1000, 1))
        tried.append({"share_of_many": share, "two_digit": round(right, 4)})
        low, high = (share, high) if right < s.two_digit_target else (low, share)
        if abs(right - s.two_digit_target) < 0.01:
            break
    return weights, tried


def main() -> None:
    global PIECES
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--settings", choices=list(BY_NAME), default="shipped", help="which settings (%(default)s: those of the weights in packages/base-model)")
    parser.add_argument("--chat-teacher", type=Path, help="the GGUF file of the conversation teacher")
    parser.add_argument("--tiny", action="store_true", help="the same code on a CPU in a minute or two")
    parser.add_argument("--seed", type=int, default=SHIPPED.seed, help="another seed is another corpus and another model (%(default)s made the shipped one)")
    options = parser.parse_args()
    chosen = BY_NAME[options.settings]
    s, work, out = replace(tiny(chosen) if options.tiny else chosen, seed=options.seed), options.work, options.out
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)

    with safe_open(str(options.teacher), "pt") as file:
        lengths, data, scores = (file.get_tensor(name) for name in ("piece_lengths", "piece_bytes", "piece_scores"))
    PIECES = Pieces(lengths.tolist(), data.numpy().tobytes(), scores.tolist())
    pool = multiprocessing.get_context("fork").Pool(min(16, os.cpu_count() or 1))  # before CUDA starts
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    say("device", torch.cuda.get_device_name() if device == "cuda" else "cpu", "torch", torch.__version__)

    tokenizer_file = work / "tokenizer.json"
    if not (work / "tokens.npy").exists():
        texts, heldout = make_texts(s, work, options.teacher, options.chat_teacher, pool, device)
        bpe.train(texts[:: max(1, len(texts) // 80_000)], s.vocabulary, s.tools).save(str(tokenizer_file))
        say("tokenizer")
        documents = encode_all(texts, tokenizer_file, pool)
        say(f"encoded {sum(map(len, documents)) / 1e6:.1f}M tokens")
        seen = torch.from_numpy(np.concatenate(pool.map(grams, chunks(texts, 8000), chunksize=1))).to(device).unique()
        save_data(work, documents, heldout, seen)
        say(f"saved; {len(seen) / 1e6:.0f}M distinct 8-grams")
        del texts, documents, seen
    stream = load_stream(work, device)
    curve: list[dict] = []

    trainer = Trainer(s, device)
    say(f"{sum(p.numel() for p in trainer.model.parameters()) / 1e6:.2f}M parameters")
    last = s.stable_parts - 1
    state_of = lambda part: work / ("stable.pt" if part == last else f"stable-{part}.pt")
    for part in range(s.stable_parts):
        if state_of(last).exists() or state_of(part).exists():
            continue
        if part > 0:
            trainer.restore(torch.load(state_of(part - 1), map_location=device))
            curve = json.loads((work / "curve.json").read_text())
        trainer.stable(stream, part, lambda row: (curve.append({"phase": "stable", **row}), say(row) if len(curve) % 5 == 1 else None))
        torch.save(trainer.state(), state_of(part))
        (work / "curve.json").write_text(json.dumps(curve))
        say("stable phase done" if part == last else f"part {part + 1} of {s.stable_parts} of the stable phase done", curve[-1])
    curve = json.loads((work / "curve.json").read_text())
    stable = torch.load(work / "stable.pt", map_location=device)
    decays(s, trainer, stable, stream, tokenizer_file, pool, device, work, curve)
    weights, tried = blend(s, work, tokenizer_file, device)
    say("blend", tried)
    export(s, work, out, weights, tried, curve, device)
    pool.terminate()
    say("done")


def export(s: Settings, work: Path, out: Path, weights: dict, tried: list[dict], curve: list[dict], device: str) -> None:
    """Evaluates the model and writes what comes back: the weights, the tokenizer, both decays, one archive of the rest."""
    save_file(weights, str(out / "model.safetensors"), {"format": "pt"})
    model = shipped_model(s, weights, device)
    coder = Tokenizer.from_file(str(work / "tokenizer.json"))
    heldout = json.loads((work / "heldout.json").read_text())
    results = evaluate.evaluate(model, coder, heldout)
    seen = np.load(work / "grams.npy")
    results["overlap"] = {"stories": overlap(results["stories"], seen), "heldout_stories": overlap(heldout["stories"], seen)}
    results["blend"], results["settings"] = tried, asdict(s)
    tokens = np.load(work / "tokens.npy")
    results["corpus"] = {"tokens": len(tokens), "grams": len(seen), "sha256": hashlib.sha256(tokens.tobytes()).hexdigest()}
    for name in ("few", "many"):
        (out / f"{name}.safetensors").write_bytes((work / f"{name}.safetensors").read_bytes())
    (out / "tokenizer.json").write_bytes((work / "tokenizer.json").read_bytes())
    model.config.save_pretrained(work / "config")
    config = json.loads((work / "config" / "config.json").read_text())
    (work / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16", "rope_theta": 10000.0, "architectures": ["Qwen3ForCausalLM"]}, indent=2) + "\n")
    bpe.write_config(work, s.context, s.tools)
    (work / "generation_config.json").write_text(json.dumps(GENERATION, indent=2) + "\n")
    (work / "results.json").write_text(json.dumps(results, indent=1))
    (work / "curve.json").write_text(json.dumps(curve))
    with tarfile.open(out / "rest.tar.gz", "w:gz") as archive:
        for name in (*CONFIGS, "results.json", "curve.json", "heldout.json"):
            archive.add(work / name, name)
    say({key: results[key] for key in ("heldout", "additions", "chat_form", "repetition", "overlap", "corpus")})
    for text in results["stories"][:4]:
        print("STORY:", text, flush=True)


if __name__ == "__main__":
    main()
