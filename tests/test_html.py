"""The HTML page: self-contained, escaped, complete, and honest about what is not resolved."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from portkit import cli, diffs
from portkit.callgraph import Code
from portkit.config import Config
from portkit.engine import ScanResult
from portkit.errors import UsageError
from portkit.finding import Finding, Location, Phase, Support, Unparsed
from portkit.history import Point
from portkit.inventory import Seen, Use
from portkit.parity import trace
from portkit.parity.trace import Run
from portkit.reports import _burndown, _diffs, _proof, _roofline, _timeline, _treemap, _view, html
from portkit.reports._chart import chart
from portkit.requirements import Requirement
from portkit.templating import code

VOID = {"meta", "link", "br", "input", "img", "hr", "line", "polyline"}
EVIL = "</script><img src=x onerror=alert(1)>"


def finding(support=Support.AUTO, phase=Phase.OPERATOR, line=3, path="pkg/train.py", **more):
    where = Location(path, line, 1, line, 5)
    return Finding("PK999", phase, support, where, "`x` is bound", "use `y`", snippet="x = 1", **more)


def result(findings=(), unparsed=()):
    scanned = ScanResult(Path("/somewhere/project"), (".",), Config(), (), list(findings), list(unparsed))
    scanned.kinds, scanned.lines = Counter(python=2), 10
    softmax = Use("torch.nn.functional.softmax", Seen.NAME, 2, None)
    scanned.uses = {EVIL: [softmax, softmax], "b.py": [Use("torch.cat", Seen.NAME, 1, None)]}
    scanned.codes = {"pkg/train.py": Code(functions={EVIL: 3, "main": 9}, uses={"main": {f"={EVIL}"}})}
    scanned.requirements = {EVIL: [Requirement("flash-attn", f"=={EVIL}", 1), Requirement("x" + EVIL, "", 1)]}
    return scanned


class Balanced(HTMLParser):
    """Fails on a tag that is closed without being open, or never closed."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.text = []
        self.attributes = []

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parse(page):
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


METRICS = dict.fromkeys(("max_abs", "max_rel", "rmse", "ulp_max", "ulp_mean", "excess"), 0.25) | {
    "cosine": 1.0
}
PARITY = {
    "rows": [
        {"operator": "softmax", "implementation": "tile", "dtype": "float32", "status": "pass", "reason": "",
         "cases": 3, "metrics": METRICS, "original": METRICS | {"max_abs": 0.5}, "device": "cuda"},
        {"operator": "gelu", "implementation": "tile", "dtype": "float16", "status": "fail",
         "reason": f"too far {EVIL}", "cases": 3, "metrics": METRICS | {"max_abs": "inf"}},
    ],
    "modules": [
        {"module": EVIL, "type": EVIL, "status": "fail", "reason": f"differs {EVIL}", "compared": 3,
         "worst": 2.5, "controls": 1},
        {"module": "blocks.0", "type": "Block", "status": "pass", "reason": "", "compared": 9, "worst": 0.125,
         "controls": 27},
    ],
}  # fmt: skip
TIMELINE = {
    "device": "cuda", "name": EVIL, "threads": 2, "steps": 1, "left": 3,
    "lanes": ["thread 1", EVIL], "names": ["step 2", f"kernel {EVIL}", "aten::mm"],
    "events": [[0, 0, "step", 0, 0.0, 1000.0], [0, 2, "operator", 1, 10.0, 500.0],
               [1, 1, "kernel", 0, 600.0, 300.0]],
    "operators": [
        {"name": "aten::mm", "calls": 2, "seconds": 1e-3, "bytes": 10**6, "flops": 10**8, "dtype": "float32"},
        {"name": f"portkit::{EVIL}", "calls": 1, "seconds": 5e-4, "bytes": 10**6, "flops": 0, "dtype": EVIL},
    ],
    "peaks": [
        {"what": f"copy {EVIL}", "unit": "B/s", "dtype": "", "rate": 4e9},
        {"what": "in a cache", "unit": "B/s", "dtype": "", "rate": 4e10},
        {"what": "product", "unit": "FLOP/s", "dtype": "float32", "rate": 2e11},
    ],
}  # fmt: skip
RECORDED = {"label": EVIL, "script": EVIL, "seconds": 0.5, "timeline": TIMELINE, "perfetto": f"{EVIL}.json"}
RUN = {"losses": [3.0, 2.0, 1.0], "norms": [1.0, 1.0, 1.0], "error": ""}
DISTANCE = {"steps": 3, "max_abs": 0.0, "max_rel": 1e-6, "worst_step": 2}
TRAINING = {
    "status": "pass", "reason": "", "script": EVIL, "labels": ["one", EVIL], "seed": 1, "tolerance": 1e-3,
    "original": RUN, "migrated": RUN | {"losses": [3.0, "nan", 1.0]}, "loss": DISTANCE,
    "gradient_norm": DISTANCE, "controls": ["a lost gradient"],
}  # fmt: skip


