"""Wrong rewrites of minigpt, put into a migrated copy as edits that the manifest records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from portkit import manifest
from portkit.files import write_atomically
from portkit.layers import Layer, Patch, replay
from portkit.manifest import EditRecord, FileRecord, Run

TINY = [
    *("--config", "configs/small.yaml", "--device", "cpu", "--num_workers", "0", "--n_layer", "1"),
    *("--n_embd", "16", "--n_head", "2", "--block_size", "16", "--batch_size", "2", "--log_every", "100"),
    *("--warmup", "1", "--attention", "math", "--dropout", "0.1", "--steps", "100"),
]


@dataclass(frozen=True)
class Wrong:
    """One wrong rewrite: what is replaced by what in a file of the migrated tree."""

    name: str
    path: str
    swaps: tuple[tuple[str, str], ...]
    module: str  # whose results differ first
    dtype: str = "float32"


ATTENTION, MODEL, ROTARY = "minigpt/attention.py", "minigpt/model.py", "minigpt/rotary.py"
NORMS, AMP = "minigpt/norms.py", "minigpt/amp.py"
_ROTATED = "rotary(q, self.cosine[{0}], self.sine[{0}])"
_WRONG: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("wrong scale", ATTENTION, "blocks.0.attention", {"math.sqrt(q.size(-1))": "math.sqrt(q.size(1))"}),
    (
        "dropped causal mask", ATTENTION, "blocks.0.attention",
        {'scores.masked_fill(future, float("-inf"))': "scores"},
    ),
    (
        "swapped layout", ATTENTION, "blocks.0.attention.proj",
        {"y.transpose(1, 2).contiguous()": "y.contiguous()"},
    ),
    ("dtype lowered", ROTARY, "blocks.0.attention", {"x.float().chunk": "x.bfloat16().chunk"}),
    ("missing dropout", ATTENTION, "blocks.0.attention", {"F.dropout(weights, dropout)": "weights"}),
    ("wrong epsilon", NORMS, "blocks.0.norm1", {"RMSNorm(width, eps=EPSILON)": "RMSNorm(width)"}),
    (
        "reversed argument", MODEL, "blocks.0.mlp.down",
        {"swiglu(self.gate(x), self.up(x))": "swiglu(self.up(x), self.gate(x))"},
    ),
    ("disabled scaler", AMP, "", {"enabled=dtype == torch.float16": "enabled=dtype is None"}),
    ("wrong reduction", MODEL, "model", {"ignore_index=-1)": 'ignore_index=-1, reduction="sum")'}),
    (
        "off-by-one position", ATTENTION, "blocks.0.attention",
        {
            "angles(config.block_size, ": "angles(config.block_size + 1, ",
            _ROTATED.format(":time"): _ROTATED.format("1 : time + 1"),
        },
    ),
)  # fmt: skip
WRONG = [
    Wrong(name, path, tuple(swaps.items()), module, "float16" if path == AMP else "float32")
    for name, path, module, swaps in _WRONG
]


def plant(root: Path, wrong: Wrong) -> EditRecord:
    """Make a wrong rewrite in a migrated tree, and record it as one more migration."""
    file = root / wrong.path
    before = file.read_bytes()
    text = before.decode()
    assert all(text.count(old) == 1 for old, _ in wrong.swaps), wrong.name
    patches = sorted(_patches(text, wrong), key=lambda patch: patch.start)
    layer = Layer(tuple(patches))
    after = replay(text, [layer]).encode()
    line = text.count("\n", 0, patches[0].start) + 1
    edit = EditRecord("XX001", f"XX001-{wrong.name}", "operator", line, 0, None, wrong.name)
    record = manifest.read(root)
    digest = record.keep(before)
    changed = FileRecord(wrong.path, "python", digest, manifest.sha256(after), None, (edit,), (layer,))
    record.runs.append(Run("0", "operator", "all", False, (changed,)))
    write_atomically(file, after)
    record.save()
    return edit


def _patches(text: str, wrong: Wrong) -> list[Patch]:
    places = [(text.index(old), old, new) for old, new in wrong.swaps]
    return [Patch(at, at + len(old), new, 0) for at, old, new in places]
