"""Report formats for other programs: that what they say can be read back, whatever names and texts hold."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from markdown_it import MarkdownIt
from toy_rules import TOYS

from portkit import engine, reports
from portkit.cli import run
from portkit.config import Config
from portkit.finding import Finding, Location, Phase, Support, Suppressed, Unparsed
from portkit.reports import markdown

NASTY = "a|b `c` <img src=x> &amp; *d* __e__ [f](g) @everyone #12 ~~h~~ \\ %0A ::error::x, y\nz 😀"
LEVELS = {"portable": "none", "auto": "note", "review": "warning", "unknown": "warning", "manual": "error"}


def finding(path: str = "a.py", support: Support = Support.MANUAL, **other: Any) -> Finding:
    where = other.pop("location", Location(path, 3, 5, 3, 9))
    other.setdefault("message", "It is CUDA")
    return Finding("PK901", Phase.MODULE, support, where, remedy="Move it.", id="abc", **other)


def result(*findings: Finding, root: Path = Path("/nowhere"), **other: Any) -> engine.ScanResult:
    found = engine.ScanResult(root, (".",), Config(), TOYS, findings=list(findings), **other)
    found.kinds["python"] = 1
    return found


# --- SARIF -------------------------------------------------------------------------------------------


def sarif(scanned: engine.ScanResult) -> dict[str, Any]:
    data = json.loads(reports.render("sarif", scanned))
    check_sarif(data)
    run_: dict[str, Any] = data["runs"][0]
    return run_


def check_sarif(data: dict[str, Any]) -> None:
    """What the standard asks of the parts that we write."""
    assert data["version"] == "2.1.0"
    assert data["$schema"].endswith("sarif-schema-2.1.0.json")
    for one in data["runs"]:
        driver = one["tool"]["driver"]
        assert driver["name"] == "portkit"
        ids = [rule["id"] for rule in driver["rules"]]
        assert len(ids) == len(set(ids))
        for rule in driver["rules"]:
            assert all(rule[key]["text"].strip() for key in ("shortDescription", "fullDescription", "help"))
        for notification in one["invocations"][0].get("toolExecutionNotifications", []):
            descriptor = notification["descriptor"]
            assert driver["notifications"][descriptor["index"]]["id"] == descriptor["id"]
            _check_location(notification["locations"][0], one)
        for item in one["results"]:
            assert driver["rules"][item["ruleIndex"]]["id"] == item["ruleId"]
            assert item["level"] in ("none", "note", "warning", "error")
            assert (item["kind"] == "fail") == (item["level"] != "none"), "only failures have a level"
            assert item["message"]["text"].strip()
            assert all(isinstance(value, str) and value for value in item["partialFingerprints"].values())
            _check_location(item["locations"][0], one)
            assert all(item["kind"] == "inSource" for item in item.get("suppressions", []))


def _check_location(location: dict[str, Any], one: dict[str, Any]) -> None:
    artifact = location["physicalLocation"]["artifactLocation"]
    assert re.fullmatch(r"(?:[\w.~/()-]|%[0-9A-F]{2})+", artifact["uri"], re.ASCII), artifact
    assert artifact.get("uriBaseId", "SRCROOT") in one["originalUriBaseIds"]
    region = location["physicalLocation"].get("region")
    if region is not None:
        assert 1 <= region["startLine"] <= region.get("endLine", region["startLine"])
        assert region.get("startColumn", 1) >= 1


@pytest.mark.parametrize("support", list(Support))
def test_sarif_levels_follow_support(support: Support) -> None:
    one = sarif(result(finding(support=support)))
    assert one["results"][0]["level"] == LEVELS[support.value]


def test_sarif_carries_the_id_the_place_and_the_function() -> None:
    item = sarif(result(finding(scope="Trainer.step")))["results"][0]
    assert list(item["partialFingerprints"].values()) == ["abc"]
    location = item["locations"][0]
    region = location["physicalLocation"]["region"]
    assert region == {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 9}
    assert location["logicalLocations"] == [{"name": "step", "fullyQualifiedName": "Trainer.step"}]


def test_sarif_counts_columns_in_code_points_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('s = "😀"; x.cuda()\n', encoding="utf-8")
    one = sarif(engine.scan([tmp_path], rules=TOYS))
    assert one["columnKind"] == "unicodeCodePoints"
    region = one["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert (region["startColumn"], region["endColumn"]) == (10, 18)


@pytest.mark.parametrize("name", ["a b.py", "ü/ä%20.py", "c:d?.py", "#[x].py", os.fsdecode(b"\xff.py")])
def test_sarif_percent_encodes_paths(name: str) -> None:
    artifact = sarif(result(finding(name)))["results"][0]["locations"][0]["physicalLocation"]
    uri = artifact["artifactLocation"]["uri"]
    assert os.fsdecode(unquote_to_bytes(uri)) == name


def test_sarif_keeps_suppressed_findings_with_their_reason() -> None:
    kept = [Suppressed(finding(), "known"), Suppressed(finding("b.py"), "")]
    items = sarif(result(finding("c.py"), suppressed=kept))["results"]
    assert "suppressions" not in items[0]
    assert items[1]["suppressions"] == [{"kind": "inSource", "status": "accepted", "justification": "known"}]
    assert items[2]["suppressions"] == [{"kind": "inSource", "status": "accepted"}]


def test_sarif_notifies_of_files_that_were_not_parsed() -> None:
    bad = [Unparsed("a b.py", "is not Python", 3, 4), Unparsed("c.py", "cannot be read")]
    notes = sarif(result(unparsed=bad))["invocations"][0]["toolExecutionNotifications"]
    assert [note["message"]["text"].split(".")[0] for note in notes] == ["a b", "c"]
    place = notes[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b.py"
    assert place["region"] == {"startLine": 3, "startColumn": 4}
    assert "region" not in notes[1]["locations"][0]["physicalLocation"]


def test_sarif_of_every_rule_and_fixture() -> None:
    folder = Path(__file__).parent.parent / "fixtures"
    one = sarif(engine.scan([folder], jobs=1))
    assert len(one["results"]) > 300
    assert len({item["ruleId"] for item in one["results"]}) > 20
    helps = [rule["help"]["markdown"] for rule in one["tool"]["driver"]["rules"]]
    assert all("**Instead:**" in text for text in helps)


# --- notebooks: lines of the JSON text ---------------------------------------------------------------


def notebook(*sources: object) -> str:
    cells = [{"cell_type": "markdown", "source": "words"}] + [
        {"cell_type": "code", "outputs": [], "source": source} for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


@pytest.mark.parametrize(
    "source",
    [["import torch\n", "x.cuda()\n"], ["import torch\nx.cuda()"], ["imp", "ort torch\n", "x", ".cuda()"]],
)
def test_a_place_in_a_notebook_is_a_line_of_its_file(tmp_path: Path, source: list[str]) -> None:
    text = notebook("a = 1", source)
    (tmp_path / "n.ipynb").write_text(text)
    scanned = engine.scan([tmp_path], rules=TOYS)
    assert [(item.location.cell, item.location.line) for item in scanned.findings] == [(1, 2)]
    region = sarif(scanned)["results"][0]["locations"][0]["physicalLocation"]["region"]
    where = source.index("x") if "x" in source else len(source) - 1
    wanted = next(n for n, line in enumerate(text.splitlines(), 1) if json.dumps(source[where]) in line)
    assert region == {"startLine": wanted, "endLine": wanted}
    assert f"file=n.ipynb,line={wanted},endLine={wanted},title=" in reports.render("github", scanned)


def test_a_notebook_that_changed_since_has_a_place_without_lines(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text(notebook("a = 1", "x.cuda()"))
    scanned = engine.scan([tmp_path], rules=TOYS)
    (tmp_path / "n.ipynb").write_text("[")
    location = sarif(scanned)["results"][0]["locations"][0]["physicalLocation"]
    assert "region" not in location
    assert "Cell 1, line 1: " in reports.render("github", scanned)


# --- workflow commands of GitHub ---------------------------------------------------------------------

COMMAND = re.compile(r"::(?P<name>error|warning|notice) (?P<properties>[^:]*)::(?P<message>.*)")


def commands(scanned: engine.ScanResult) -> list[tuple[str, dict[str, str], str]]:
    """What the runner makes of the lines."""
    found = []
    for line in reports.render("github", scanned).splitlines()[:-1]:
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        pairs = [pair.partition("=") for pair in match["properties"].split(",")]
        properties = {key: _unescaped(value, ":,") for key, _, value in pairs}
        found.append((match["name"], properties, _unescaped(match["message"], "")))
    return found


def _unescaped(text: str, more: str) -> str:
    for char in f"\r\n{more}%":
        text = text.replace(f"%{ord(char):02X}", char)
    return text


def test_github_commands_survive_any_text() -> None:
    name = "a,b:c%25\nd.py"
    ((command, properties, message),) = commands(result(finding(name, message=NASTY)))
    assert command == "error"
    assert properties["file"] == name
    assert (properties["line"], properties["col"], properties["endColumn"]) == ("3", "5", "9")
    assert message.startswith(NASTY)


def test_github_shows_what_blocks_first_and_nothing_that_is_fine() -> None:
    scanned = result(*(finding(support=support) for support in Support), unparsed=[Unparsed("b", "is bad")])
    names = [name for name, _, _ in commands(scanned)]
    assert names == ["error", "warning", "warning", "notice", "warning"]


def test_github_gives_no_columns_over_several_lines() -> None:
    ((_, properties, _),) = commands(result(finding(location=Location("a.py", 3, 5, 4, 2))))
    assert set(properties) == {"file", "line", "endLine", "title"}


# --- CSV ---------------------------------------------------------------------------------------------


def rows(scanned: engine.ScanResult) -> list[dict[str, str]]:
    text = reports.render("csv", scanned)
    assert text.endswith("\r\n")
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_csv_has_the_keys_of_the_json_report() -> None:
    scanned = result(finding(message='say "hi", or\r\nnot'))
    (row,) = rows(scanned)
    assert list(row) == list(json.loads(reports.render("json", scanned))["findings"][0])
    assert row["message"] == 'say "hi", or\r\nnot'
    assert (row["cell"], row["line"], row["lossy"]) == ("", "3", "false")
    header = reports.render("csv", result()).split("\r\n")
    assert header == [",".join(row), ""]


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "＠a"])
def test_csv_holds_no_formula(text: str) -> None:
    (row,) = rows(result(finding(text, message=text, snippet=text)))
    for key in ("path", "message", "snippet"):
        assert row[key] == f"'{text}"


def test_csv_leaves_other_text_alone() -> None:
    (row,) = rows(result(finding(message="a = -1")))
    assert row["message"] == "a = -1"


# --- Markdown ----------------------------------------------------------------------------------------


class _Text(HTMLParser):
    """Rows of cells, and the tags that stand in them."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def shown(scanned: engine.ScanResult) -> _Text:
    found = _Text()
    found.feed(MarkdownIt("gfm-like", {"linkify": False}).render(reports.render("markdown", scanned)))
    return found


