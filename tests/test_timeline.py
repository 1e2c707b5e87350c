"""The timeline of a recorded run: what is timed, what is counted, the file, and what Perfetto reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from portkit import cli
from portkit.errors import UsageError
from portkit.parity import launch, timeline, trace, training

torch = pytest.importorskip("torch")

SCRIPT = """
import torch
from portkit.runtime import ops

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(32, 64)
        self.second = torch.nn.Linear(64, 16, bias=False)

    def forward(self, x):
        return self.second(ops.silu(self.first(x)))

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(STEPS):
    loss = model(torch.randn(256, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """`portkit record --timeline` of the script, with so many steps: the file and the exit code."""

    def run(steps: int) -> tuple[Path, int]:
        folder = tmp_path_factory.mktemp("timeline")
        (folder / "fit.py").write_text(SCRIPT.replace("STEPS", str(steps)))
        file = folder / "run.trace"
        options = [
            "--root",
            str(folder),
            "--cpu",
            "--steps",
            "3",
            "--no-noise",
            "--timeline",
            "-o",
            str(file),
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PORTKIT_FORCE", "tile")
            code = cli.run(["record", "fit.py", *options])
        launch.close()
        return file, code

    return run


@pytest.fixture(scope="module")
def recorded(record):
    file, code = record(20)
    assert code == 0
    return trace.read(file)


def events(found, kind):
    return [(found["names"][name], depth) for _, name, what, depth, _, _ in found["events"] if what == kind]


def test_steps_modules_operators_and_kernels_lie_in_each_other(recorded):
    found = recorded.run.timeline
    first, count = training.PROFILED
    assert [name for name, _ in events(found, "step")] == [f"step {first + i}" for i in range(count)]
    assert [name for name, _ in events(found, "module")].count("module first") == count
    names = [name for name, _ in events(found, "ours")]
    assert names.count("portkit::silu") == names.count("portkit::silu_backward") == count
    kernels = [name for name, _ in events(found, "kernel")]
    assert len(kernels) == 2 * count
    assert all(name.startswith("kernel silu.") for name in kernels), kernels
    deepest = {
        kind: max(depth for _, depth in events(found, kind)) for kind in ("step", "module", "ours", "kernel")
    }
    assert deepest["step"] == 0 < deepest["module"] < deepest["ours"] < deepest["kernel"]
    assert all(duration >= 0 for *_, duration in found["events"])


def test_the_work_of_a_step_is_counted(recorded):
    rows = {row["name"]: row for row in recorded.run.timeline["operators"]}
    forward, inner = rows["aten::addmm"], rows["aten::mm"]
    assert (forward["calls"], forward["flops"]) == (1, 2 * 256 * 32 * 64)
    assert forward["bytes"] == 4 * (256 * 32 + 32 * 64 + 64 + 256 * 64)
    assert inner["calls"] == 4  # the second layer, and three gradients: the input needs none
    assert inner["flops"] == 2 * (3 * 256 * 64 * 16 + 256 * 32 * 64)
    ours = rows["portkit::silu"]
    assert (ours["calls"], ours["flops"], ours["bytes"]) == (1, 256 * 64, 2 * 4 * 256 * 64)
    assert rows["portkit::silu_backward"]["flops"] >= 256 * 64
    assert all(row["seconds"] > 0 for row in rows.values())
    assert not {"aten::view", "aten::t", "aten::detach", "aten::linear"} & set(rows)  # these move nothing
    assert not any(row["dtype"] == "float64" for row in rows.values())  # nor does what observes


def test_peaks_are_named_after_what_measured_them(recorded):
    found = recorded.run.timeline["peaks"]
    assert {peak["unit"] for peak in found} == {"B/s", "FLOP/s"}
    assert all(peak["rate"] > 0 for peak in found)
    assert any("float32 product" in peak["what"] for peak in found)


def test_perfetto_gets_every_event_and_the_names_of_lanes(recorded):
    found = recorded.run.timeline
    data = json.loads(json.dumps(timeline.perfetto(found, "fit.py"), allow_nan=False))
    drawn = [event for event in data["traceEvents"] if event["ph"] == "X"]
    assert len(drawn) == len(found["events"])
    assert all({"name", "cat", "ts", "dur", "pid", "tid"} <= set(event) for event in drawn)
    named = {event["tid"] for event in data["traceEvents"] if event["name"] == "thread_name"}
    assert {event["tid"] for event in drawn} <= named


def test_a_run_of_few_steps_has_a_short_timeline_or_none(record, capsys):
    file, code = record(2)
    assert code == 0
    assert trace.read(file).run.timeline is None
    assert "no timeline: the script has to make more than 2 optimizer steps" in capsys.readouterr().err
    file, code = record(4)
    found = trace.read(file).run.timeline
    assert (code, found["steps"], found["operators"]) == (0, 2, [])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("raise OSError('disk full')", "OSError: disk full"),
        ("import os; os._exit(0)", "the script has to make more than 2 optimizer steps"),
        ("while True: pass", "it did not end within 6 s"),
    ],
)
def test_a_script_that_ends_while_it_is_profiled_has_no_timeline(more, why, tmp_path):
    text = SCRIPT.replace("STEPS", "9") + f"    if step == 3:\n        {more}\n"
    (tmp_path / "fit.py").write_text(text)
    said: list[str] = []
    script = training.Script(tmp_path, "fit.py", (), {}, "fit")
    made = training.record(script, training.Options(0, 3, 1e-3, 6), timeline=True, progress=said.append)
    launch.close()
    assert not made.run.error
    assert made.run.timeline is None or made.run.timeline["operators"] == []
    assert made.run.timeline is not None or said[-1] == f"no timeline: {why}"


@pytest.mark.parametrize(
    "change",
    [
        {"events": [[0, 0, "step", 0, 0.0]]},
        {"events": [[7, 0, "step", 0, 0.0, 1.0]]},
        {"events": [[0, 0, "other", 0, 0.0, 1.0]]},
        {"events": [[0, 0, "step", 0, 0.0, -1.0]]},
        {"peaks": [{"what": "copy", "unit": "B/s", "dtype": "", "rate": "fast"}]},
        {"operators": [{"name": "x"}]},
        {"names": None},
    ],
)
def test_a_timeline_that_is_not_whole_is_refused(change, recorded, tmp_path):
    whole = {
        **recorded.run.timeline,
        "lanes": ["thread 1"],
        "names": ["x"],
        "events": [[0, 0, "step", 0, 0.0, 1.0]],
    }
    assert timeline.checked(whole) == whole
    assert timeline.checked(None) is None
    with pytest.raises(ValueError, match="timeline"):
        timeline.checked({**whole, **change})


def test_a_trace_with_a_damaged_timeline_is_one_line(recorded, tmp_path):
    from dataclasses import replace

    file = tmp_path / "run.trace"
    broken = replace(recorded.run, timeline={**recorded.run.timeline, "events": [1]})
    trace.write(replace(recorded, run=broken), file)
    with pytest.raises(UsageError, match="is damaged"):
        trace.read(file)
