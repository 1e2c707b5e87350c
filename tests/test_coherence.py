"""A test for CUDA stays as it is where the branch behind it can't leave CUDA."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from portkit import engine, writing
from portkit.config import Config
from portkit.errors import UsageError
from portkit.finding import Finding, Phase, Support
from portkit.interview import Interview
from portkit.migrate import Options, plan, rewrite
from portkit.partial import Choice, undo_part
from portkit.source import Kind, Source, load

STUCK = "torch.cuda.FloatTensor"  # as a value, no rule can replace it


def cuda_tests(code: str) -> list[Finding]:
    found = engine.check_text(
        "import torch\n" + textwrap.dedent(code), path="x.py", kind=Kind.PYTHON, config=Config()
    )
    return [item for item in found if item.rule in ("PK303", "PK304", "PK107")]


@pytest.mark.parametrize(
    "code",
    [
        f"T = {STUCK} if torch.cuda.is_available() else torch.FloatTensor",
        f"T = torch.FloatTensor if not torch.cuda.is_available() else {STUCK}",
        f"if torch.cuda.is_available():\n    T = {STUCK}\nelse:\n    T = torch.FloatTensor",
        f"flag = torch.cuda.is_available()\nif flag and 1:\n    T = {STUCK}",
        f"def f(x):\n    if x.is_cuda:\n        return {STUCK}\n",
        f"def f(device):\n    if device.type == 'cuda':\n        return {STUCK}\n",
    ],
)
def test_stays_for_review_where_the_branch_needs_cuda(code: str) -> None:
    found = cuda_tests(code)
    assert [item.support for item in found] == [Support.REVIEW]
    assert "still needs CUDA (PK" in found[0].note


@pytest.mark.parametrize(
    "code",
    [
        "new = torch.cuda.is_available() and torch.cuda.get_device_properties(0).major >= 10",
        "old = not torch.cuda.is_available() or torch.cuda.get_device_properties(0).major < 10",
        "new = x and torch.cuda.is_available() and y and torch.cuda.get_arch_list()",
        "flag = torch.cuda.is_available()\nnew = flag and torch.cuda.get_device_properties(0).major >= 10",
        "def f(x):\n    y = x.is_cuda and torch.cuda.get_device_properties(x.device).major >= 10\n    g(y)",
        "while torch.cuda.is_available() and torch.cuda.utilization() > 90:\n    time.sleep(1)",
    ],
)
def test_what_follows_in_the_same_condition_counts_as_the_branch(code: str) -> None:
    found = [item for item in cuda_tests(code) if item.support is not Support.MANUAL]
    assert [item.support for item in found] == [Support.REVIEW]
    assert "still needs CUDA (PK" in found[0].note


@pytest.mark.parametrize(
    "code",
    [
        'if args.device == "cuda" and not torch.cuda.is_available():\n    args.device = "cpu"',
        'def f(device):\n    if not torch.cuda.is_available() and device == "cuda":\n        device = "cpu"',
        'use = torch.cuda.is_available() and args.device == "cuda"',
    ],
)
def test_availability_is_asked_of_the_device_that_is_asked_for_beside_it(code: str) -> None:
    found = [item for item in cuda_tests(code) if item.rule == "PK303"]
    assert [item.support for item in found] == [Support.REVIEW]
    assert "stays as it is" in found[0].note


@pytest.mark.parametrize(
    "code",
    [
        "nvidia = torch.cuda.is_available() and torch.version.hip is None",
        "def nvidia():\n    return torch.cuda.is_available() and torch.version.hip is None",
        "amd = torch.version.hip and not not torch.cuda.is_available()",
    ],
)
def test_whose_devices_they_are_stays_a_question_about_cuda(code: str) -> None:
    found = [item for item in cuda_tests(code) if item.rule == "PK303"]
    assert [item.support for item in found] == [Support.PORTABLE]


def test_the_message_of_a_refusal_counts_what_the_refusal_counts() -> None:
    found = cuda_tests(
        f"""
        def f(n):
            assert n <= torch.cuda.device_count(), f"{{torch.cuda.device_count()}} devices"
            return {STUCK}
        """
    )
    assert [item.support for item in found] == [Support.REVIEW, Support.REVIEW]


@pytest.mark.parametrize(
    "code",
    [
        "many = torch.cuda.is_available() and torch.cuda.device_count() > 1",
        "none = not torch.cuda.is_available() or torch.cuda.device_count() == 0",
        "either = torch.cuda.is_available() or torch.cuda.get_device_properties(0).major >= 10",
        "last = torch.cuda.get_device_properties(0).major >= 10 and torch.cuda.is_available()",
    ],
)
def test_a_condition_opens_where_what_follows_is_portable(code: str) -> None:
    found = [item for item in cuda_tests(code) if item.support is not Support.MANUAL]
    assert found
    assert all(item.support is Support.AUTO for item in found)


@pytest.mark.parametrize(
    "code",
    [
        f"def f(x):\n    if x.device.type != 'cuda':\n        return x\n    return {STUCK}\n",
        f"def f(x):\n    if not x.is_cuda:\n        return x\n    return {STUCK}\n",
        f"def f(x):\n    if not x.is_cuda and x.dim():\n        raise ValueError\n    return {STUCK}\n",
        f"def f(x):\n    if not torch.cuda.is_available():\n        return x\n    return {STUCK}\n",
        f"def f(x):\n    if x.device.type != 'cuda':\n        x = x + 1\n    else:\n        x = {STUCK}\n",
        f"def f(x):\n    assert x.is_cuda\n    return {STUCK}\n",
        f"for x in y:\n    if not x.is_cuda:\n        continue\n    print({STUCK})\n",
    ],
)
def test_what_follows_an_early_way_out_counts_as_the_branch(code: str) -> None:
    found = cuda_tests(code)
    assert [item.support for item in found] == [Support.REVIEW]
    assert "still needs CUDA (PK" in found[0].note


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n    if x.device.type != 'cuda':\n        return x\n    return x_cuda.forward(x)\n",
        "def f(x):\n    if not x.is_cuda:\n        return x\n    return flash_attn.f(x)\n",
        "def f(x):\n    return x if not x.is_cuda else x_cuda.forward(x)\n",
        "def f(x):\n    assert x.is_cuda\n    return fused_kernel(x)\n",
        "from own import _C as C\ndef f(x):\n    if x.is_cuda:\n        x = C.decode(x)\n    return x\n",
        "from own import _C\ndef f(x):\n    fast = x.is_cuda and 1\n    return _C.f(x) if fast else g(x)\n",
        "def f(x):\n    fast = x.device.type == 'cuda'\n    if fast:\n        x = x_cuda.forward(x)\n",
    ],
)
def test_stays_where_nvidia_s_software_follows(code: str) -> None:
    found = [item for item in cuda_tests(code) if item.rule in ("PK304", "PK107")]
    assert [item.support for item in found] == [Support.MANUAL]


def test_the_branch_for_other_devices_may_name_nvidia_s_software() -> None:
    code = "def f(x):\n    if x.device.type != 'cuda':\n        f('apex')\n        return x\n    return -x\n"
    assert [item.support for item in cuda_tests(code)] == [Support.AUTO]


@pytest.mark.parametrize(
    "code",
    [
        "if torch.cuda.is_available():\n    n = 2\nelif torch.xpu.is_available():\n    n = 3\n",
        "flag = torch.cuda.is_available()\nif flag:\n    n = 2\nelif use_mps:\n    n = 3\n",
        "n = 2 if torch.cuda.is_available() else 3 if torch.backends.mps.is_available() else 4\n",
        "if device.type == 'cuda':\n    n = 2\nelif device.type == 'npu':\n    n = 3\nelse:\n    n = 4\n",
        "if device.type == 'cuda':\n    n = 2\nelif device.type == 'cpu':\n    n = 3\nelse:\n    n = 4\n",
    ],
)
def test_branches_of_other_devices_need_a_review(code: str) -> None:
    assert [item.support for item in cuda_tests(code)] == [Support.REVIEW]


@pytest.mark.parametrize(
    "code",
    [
        "if torch.cuda.is_available():\n    device = 'cuda'\nelif use_xpu():\n    device = 'xpu'\n",
        "if device.type == 'cuda':\n    n = 2\nelif device.type == 'cpu':\n    n = 3\n",
        "if torch.cuda.is_available():\n    n = 2\nelif args.fast:\n    n = 3\nelse:\n    n = 4\n",
        "if torch.backends.mps.is_available():\n    n = 2\nelif torch.cuda.is_available():\n    n = 3\n",
    ],
)
def test_chains_that_lose_nothing_are_opened(code: str) -> None:
    assert [item.support for item in cuda_tests(code)] == [Support.AUTO]


TWICE = """
def f(x, backend):
    if not x.device.type == "cuda":
        y = x + 1
    if x.device.type == "cuda":
        y = {call}
    else:
        y = y + 1
    return y
