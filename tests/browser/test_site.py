"""The site of docs/ in a real browser: it can be searched, and asks nothing of the network."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docs_site
import pytest
from playwright.sync_api import sync_playwright

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine; un-skip by installing it (apt-get install chromium)"
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *said: Any) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Search needs a server; pages alone would open from the disk."""
    serve = functools.partial(Quiet, directory=str(docs_site.build(tmp_path)))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_word_is_found(address: str) -> None:
    asked: list[str] = []
    said: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{address}/tutorial.html")
        page.wait_for_load_state("networkidle")
        assert page.evaluate("[...document.images].map(picture => picture.naturalWidth > 0)") == [True] * 5
        page.keyboard.press("Control+k")
        page.get_by_placeholder("Search").fill("super-survivor")
        page.get_by_text("A unit that survives with every seed of fine-tuning.").first.click()
        page.wait_for_url("**/glossary.html*")
        assert page.get_by_role("heading", name="super-survivor").is_visible()
        browser.close()
    assert not [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert not said
