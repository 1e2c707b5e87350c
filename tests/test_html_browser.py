"""The HTML page in headless Chromium: no errors, filters that work, nothing wider than the screen."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from test_html import full

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

LISTEN = """<script>
window.faults = [];
addEventListener("error", (event) => faults.push(String(event.message)));
const said = console.error; console.error = (...all) => { faults.push(all.join(" ")); said(...all); };
</script>"""
ASK = """<script>
(async () => {
  const pause = () => new Promise((done) => setTimeout(done, 150));
  const box = document.getElementById("findings"), seen = {};
  const visible = (item) => !item.closest("[hidden]");
  const shown = () => [...box.querySelectorAll(".finding")].filter(visible).length;
  const counts = async (name) => {
    await pause();
    seen[name] = [shown(), Number(box.querySelector("[data-shown]").textContent)];
  };
  const input = (element) => element.dispatchEvent(new Event("input", { bubbles: true }));
  const find = box.querySelector("input[type=search]");
  await counts("all");
  const manual = box.querySelector("input[value=manual]");
  manual.click(); await counts("no manual"); manual.click();
  find.value = "ALERT(1)/a.py"; input(find); await counts("search");
  find.value = "no such text"; input(find); await counts("nothing");
  seen.none = !box.querySelector("[data-none]").hidden;
  document.querySelector("[data-folder='pkg/train.py']").click(); await counts("folder");
  seen.find = find.value;
  find.value = ""; input(find); await counts("again");
  const view = document.querySelector("[data-timeline] .time"), before = view.scrollWidth;
  document.querySelector("[data-by='2']").click(); document.querySelector("[data-by='2']").click();
  seen.zoomed = view.scrollWidth / before;
  seen.middle = (view.scrollLeft + view.clientWidth / 2) / view.scrollWidth;
  document.querySelector("[data-by='0']").click();
  seen.again_whole = view.scrollWidth === before;
  const parts = document.querySelectorAll("a, summary, input, select, button");
  seen.unreachable = [...parts].filter((item) => item.tabIndex < 0).length;
  seen.wide = document.documentElement.scrollWidth - innerWidth;
  seen.dark = getComputedStyle(document.body).backgroundColor;
  seen.faults = faults;
  const out = document.createElement("template");
  out.id = "seen"; out.setAttribute("data-seen", encodeURIComponent(JSON.stringify(seen)));
  document.body.append(out);
})();
</script>"""


def look(folder: Path, *options: str, width: int = 1200) -> dict[str, Any]:
    """What a script in the page sees and does."""
    file = folder / "page.html"
    page = full().replace("<head>", f"<head>{LISTEN}", 1).replace("</body>", f"{ASK}</body>", 1)
    file.write_text(page)
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=10000", *options]
    done = subprocess.run(
        [*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120
    )
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, done.stderr[-2000:]
    data: dict[str, Any] = json.loads(unquote(found[1]))
    return data


def test_filters_work_and_nothing_is_said_on_the_console(tmp_path: Path) -> None:
    seen = look(tmp_path)
    assert seen["faults"] == []
    shown, told = seen["all"]
    assert shown == told > 10
    assert seen["again"] == seen["all"]
    assert 0 < seen["no manual"][0] == seen["no manual"][1] < shown
    assert seen["search"] == [1, 1]
    assert seen["nothing"] == [0, 0]
    assert seen["none"]
    assert seen["find"] == "pkg/train.py"
    assert seen["folder"] == [shown - 1, shown - 1]
    assert seen["unreachable"] == 0
    assert 3.5 < seen["zoomed"] < 4.5
    assert 0.4 < seen["middle"] < 0.6
    assert seen["again_whole"]


@pytest.mark.parametrize("width", [500, 1400])  # Chromium makes no narrower window
def test_the_page_is_as_wide_as_the_screen(tmp_path: Path, width: int) -> None:
    assert look(tmp_path, width=width)["wide"] <= 0


def test_there_is_a_light_and_a_dark_page(tmp_path: Path) -> None:
    light, dark = (look(tmp_path, f"--blink-settings=preferredColorScheme={n}")["dark"] for n in (1, 0))
    assert light == "rgb(246, 247, 249)"
    assert dark == "rgb(13, 17, 23)"