"""


@pytest.mark.parametrize(
    ("call", "supports"),
    [
        ("backend.conv_cuda(x)", [Support.REVIEW, Support.MANUAL]),
        ("backend.conv(x)", [Support.AUTO, Support.AUTO]),
    ],
)
def test_the_tests_of_one_function_agree(call: str, supports: list[Support]) -> None:
    assert [item.support for item in cuda_tests(TWICE.format(call=call))] == supports


def test_a_flag_that_chooses_a_package_keeps_its_test() -> None:
    code = """
    def f(device, install):
        gpu = torch.cuda.is_available() and device.index is not None
        install("onnxruntime-gpu" if gpu else "onnxruntime")
    """
    assert [item.support for item in cuda_tests(code)] == [Support.PORTABLE]


@pytest.mark.parametrize(
    ("code", "support"),
    [
        ("def f(x):\n    return x.device.type == 'cuda'\n", Support.REVIEW),
        ("def f(x):\n    return x.is_cuda and x.dim() > 1\n", Support.REVIEW),
        (
            "def f(x):\n    if x.device.type != 'cuda':\n        return False\n    return True\n",
            Support.REVIEW,
        ),
        ("def f(x):\n    if x.is_cuda:\n        x = x + 1\n    return x.dim() > 1\n", Support.AUTO),
        ("def f(x):\n    if x.is_cuda:\n        return x + 1\n    return x\n", Support.AUTO),
        ("f = [x for x in y if x.is_cuda]\n", Support.AUTO),
    ],
)
def test_a_function_that_only_answers_needs_a_review(code: str, support: Support) -> None:
    assert [item.support for item in cuda_tests(code)] == [support]


@pytest.mark.parametrize(
    "code",
    [
        "d = 'cuda' if torch.cuda.is_available() else 'cpu'\nprint(torch.cuda.is_available())",
        f"if torch.cuda.is_available():\n    torch.cuda.empty_cache()\nT = {STUCK}",
        f"if torch.cuda.is_available():\n    torch.cuda.empty_cache()\nelse:\n    T = {STUCK}",
        "if torch.cuda.is_available():\n    torch.cuda.synchronize()",
    ],
)
def test_opens_where_the_branch_is_portable(code: str) -> None:
    found = [item for item in cuda_tests(code) if "is_available" in str(item.qualified_name)]
    assert found
    assert {item.support for item in found} == {Support.AUTO}


BRANCH = """import torch
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
    torch.cuda.empty_cache()