@pytest.mark.parametrize(
    "text", [NASTY, "`", "a`b`c`d", "|", "\\|", "</details>", "1. x", "- y", "<b>`c`</b>"]
)
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    page = shown(result(finding(text, message=text), unparsed=[Unparsed(text, text, 1)]))
    plain = " ".join(text.split())
    cells = [" ".join(cell.replace("\u200b", "").split()) for row in page.rows for cell in row]
    code = plain.replace("`", "") if text.count("`") % 2 == 0 else plain
    assert f"{plain}:3:5" in cells
    assert code in cells
    assert cells.count(plain) >= 2
    assert page.tags <= {
        *("h3", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "strong", "details", "summary"),
    }


def test_markdown_mentions_nobody() -> None:
    assert "@everyone" not in reports.render("markdown", result(finding(message="@everyone, look")))


def test_markdown_names_what_blocks_and_the_next_command() -> None:
    text = reports.render("markdown", result(finding(), finding(support=Support.AUTO)))
    assert "**What blocks**" in text
    assert "| 1 | · | <code>PK901</code> | A name of torch.cuda is used. |" in text
    assert text.splitlines()[-1] == "Next: <code>portkit migrate . --phase module</code>"
    assert "What blocks" not in reports.render("markdown", result(finding(support=Support.AUTO)))


