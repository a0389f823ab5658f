"""Every number of the run in one place. `SHIPPED` made the weights in packages/base-model; `SECOND` is the mixture for the next
ones, `LARGE` the same with 25M parameters, to measure what size would bring. `tiny` runs the same code through on a CPU in a
minute or two, to try a change before it costs GPU time."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Settings:
    seed: int = 8
    # teacher
    teacher_rounds: int = 40  # of teacher_batch rows of up to 256 tokens
    teacher_batch: int = 8192
    teacher_temperature: float = 0.6
    teacher_min_p: float = 0.06
    prompted_share: float = 0.6  # rows that start from an opening of ours
    openings: int = 8192
    # corpus: documents per domain
    documents: dict[str, int] = field(
        default_factory=lambda: {
            "facts": 70_000, "choices": 90_000, "strings": 90_000, "lists": 60_000, "json": 60_000,
            "numbers": 60_000, "mixed": 70_000, "dialogues": 70_000, "prose": 110_000,
        }
    )
    talk: dict[str, int] = field(default_factory=dict)  # the domains of corpus/talk; empty: none of the second edition's text
    # conversation teacher: rounds of batch rows, two rows to a prompt
    chat_rounds: int = 0
    chat_batch: int = 4096
    chat_window: int = 192
    chat_temperature: float = 0.7
    chat_min_p: float = 0.1
    chat_seconds: float = 200  # no round starts later than this
    tools: bool = False  # the chat template with tools, and its markers as tokens
    heldout_documents: int = 60  # per domain
    vocabulary: int = 4096
    # model
    width: int = 256
    layers: int = 8
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    mlp: int = 704
    context: int = 1024
    # training: a long phase at constant rate without additions, then a short decay with some
    batch: int = 256
    length: int = 512
    stable_steps: int = 6000
    stable_parts: int = 1  # saved after each, so that none takes more than four minutes
    decay_steps: int = 1000
    warmup_steps: int = 150
    rate: float = 6e-3
    weight_decay: float = 0.1
    compiled: bool = True
    # calibration: two decays that differ in the additions they see, (one-digit, two-digit, three-digit), and the share of
    # two-digit sums right at temperature 1 that their blend must have
    few: tuple[int, int, int] = (300, 2_000, 200)
    many: tuple[int, int, int] = (767, 8_629, 862)
    two_digit_target: float = 0.16


SHIPPED = Settings()
SECOND = Settings(
    # fewer stories and drills than before, to make room; the story teacher's sampling is the same
    teacher_rounds=28,
    documents={"facts": 60_000, "choices": 70_000, "strings": 60_000, "lists": 50_000, "json": 40_000, "numbers": 50_000, "mixed": 50_000, "dialogues": 60_000, "prose": 70_000},
    talk={"everyday": 140_000, "writing": 110_000, "schemas": 110_000, "calls": 170_000, "support": 70_000},
    chat_rounds=40, tools=True, stable_steps=9000, stable_parts=2, decay_steps=1500,
)
LARGE = replace(SECOND, width=448, layers=10, heads=8, kv_heads=4, mlp=1216, stable_steps=6000, stable_parts=3, rate=4e-3)
BY_NAME = {"shipped": SHIPPED, "second": SECOND, "large": LARGE}


def tiny(s: Settings) -> Settings:
    """The same stages at the size of a CPU."""
    return replace(
        s, teacher_rounds=1, teacher_batch=48, openings=32,
        documents={name: 400 for name in s.documents}, talk={name: 300 for name in s.talk},
        chat_rounds=min(1, s.chat_rounds), chat_batch=4, chat_window=136, heldout_documents=4, vocabulary=600,
        width=64, layers=2, heads=2, kv_heads=1, head_dim=32, mlp=128,
        batch=8, length=128, stable_steps=60, decay_steps=20, warmup_steps=10, rate=6e-3, compiled=False,
        few=(100, 200, 20), many=(200, 400, 40),
    )


TINY = tiny(SHIPPED)