def full():
    extras = html.Extras(
        title=EVIL,
        diffs=[("a.py", f"--- a\n+++ b\n@@ -1 +1 @@\n-x\n+{EVIL}\n")],
        rewrites=[finding(line=1, path="a.py", note=EVIL)],
        history=[
            Point("2026-01-01T10:00:00", EVIL, {"operator": {"auto": 3}}, 120, EVIL),
            Point("2026-01-02T10:00:00", "scan", {"operator": {"auto": 1}}, 20),
        ],
        parity=PARITY,
        trainings=[TRAINING],
        runs=[RECORDED, RECORDED | {"label": "plain", "timeline": None}],
        performance={"summary": "ms", "columns": ["run", "ms"], "rows": [["one", EVIL]]},
        steps=[html.Step("Do `this`", EVIL)],
        environment=[("threads", EVIL)],
    )
    found = [finding(support, phase, lossy=True, guard=EVIL) for support in Support for phase in Phase]
    found.append(finding(scope=EVIL, note=EVIL))
    found.append(finding(path=f"{EVIL}/\"x' onclick=alert(1)/a.py"))
    found.append(finding(Support.MANUAL, scope=EVIL, id="1"))
    return html.render(result(found, [Unparsed(EVIL, EVIL, 3)]), extras=extras)


def test_a_full_page_is_well_formed_and_escapes_everything():
    page = full()
    parser = parse(page)
    assert "<img" not in page
    assert page.count("</script>") == 1
    assert not [name for name, _ in parser.attributes if name.startswith("on")]
    assert "".join(parser.text).count("onerror") >= 9


def test_the_original_error_and_the_device_stand_beside_ours():
    row, other = _proof.parity_view(PARITY)["rows"]
    assert row["cells"][:3] == ["2.50e-01", "5.00e-01", "2.50e-01"]
    assert other["cells"][:2] == ["inf", ""]
    assert len(row["cells"]) == len(other["cells"])
    assert "<td>cuda</td>" in full()


def test_nothing_is_loaded_from_elsewhere():
    page = full()
    assert not re.search(r"https?://|url\(|@import|<link|<iframe", page)
    assert {value for name, value in parse(page).attributes if name == "href"} <= {
        "#overview", "#rules", "#findings", "#operators", "#changes", "#parity", "#training", "#performance",
        "#modules", "#environment", "#affected", "#packages", "#map", "#burndown",
    }  # fmt: skip


def test_every_link_has_its_target():
    page = full()
    attributes = parse(page).attributes
    targets = {f"#{value}" for name, value in attributes if name == "id"}
    assert {value for name, value in attributes if name == "href"} <= targets


def test_an_empty_scan_makes_a_page_too():
    page = html.render(result())
    parse(page)
    assert "0 CUDA dependencies" in page
    assert "none" in page


def test_lossy_sites_do_not_count_as_resolved():
    cards = _view.phase_cards([finding(), finding(lossy=True), finding(Support.MANUAL)])
    assert (cards[0]["resolved"], cards[0]["total"], cards[0]["share"]) == (1, 3, "33 %")
    assert "1 manual" in cards[0]["rest"]


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "none"), (999, 1000, "99 %"), (1, 1000, "1 %"), (7, 7, "100 %"), (0, 9, "0 %")],
)
def test_shares_are_never_rounded_to_all_or_nothing(part, whole, text):
    assert _view.percent(part, whole) == text