def test_markdown_fits_into_a_comment_unless_all_is_asked_for() -> None:
    many = [finding(f"folder/file{number}.py", message="x" * 100) for number in range(2000)]
    bad = [Unparsed(f"bad{number}.py", "y" * 100) for number in range(2000)]
    text = reports.render("markdown", result(*many, unparsed=bad))
    assert 20_000 < len(text) < 65_536
    assert text.count("<details>") == text.count("</details>") == 2
    assert "more: `portkit scan --verbose` lists them." in text
    assert "file1999.py" in reports.render("markdown", result(*many), verbose=True)


def test_code_and_text_are_for_tables() -> None:
    assert markdown.code("a|b`c") == "<code>a&#124;b&#96;c</code>"
    assert markdown.prose("Use `f(x)` here") == "Use <code>f(x)</code> here"
    assert markdown.prose("an odd ` one") == "an odd &#96; one"


@pytest.mark.parametrize(
    ("paths", "command"),
    [
        (["a b"], "portkit migrate 'a b' --phase module"),
        (["src/a", "src/b.py"], "portkit migrate src --phase module"),
        (["src", "."], "portkit migrate . --phase module"),
        (["-", "src"], "portkit migrate src --phase module"),
        (["-"], "portkit scan - --verbose"),
    ],
)
def test_the_next_command_is_one_that_works(paths: list[str], command: str) -> None:
    scanned = result(finding(support=Support.AUTO))
    scanned.paths = tuple(paths)
    assert f"Next: {command}\n" in reports.render("terminal", scanned)


