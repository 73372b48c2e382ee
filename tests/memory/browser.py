"""A headless Chromium for tests: loads a page, uses it, and tells what it became and what it looks like."""
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib
from html.parser import HTMLParser


def find_browser():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return os.environ.get("HEADROOM_BROWSER") or next((path for path in map(shutil.which, names) if path), None)


def run(page, *flags):
    """Loads a file; its standard output, and what scripts wrote to the console."""
    browser = find_browser()
    if browser is None:
        raise unittest.SkipTest("no Chromium is installed: scripts/setup --develop, or name one in HEADROOM_BROWSER")
    with tempfile.TemporaryDirectory(prefix="headroom-browser-", ignore_cleanup_errors=True) as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--no-first-run", "--disable-background-networking", "--force-device-scale-factor=1",
                   "--virtual-time-budget=10000", "--enable-logging=stderr", f"--user-data-dir={profile}", *flags,
                   "file://" + os.path.abspath(page)]
        done = subprocess.run(command, capture_output=True, check=True)
    errors = done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8"), [line for line in errors.splitlines() if "CONSOLE" in line]


class _Document(HTMLParser):
    def __init__(self):
        super().__init__()
        self.root = {}
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "html":
            self.root = dict(attrs)


def load(page):
    """The root element's attributes and all tags, once the page's scripts ran; what they wrote to the console."""
    dom, console = run(page, "--dump-dom")
    document = _Document()
    document.feed(dom)
    return document.root, document.tags, console


def _unfilter(kind, line, above, step):
    """Undoes a PNG filter in place."""
    if kind == 1:
        for i in range(step, len(line)):
            line[i] = line[i] + line[i - step] & 255
    elif kind == 2:
        for i, up in enumerate(above):
            line[i] = line[i] + up & 255
    elif kind == 3:
        for i, up in enumerate(above):
            line[i] = line[i] + ((line[i - step] if i >= step else 0) + up >> 1) & 255
    elif kind == 4:
        for i, up in enumerate(above):
            left, corner = (line[i - step], above[i - step]) if i >= step else (0, 0)
            a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
            line[i] = line[i] + (left if a <= b and a <= c else up if b <= c else corner) & 255


def screenshot(page, width, height, *flags):
    """Rows of (red, green, blue), and what scripts wrote to the console."""
    with tempfile.TemporaryDirectory(prefix="headroom-screenshot-") as folder:
        path = os.path.join(folder, "page.png")
        _, console = run(page, f"--window-size={width},{height}", f"--screenshot={path}", *flags)
        with open(path, "rb") as file:
            data = file.read()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, compressed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        at += 12 + length
        if kind == b"IHDR":
            columns, lines, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and colour in (2, 6) and interlace == 0, (depth, colour, interlace)
            step = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            compressed += body
    raw, above, rows = zlib.decompress(compressed), bytearray(columns * step), []
    for y in range(lines):
        start = y * (columns * step + 1)
        line = bytearray(raw[start + 1:start + 1 + columns * step])
        _unfilter(raw[start], line, above, step)
        rows.append(list(zip(line[0::step], line[1::step], line[2::step])))
        above = line
    return rows, console


def light_colours(style):
    """What (red, green, blue) the names of a style's file are, in its light variant."""
    with open(os.path.join(os.path.dirname(__file__), "..", "..", style), encoding="utf-8") as file:
        found = re.findall(r"--([a-z0-9-]+): #([0-9a-f]{6});", file.read().split("@media")[0])
    return {name: tuple(bytes.fromhex(digits)) for name, digits in found}


# Runs after the page's own script; `result` ends up in the root element.
SCRIPT = """<script>
const result = {}, all = selector => [...document.querySelectorAll(selector)], texts = selector => all(selector).map(e => e.textContent);
const pointer = (canvas, kind, x, y, more = {}) => {
    const box = canvas.getBoundingClientRect(), type = kind === "wheel" ? WheelEvent : PointerEvent;
    canvas.dispatchEvent(new type(kind, {clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true, cancelable: true, ...more}));
};
const key = (canvas, name, more = {}) => canvas.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true, ...more}));
// Frames come when they like; timers keep to the time that the browser is given.
window.requestAnimationFrame = callback => setTimeout(callback, 1);
const drawn = () => new Promise(done => setTimeout(done, 20));
HTMLCanvasElement.prototype.setPointerCapture = () => {};  // there is no such pointer
(async () => {
    await drawn();
    %s
    document.documentElement.dataset.result = JSON.stringify(result);
})();
</script>"""


class PageCase(unittest.TestCase):
    """Loads pages that say in data-status that they are drawn."""

    def with_script(self, page, script):
        with open(page, encoding="utf-8") as file:
            text = file.read()
        at = text.rindex("</body>")
        changed = page.replace(".html", f"_{abs(hash(script))}.html")
        with open(changed, "w", encoding="utf-8") as file:
            file.write(text[:at] + SCRIPT % script + text[at:])
        return changed

    def load(self, page):
        root, tags, console = load(page)
        self.assertEqual(console, [])
        self.assertEqual(root.get("data-status"), "drawn")
        return root, tags

    def use(self, page, script):
        """What `script` found out."""
        root, _ = self.load(self.with_script(page, script))
        self.assertIn("data-result", root, "the script did not come to its end")
        return json.loads(root["data-result"])