def test_findings_are_grouped_by_file_and_rule():
    found = [finding(line=9), finding(Support.MANUAL)]
    rows = _view.rule_rows(found, {"PK999": "some_pattern"})
    assert [(row["id"], row["name"], row["count"], row["files"]) for row in rows] == [
        ("PK999", "some pattern", 2, 1)
    ]
    assert [len(group["rows"]) for group in _view.file_groups(found)] == [2]


DIFF = """--- a/a.py
+++ b/a.py
@@ -1,4 +1,3 @@
 import torch
-x.cuda()
--- not the name of a file
+x.to(d)
{}
@@ -9 +8,2 @@
 y
+z
""".format(" ")


def test_diffs_have_two_columns_and_notes():
    note = {"rule": "PK302", "support": "review", "remedy": "Do.", "note": "It differs."}
    (file,) = _diffs.files([("a.py", DIFF), ("same.py", "")], {"a.py": {2: [note]}})
    assert (file["added"], file["removed"]) == (2, 2)
    rows = [(row["kind"], row.get("left"), row.get("right")) for row in file["rows"]]
    assert rows == [
        ("same", (1, "import torch"), (1, "import torch")),
        ("change", (2, "x.cuda()"), (2, "x.to(d)")),
        ("change", (3, "-- not the name of a file"), None),
        ("note", None, None),
        ("same", (4, ""), (3, "")),
        ("gap", None, None),
        ("same", (9, "y"), (8, "y")),
        ("change", None, (9, "z")),
    ]


def test_the_treemap_covers_the_drawing_without_overlap():
    found = [
        finding(path=f"{folder}/f{number}.py", support=Support.MANUAL)
        for folder, count in (("a", 40), ("b/c", 25), ("d", 9), ("e", 1))
        for number in range(count)
    ]
    cells = _treemap.treemap(found)
    assert sum(cell["count"] for cell in cells) == len(found)
    boxes = [[float(n) for n in re.findall(r"[\d.]+(?=%)", cell["style"])] for cell in cells]
    assert sum(w * h for _, _, w, h in boxes) == pytest.approx(10_000, rel=1e-3)
    for cell, (x, y, w, h) in zip(cells, boxes, strict=True):
        assert w * h == pytest.approx(10_000 * cell["count"] / len(found), rel=1e-2)
        assert min(x, y) >= 0
        assert max(x + w, y + h) <= 100.01
    for (x, y, w, h), (p, q, v, g) in itertools.combinations(boxes, 2):
        assert x + w <= p + 0.01 or p + v <= x + 0.01 or y + h <= q + 0.01 or q + g <= y + 0.01


def test_a_folder_of_many_small_files_does_not_keep_others_whole():
    many = [finding(path=f"tests/t{number}.py") for number in range(300)]
    two = [finding(path=f"src/{part}/x.py") for part in ("a", "b") for _ in range(100)]
    cells = [(cell["name"], cell["count"]) for cell in _treemap.treemap([*many, *two])]
    assert cells == [("tests/", 300), ("src/a/x.py", 100), ("src/b/x.py", 100)]


def test_what_is_portable_has_no_place_in_the_treemap():
    assert _treemap.treemap([finding(support=Support.PORTABLE)]) == []


def test_the_burndown_draws_what_was_counted():
    counts = {"operator": {"auto": 3}, "module": {"manual": 1}}
    points = [
        Point("2026-01-01T10:00:00", "scan", counts, 120),
        Point("2026-01-02T10:00:00", "parity", None, None, "2 passed"),
        Point("2026-01-03T10:00:00", "migrate", {"module": {"manual": 1}}, 60),
    ]
    shown = _burndown.burndown(points)
    assert shown is not None
    assert "4 findings and 2.0 h of effort left at first, 1 and 1.0 h now" in shown["summary"]
    assert [len(one.lines[0].points.split()) for one in shown["charts"]] == [2, 2]
    assert [(row["event"], row["left"]) for row in shown["rows"]] == [
        ("migrate", "1"),
        ("parity", ""),
        ("scan", "4"),
    ]
    assert _burndown.burndown([points[1]]) is None


