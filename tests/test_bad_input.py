"""Files that no one should write: each is a line in the report with place and reason; the scan goes on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from portkit import engine, reports, source
from portkit.config import Config

ROOT = Path(__file__).parent.parent
GOOD = "import torch\ntorch.cuda.synchronize()\n"
DEEP = 10_000


@dataclass(frozen=True)
class Bad:
    """A file, and a part of what the report must say of it; an empty reason: it is taken as it is."""

    name: str
    data: bytes
    reason: str = ""
    line: int | None = None


def _notebook(*cells: object) -> bytes:
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
    return json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def _py(name: str, text: str, reason: str = "", line: int | None = None) -> Bad:
    return Bad(f"{name}.py", text.encode(), reason, line)


_ANCHORS = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'cuda'}]\n" for i in range(30))

SYNTAX = [
    _py("print_statement", "import torch\nx = 1\nprint 'cuda', x\n", "Python 2 (a print statement)", 3),
    _py("except_comma", "import torch\ntry:\n    f()\nexcept E, e:\n    pass\n", "is Python 2", 4),
    _py("exec_statement", "import torch\nexec 'cuda'\n", "is Python 2", 2),
    _py("octal", "import torch\nos.chmod(p, 0755)\n", "is Python 2", 2),
    _py("backticks", "import torch\nx = `y`\n", "is Python 2", 2),
    _py("async_keyword", "import torch\nx = x.cuda(async=True)\n", "uses `async=`", 2),
    _py("tabs", "import torch\nif x:\n        a = 1\n\tb = 2\n", "mixes tabs and spaces", 4),
    _py("indentation", "import torch\n  x = 1\n", "unexpected indent", 2),
    _py("template", "import torch\nfrom {{cookiecutter.name}} import x\n", "is a template", 2),
    _py("merge", "import torch\n<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> b\n", "merge conflict", 2),
    _py("unclosed", "import torch\nx = torch.cuda.device(\n", "was never closed", 2),
    _py("newer", "import torch\nmatch x:\n    case 1 if:\n", "is not valid Python", 3),
    _py("continued", "import torch\nx = torch.cuda.\\\n    synchronize()\n"),
    _py("no_newline", "import torch\ntorch.cuda.synchronize()"),
    _py("form_feed", "import torch\n\x0c\ntorch.cuda.synchronize()\n"),
    _py("nothing", ""),
    Bad("crlf.py", GOOD.replace("\n", "\r\n").encode()),
    Bad("cr.py", GOOD.replace("\n", "\r").encode()),
    Bad("mixed.py", b"import torch\r\ntorch.cuda.synchronize()\nx = 1\r"),
    Bad("bom.py", b"\xef\xbb\xbf" + GOOD.encode()),
    Bad("spaces.py", "import torch\nx =\u00a01  # cuda\n".encode(), "invalid non-printable character", 2),
]
BYTES = [
    Bad("latin.py", b"# \xe9 without a cookie\nimport torch  # cuda\n", "is not valid utf-8", 1),
    Bad("cookie.py", b"# -*- coding: latin-1 -*-\nimport torch\nname = '\xe9 cuda'\n"),
    Bad("cookie_unknown.py", b"# coding: klingon\nimport torch  # cuda\n", "its encoding is not known", 1),
    Bad("cookie_binary.py", b"# coding: base64\nimport torch  # cuda\n", "encoding"),
    Bad("nul.py", b"import torch\nx = 'cuda\0'\n", "null bytes"),
    Bad("utf16.py", GOOD.encode("utf-16")),
    Bad("utf16.json", json.dumps({"device": "cuda"}).encode("utf-16")),
    Bad("utf16_cut.json", b"\xff\xfec\0u\0d", "is not valid utf-16"),
    Bad("nul.json", b'{"device": "cuda"}\0\0', "null bytes"),
    Bad("invalid.json", b'{"device": "cuda", \n'),
    Bad("binary.sh", bytes(range(256)) * 20, "null bytes"),
    Bad("latin.yml", b"# \xe9\ndevice: cuda\n"),
    Bad("huge_line.py", b"import torch\nx = '" + b"cuda " * 1_000_000 + b"'\n"),
    Bad("huge_line.json", b'{"device": "cuda", "x": "' + b"cuda" * 1_000_000 + b'"}'),
    Bad("long_number.py", b"import torch  # cuda\nx = " + b"9" * 20_000 + b"\n", "", None),
]
NOTEBOOKS = [
    Bad("text.ipynb", b"not JSON: cuda", "is not valid JSON", 1),
    Bad("list.ipynb", b'["cuda"]', "is not a notebook"),
    Bad("no_cells.ipynb", b'{"cuda": 1}', "is not a notebook"),
    Bad("empty.ipynb", b"", "is not valid JSON"),
    Bad("number.ipynb", b'{"cells": ' + b"9" * 10_000 + b"}", "is not"),
    Bad("surrogate.ipynb", _notebook("import torch\nx = '\ud800 cuda'\ntorch.cuda.synchronize()\n")),
    Bad("surrogate_name.ipynb", _notebook("import torch\n\udc80 = torch.cuda.device(0)\n"), "cell 0"),
    Bad("strange.ipynb", _notebook(5, None, {"a": 1}, ["import torch\n", 7], "torch.cuda.synchronize()")),
    Bad("old.ipynb", b'{"worksheets": [5]}', "is not a notebook"),
    Bad("cells.ipynb", b'{"cells": [1, null, {"cell_type": "code"}]}'),
    Bad("nul.ipynb", _notebook("import torch\nx = 'cuda\0'\n"), "cell 0"),
    Bad("magic.ipynb", _notebook("%%bash\nnvidia-smi", "!pip install cupy-cuda12x", "x = !nvidia-smi")),
    Bad("metadata.ipynb", b'{"cells": [], "metadata": {"kernelspec": 5, "language_info": []}}'),
]
_DEEPLY = "nested too deeply"
NESTED = [
    _py("parens", "import torch  # cuda\nx = " + "(" * DEEP + "1" + ")" * DEEP + "\n", _DEEPLY),
    _py("lists", "import torch  # cuda\nx = " + "[" * DEEP + "]" * DEEP + "\n", _DEEPLY),
    _py("dicts", "import torch  # cuda\nx = " + "{1:" * DEEP + "1" + "}" * DEEP + "\n", _DEEPLY),
    _py("attributes", "import torch  # cuda\nx = torch.cuda" + ".x" * DEEP + "\n", _DEEPLY),
    _py("calls", "import torch  # cuda\nx = torch" + "()" * DEEP + "\n", _DEEPLY),
    _py("subscripts", "import torch  # cuda\nx = torch" + "[0]" * DEEP + "\n", _DEEPLY),
    _py("sum", "import torch  # cuda\nx = " + "1 + " * DEEP + "1\n", _DEEPLY),
    _py("minus", "import torch  # cuda\nx = " + "-" * DEEP + "1\n", _DEEPLY),
    _py("nots", "import torch  # cuda\nx = " + "not " * DEEP + "1\n", _DEEPLY),
    _py("lambdas", "import torch  # cuda\nx = " + "lambda: " * DEEP + "1\n", _DEEPLY),
    _py("choices", "import torch  # cuda\nx = " + "1 if y else " * DEEP + "1\n", _DEEPLY),
    _py("powers", "import torch  # cuda\nx = " + "1 ** " * DEEP + "1\n", _DEEPLY),
    _py("awaits", "import torch  # cuda\nx = " + "await " * DEEP + "1\n", ""),
    _py("elifs", "import torch  # cuda\nif a:\n    pass\n" + "elif b:\n    pass\n" * DEEP, _DEEPLY),
    _py("ifs", "import torch  # cuda\n" + "".join(" " * i + "if x:\n" for i in range(200)), "indent"),
    _py("one_line_ifs", "import torch  # cuda\n" + "if x: " * DEEP + "pass\n", "is not valid Python"),
    _py("strings", "import torch  # cuda\nx = (" + '"cuda"\n' * DEEP + ")\n"),
    _py("statements", "import torch\n" + "torch.cuda.synchronize()\n" * 3_000),
    Bad("deep.json", b"[" * 100_000 + b'"cuda"' + b"]" * 100_000),
    Bad("deep_objects.json", b'{"device": ' * DEEP + b'"cuda"' + b"}" * DEEP),
    Bad("deep.ipynb", b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", _DEEPLY),
    Bad("deep.yml", "".join(" " * i + "cuda:\n" for i in range(3_000)).encode(), _DEEPLY, 1001),
    Bad("deep_flow.yaml", b"device: " + b"[" * DEEP + b"cuda" + b"]" * DEEP),
    Bad("laughs.yaml", _ANCHORS.encode()),
    Bad("environment.yml", b"dependencies: " + b"[" * DEEP + b"cuda" + b"]" * DEEP),
    Bad("deep.toml", b"cuda = " + b"[" * DEEP + b"]" * DEEP),
    Bad("deep.cu", b"__global__ void f() " + b"{" * DEEP + b"f<<<1, 1>>>();" + b"}" * DEEP),
    Bad(
        "setup.py",
        b"from setuptools import setup  # cuda\nsetup(x=" + b"[" * DEEP + b"]" * DEEP + b")\n",
        _DEEPLY,
    ),
]
CASES = [*SYNTAX, *BYTES, *NOTEBOOKS, *NESTED]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "portkit", "scan", str(folder), "--no-cache", *options],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        cwd=folder,
    )
    assert b"Traceback" not in done.stderr + done.stdout
    assert b"internal error" not in done.stderr
    return done


def write(folder: Path, bad: Bad) -> None:
    (folder / "good.py").write_text(GOOD)
    (folder / bad.name).write_bytes(bad.data)


@pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.name)
def test_a_file_is_a_line_with_its_reason(tmp_path: Path, bad: Bad) -> None:
    write(tmp_path, bad)
    done = run(tmp_path, "--format", "json")
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    data = json.loads(done.stdout)
    assert any(item["path"] == "good.py" for item in data["findings"])
    unparsed = data["scope"]["unparsed"]
    if not unparsed and (not bad.reason or (bad.reason == _DEEPLY and sys.version_info < (3, 11))):
        return  # Python 3.10 takes long chains
    (item,) = unparsed
    assert item["path"] == bad.name
    assert bad.reason in item["reason"]
    if bad.line is not None:
        assert item["line"] == bad.line


def test_strict_says_so_with_its_exit_code(tmp_path: Path) -> None:
    write(tmp_path, SYNTAX[0])
    assert run(tmp_path, "--strict").returncode == 4
    (tmp_path / SYNTAX[0].name).unlink()
    assert run(tmp_path, "--strict").returncode == 0


@pytest.mark.parametrize("jobs", [1, 2])
def test_all_together_in_every_format(tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from portkit import looking

    monkeypatch.setattr(looking, "_ENOUGH", 2)
    for bad in CASES:
        write(tmp_path, bad)
    result = engine.scan([tmp_path], Config(), jobs=jobs)
    assert {item.path for item in result.unparsed} >= {
        bad.name for bad in CASES if bad.reason and bad.reason != _DEEPLY
    }
    for name in reports.formats():
        text = reports.render(name, result, verbose=True)
        text.encode(errors="backslashreplace")
        assert "good.py" in text


def test_a_large_generated_file(tmp_path: Path) -> None:
    row = "    'weights_%d': torch.zeros(%d, device='cuda'),\n"
    rows = "".join(row % (index, index) for index in range(400_000))
    (tmp_path / "large.py").write_text(f"import torch\ntable = {{\n{rows}}}\n")
    (tmp_path / "data.py").write_text(
        "import torch  # cuda\nx = [\n" + "    0.123456789,\n" * 1_250_000 + "]\n"
    )
    (tmp_path / "good.py").write_text(GOOD)
    assert (tmp_path / "large.py").stat().st_size > 20_000_000
    done = run(tmp_path, "--format", "json")
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert {item["path"] for item in data["scope"]["unparsed"]} == {"data.py", "large.py"}
    assert all("is too large" in item["reason"] for item in data["scope"]["unparsed"])


# --- files that are no plain files, or not for long --------------------------------------------------


def test_no_plain_files(tmp_path: Path) -> None:
    write(tmp_path, SYNTAX[0])
    os.mkfifo(tmp_path / "pipe.py")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(tmp_path)
        server.bind("socket.py")
        (tmp_path / "null.py").symlink_to("/dev/zero")
        (tmp_path / "loop.py").symlink_to("loop.py")
        (tmp_path / "gone.py").symlink_to("nowhere.py")
        (tmp_path / "folder.py").mkdir()
        assert run(tmp_path).returncode == 0
        for name in ("pipe.py", "socket.py", "null.py", "loop.py", "gone.py"):
            done = run(tmp_path, str(tmp_path / name), "--format", "json")
            assert done.returncode in (0, 2), name
            if done.returncode == 0:
                items = json.loads(done.stdout)["scope"]["unparsed"]
                assert any(item["path"].endswith(name) for item in items), (name, items)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_without_permission(tmp_path: Path) -> None:
    write(tmp_path, SYNTAX[0])
    (tmp_path / "good.py").chmod(0)
    done = run(tmp_path)
    assert b"good.py: cannot be read: permission denied" in done.stdout


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(13, "Permission denied"), "cannot be read: permission denied"),
        (FileNotFoundError(2, "No such file or directory"), "cannot be read: no such file"),
        (OSError(5, "Input/output error"), "cannot be read: input/output error"),
        (MemoryError(), "cannot be read: there is not enough memory"),
    ],
    ids=str,
)
def test_a_file_that_vanishes_or_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    write(tmp_path, Bad("bad.py", GOOD.encode()))

    def fail(file: Path) -> bytes:
        if file.name == "bad.py":
            raise error
        return b"import torch\ntorch.cuda.synchronize()\n"

    monkeypatch.setattr(source, "_bytes", fail)
    result = engine.scan([tmp_path], Config(), jobs=1)
    (item,) = result.unparsed
    assert item.path == "bad.py"
    assert reason in item.reason
    assert {found.location.path for found in result.findings} == {"good.py"}


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is kept under the bytes that were looked at."""
    monkeypatch.setenv("PORTKIT_CACHE_DIR", str(tmp_path / "cache"))
    project = tmp_path / "project"
    project.mkdir()
    write(project, Bad("bad.py", b"x = 1\n"))
    real: Callable[[Path], bytes] = source._bytes

    def grow(file: Path) -> bytes:
        data = real(file)
        if file.name == "bad.py":
            file.write_bytes(data + b"import torch\ntorch.cuda.synchronize()\n")
        return data

    with monkeypatch.context() as patch:
        patch.setattr(source, "_bytes", grow)
        engine.scan([project], Config(), jobs=1, cache=True)
    after = engine.scan([project], Config(), jobs=1, cache=True)
    assert after.findings == engine.scan([project], Config(), jobs=1).findings
    assert any(item.location.path == "bad.py" for item in after.findings)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize("format", reports.formats())
def test_names_in_any_encoding(tmp_path: Path, format: str) -> None:
    names = [
        b"caf\xe9.py",
        "日本語.py".encode(),
        b"new\nline.py",
        b"tab\t.py",
        b"a,b;\"c'.py",
        b"<b>&.py",
        b"\xff.py",
    ]
    for name in names:
        with open(os.fsencode(tmp_path) + b"/" + name, "wb") as file:
            file.write(GOOD.encode())
    with open(os.fsencode(tmp_path) + b"/bad\xe9.py", "wb") as file:
        file.write(b"import torch\nprint 'cuda'\n")
    done = run(tmp_path, "--format", format, "--verbose")
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()  # valid UTF-8
    assert "日本語" in text or "\\u65e5" in text or "%E6%97%A5" in text
    assert run(tmp_path, "--format", format, "--output", str(tmp_path / "report.out")).returncode == 0
