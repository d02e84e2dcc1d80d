"""Opens a page in a real browser without a window, and returns the findings of a script in it."""

import json
import os
import re
import shutil
import subprocess
from html import unescape

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--window-size=1400,2000", "--virtual-time-budget=5000", "--dump-dom"),
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no network, as a reader may have none
)
_ERRORS = """
<script>
window.errors = [];
const note = (event) => errors.push(event.message || event.target.src || "resource");
addEventListener("error", note, true);
</script>
"""
_ACT = """
<script>
addEventListener("load", () => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  (async () => { %s })().catch((error) => ({ failed: String(error) })).then((found) => {
    const place = document.createElement("pre");
    place.id = "found";
    place.textContent = JSON.stringify({ errors, found: found ?? null });
    document.body.append(place);
  });
});
</script>
"""


def browser():
    """The browser's command; without one the test is skipped."""
    found = [path for name in _NAMES if (path := shutil.which(name))]
    if not found:
        pytest.skip(f"no browser: none of {', '.join(_NAMES)} is installed")
    return found[0]


def in_browser(page, script, folder):
    """What ``script``, the body of an async function, returns in the page; its errors raise."""
    html = page.replace("<head>", "<head>" + _ERRORS, 1)
    html = html.replace("</body>", _ACT % script + "</body>")
    file = folder / "page.html"
    file.write_text(html, "utf-8")
    command = [browser(), *_OPTIONS, f"--user-data-dir={folder / 'profile'}", file.as_uri()]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOME": str(folder)},
    )
    dom = re.search(r'<pre id="found">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert dom, f"the page's script gave nothing: {ran.stderr[-2000:]}"
    found = json.loads(unescape(dom[1]))
    assert found["errors"] == []
    return found["found"]