def test_chart_keeps_points_inside_and_skips_what_is_not_finite():
    drawing = chart("Loss", [[3.0, 2.0, float("nan"), 1.0], [3.0, 2.5, 1.5, 1.1]])
    points = [tuple(map(float, p.split(","))) for line in drawing.lines for p in line.points.split()]
    assert len(points) == 7
    assert all(drawing.left <= x <= drawing.right and 0 <= y <= drawing.bottom for x, y in points)
    assert chart("Loss", [[], [float("nan")]]) is None


@pytest.mark.parametrize("curve", [[5.0], [0.0, 0.0], [-1e-9, 1e-9], [1e12, 3e12], [2.0, 2.0, 2.0]])
def test_chart_axes_enclose_the_data(curve):
    ticks = [float(tick.text) for tick in chart("x", [curve]).y_ticks]
    assert ticks[0] <= min(curve)
    assert ticks[-1] >= max(curve)
    assert len(ticks) >= 2


def test_code_marks_up_what_stands_between_backticks():
    assert code("use `a < b` now") == "use <code>a &lt; b</code> now"


def test_a_timeline_lies_within_its_width_and_names_everything():
    drawn = _timeline.timeline(TIMELINE)
    assert [(lane["name"], lane["rows"]) for lane in drawn["lanes"]] == [("thread 1", 2), (EVIL, 1)]
    bars = [bar for lane in drawn["lanes"] for bar in lane["bars"]]
    boxes = [[float(n) for n in re.findall(r"([\d.]+)%", bar["style"])] for bar in bars]
    assert boxes == [[0, 100], [1, 50], [60, 30]]
    assert "aten::mm: 500 µs, from 0.010 ms" in {bar["label"] for bar in bars}
    assert "3 shorter ones were not recorded" in drawn["summary"]
    assert [(row["launches"], row["share"]) for row in drawn["kernels"]] == [(1, "100.0 %")]
    many = TIMELINE | {"events": [[0, 2, "operator", 0, float(i), 1.0] for i in range(5000)]}
    assert "The 1,500 longest of 5,000" in _timeline.timeline(many)["summary"]
    assert _timeline.timeline(TIMELINE | {"events": []}) is None


def test_a_roofline_has_every_operator_under_its_roof():
    found = _roofline.roofline(TIMELINE)
    first, second = found["rows"]
    assert (first["bytes"], first["flops"], first["intensity"]) == ("1 GB/s", "100 GFLOP/s", "100")
    assert first["roof"] == "50 %"  # of the product: 100 FLOP a byte at 4 GB/s would be 400 GFLOP/s
    assert (second["bytes"], second["flops"], second["roof"]) == ("2 GB/s", "", "50 %")  # of the copy
    drawn = found["drawing"]
    assert [point.number for point in drawn["points"]] == [1]
    level = next(roof for roof in drawn["roofs"] if roof.kind == "product")
    assert drawn["points"][0].y > float(level.points.split()[0].partition(",")[2])  # y grows downwards
    places = [tuple(map(float, p.split(","))) for roof in drawn["roofs"] for p in roof.points.split()]
    assert all(_roofline.LEFT <= x <= _roofline.RIGHT + 1 for x, _ in places)
    assert all(_roofline.TOP - 1 <= y <= _roofline.BOTTOM + 1 for _, y in places)
    assert _roofline.roofline(TIMELINE | {"operators": []}) is None
    assert _roofline.roofline(None) is None