"""


def test_a_test_stays_where_a_rewrite_in_its_branch_is_skipped() -> None:
    source = load(BRANCH.encode(), "a.py")
    full = rewrite(source, Options(Phase.FULL_MODEL))
    assert "torch.cuda.is_available" not in full.text

    def skip_the_move(_: Source, findings: Sequence[Finding]) -> list[int]:
        return [index for index, item in enumerate(findings) if ".cuda()" in item.snippet]

    some = rewrite(source, Options(Phase.FULL_MODEL), decide=skip_the_move)
    assert "if torch.cuda.is_available():\n    x = x.cuda()\n" in some.text
    assert "torch.cuda.empty_cache" not in some.text
    reasons = {reason for finding, reason in some.left if "is_available" in finding.snippet}
    assert [reason.startswith("the branch behind it needs PK") for reason in reasons] == [True]


def test_asking_says_what_is_skipped_with_it() -> None:
    screen = io.StringIO()
    talk = Interview(io.StringIO("a\ns\na\n"), screen)
    done = rewrite(load(BRANCH.encode(), "a.py"), Options(Phase.FULL_MODEL), decide=talk)
    assert "if torch.cuda.is_available():\n    x = x.cuda()\n" in done.text
    assert "torch.cuda.empty_cache" not in done.text
    assert "\nSkipped with it: a.py:3:4: PK" in screen.getvalue()


def test_a_test_that_was_opened_goes_back_with_its_branch(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BRANCH)
    made = plan(tmp_path, Options(Phase.FULL_MODEL))
    moved = next(item.rule for item in made.changes[0].done if ".cuda()" in item.snippet)
    opened = next(item.rule for item in made.changes[0].done if "is_available" in item.snippet)
    writing.write(made)
    with pytest.raises(UsageError, match="can't be taken back") as caught:
        undo_part(tmp_path, Choice(rules=(moved,)))
    assert (
        f"a.py:3: {opened} opened this test because {moved} made its branch portable" in caught.value.source
    )
    assert f"portkit undo {tmp_path} {' '.join(sorted((moved, opened)))}" in caught.value.remedy
    undo_part(tmp_path, Choice(rules=(moved, opened)))
    assert (tmp_path / "a.py").read_text() == BRANCH