# --- all formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", reports.formats())
def test_every_format_takes_every_name_and_text(name: str) -> None:
    path = os.fsdecode(b"\xff/\xe9.py")
    scanned = result(
        finding(path, message=NASTY, snippet="\ud83d", note="n", scope="f", guard="g", lossy=True),
        suppressed=[Suppressed(finding(path), NASTY)],
        unparsed=[Unparsed(path, NASTY, 1, 1)],
    )
    text = reports.render(name, scanned, verbose=True)
    assert text.endswith("\n")
    text.encode()
    if name in ("json", "sarif"):
        assert "\ud83d" in json.dumps(json.loads(text), ensure_ascii=False), "nothing is lost"


@pytest.mark.parametrize("name", reports.formats())
def test_every_format_to_a_file_is_what_it_prints(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "a.py").write_text('s = "ü😀"; import torch; torch.cuda.init()\n', encoding="utf-8")
    assert run(["scan", str(tmp_path / "a.py"), "--format", name]) == 0
    printed = capfdbinary.readouterr().out
    assert run(["scan", str(tmp_path / "a.py"), "--format", name, "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_bytes() == printed


@pytest.mark.parametrize(
    ("target", "reason"),
    [("none/x.txt", "no such file"), ("a.py/x.txt", "not a directory"), (".", "is a dir")],
)
def test_a_bad_target_is_one_error_before_the_work(
    target: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.py").write_text("")
    monkeypatch.setattr(engine, "scan", lambda *_, **__: pytest.fail("the scan was begun"))
    assert run(["scan", str(tmp_path), "-o", str(tmp_path / target)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert reason in err.lower()
    assert len(err.splitlines()) == 2


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """`--output /dev/stdout`, and /dev/null for root."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "a.py").write_text("")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(["scan", str(tmp_path / "a.py"), "--format", "csv", "-o", str(pipe)]) == 0
        assert os.read(reader, 100).startswith(b"id,rule,")
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.py", "pipe"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert run(["scan", str(tmp_path / "a.py"), "--format", "csv", "-o", str(tmp_path / "link.csv")]) == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("id,rule,")