@pytest.mark.parametrize(("flops", "seconds"), [(1, 1e-9), (10**18, 1e3), (7, 1e2)])
def test_a_roofline_draws_any_size(flops, seconds):
    row = {"name": "x", "calls": 1, "seconds": seconds, "bytes": 3, "flops": flops, "dtype": "float32"}
    (point,) = _roofline.roofline(TIMELINE | {"operators": [row]})["drawing"]["points"]
    assert _roofline.LEFT <= point.x <= _roofline.RIGHT
    assert _roofline.TOP <= point.y <= _roofline.BOTTOM


@pytest.mark.parametrize(("tolerance", "text"), [(1e-3, "tolerance 0.001."), (None, "tolerance as rounding")])
def test_a_run_says_its_tolerance(tolerance, text):
    assert text in _proof.training_view(TRAINING | {"tolerance": tolerance})["summary"]


def test_changes_between_trees_are_files_of_both_that_differ(tmp_path):
    for kind, text in (("a", "x\n"), ("b", "y\n")):
        (tmp_path / kind / ".git").mkdir(parents=True)
        for name, content in (("same.py", "s\n"), ("other.py", text), (".git/HEAD", text)):
            (tmp_path / kind / name).write_text(content)
    (tmp_path / "b" / "new.py").write_text("n\n")
    ((name, text),) = diffs.between(tmp_path / "a", tmp_path / "b")
    assert name == "other.py"
    assert "-x\n+y\n" in text
    with pytest.raises(UsageError, match="no such folder"):
        diffs.between(tmp_path / "missing", tmp_path / "b")


def test_report_puts_scan_changes_and_parity_on_one_page(tmp_path, capsys):
    before, after, page = tmp_path / "before", tmp_path / "after", tmp_path / "page.html"
    for folder, text in ((before, "torch.zeros(3).cuda()"), (after, "torch.zeros(3)")):
        folder.mkdir()
        (folder / "train.py").write_text(f"import torch\n\nx = {text}\n")
    file = tmp_path / "parity.json"
    found = {"schema_version": 1, "kind": "portkit-parity", **PARITY, "training": TRAINING}
    file.write_text(json.dumps(found))
    other = tmp_path / "modules.json"
    other.write_text(json.dumps(found | {"rows": [], "training": None}))
    run = Run((1.0,), (1.0,), "", seconds=0.25, timeline=TIMELINE)
    trace.write(trace.Trace("train.py", (), 0, run), tmp_path / "run.trace")
    options = ["--original", str(before), "--parity", str(file), "--parity", str(other)]
    options += ["--trace", str(tmp_path / "run.trace"), "--output", str(page)]
    assert cli.run(["report", str(after), *options]) == 0
    text = page.read_text()
    parse(text)
    for part in (
        'id="changes"',
        'id="parity"',
        'id="modules"',
        'id="training"',
        'id="performance"',
        "train.py",
    ):
        assert part in text
    perfetto = json.loads((tmp_path / "page.run.perfetto.json").read_text())
    assert len(perfetto["traceEvents"]) == 3 + 1 + 2 * 2
    assert cli.run(["report", str(after), "--trace", str(file), "--output", str(page)]) == 2
    assert "The trace is no trace" in capsys.readouterr().err
    assert cli.run(["report", str(after), "--parity", str(page), "--output", str(page)]) == 2
    assert "no parity report" in capsys.readouterr().err


def test_scan_migrate_and_gate_are_in_the_history_that_the_report_draws(tmp_path, capsys):
    repository = tmp_path / "r"
    (repository / ".portkit").mkdir(parents=True)
    (repository / "a.py").write_text("import torch\n\nx = torch.zeros(3).cuda()\n")
    (repository / "portkit.toml").write_text("[gate]\ncoverage = { full-model = 100 }\n")
    assert cli.run(["scan", str(repository)]) == 0
    assert cli.run(["migrate", str(repository), "--phase", "full-model", "--write"]) == 0
    assert cli.run(["gate", str(repository)]) == 0
    assert cli.run(["report", str(repository), "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    rows = re.findall(
        r"<td class=\"nowrap\">[\d: -]+</td><td>(\w+)</td><td class=\"number\">(\d*)</td>", page
    )
    assert rows == [("gate", "0"), ("migrate", "0"), ("scan", "1")]
    assert "1 finding and" in page
