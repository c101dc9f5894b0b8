"""A headless Chromium over its debugging pipe, with nothing but the standard library."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
ALONE = (
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""What the browser would otherwise do on its own: the page's requests are all there are."""


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page; `requests` collects every address it asked for, `complaints` what the browser logged."""

    def __init__(self, out: int, back: int) -> None:
        self.out, self.back = os.fdopen(out, "wb", 0), os.fdopen(back, "rb", 0)
        self.count, self.session, self.buffer = 0, "", b""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        self.out.write(json.dumps(message | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        while (answer := self._receive()).get("id") != self.count:
            pass
        assert "error" not in answer, answer
        return dict(answer["result"])

    def open(self, page: Path | str, width: int, height: int = 900) -> None:
        """A file, or an address."""
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """What an expression is once it is true."""
        polled = f"const t = () => {{ const v = ({expression}); v ? r(v) : setTimeout(t, 20); }}; t();"
        wrapped = f"new Promise(r => {{ {polled} }})"
        found = self.call("Runtime.evaluate", expression=wrapped, returnByValue=True, awaitPromise=True)
        return found["result"].get("value")

    def click(self, selector: str, across: float = 0.5, down: float = 0.5) -> None:
        """Press and release the mouse on an element, at a share of its width and height."""
        found = f"const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}})"
        box = "const b = e.getBoundingClientRect()"
        place = f"[b.left + {across} * b.width, b.top + {down} * b.height]"
        x, y = self.evaluate(f"(() => {{ {found}; {box}; return {place}; }})()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            part = self.back.read(1 << 16)
            assert part, "the browser ended"
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(message["params"]))
        return dict(message)


@contextmanager
def open_page(browser: str, profile: Path) -> Iterator[Page]:
    commands_read, commands_write = os.pipe()
    answers_read, answers_write = os.pipe()
    words = [browser, *FLAGS, *ALONE, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]

    def connect() -> None:
        """Chromium reads commands from descriptor 3 and answers on 4; neither may be lost under the other."""
        reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands_read, answers_write))
        os.dup2(reading, 3)
        os.dup2(writing, 4)

    process = subprocess.Popen(words, preexec_fn=connect, pass_fds=(3, 4), stderr=subprocess.DEVNULL)
    os.close(commands_read)
    os.close(answers_write)
    try:
        yield Page(commands_write, answers_read)
    finally:
        process.terminate()
        process.wait(20)
