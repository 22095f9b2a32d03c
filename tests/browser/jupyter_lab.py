"""JupyterLab as a person meets it: started for a folder, and driven in a browser by clicks and keys.

Nothing here knows a drill. Everything waits on what the page shows, never for a time.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from mirror.drill import saving
from mirror.lab import ports
from mirror.waiting import wait_until

BROWSER_VARIABLE = "MIRROR_BROWSER"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Environment variable that names the browser's program; without it, the first of the names that is on the PATH."""

_START_SECONDS = 300.0
# A kernel imports Spark and pandas before its first cell, on a machine that has other things to do.
_CLICK_MS = 120_000.0


def find_browser() -> str:
    """Return the program of the browser; without one the test fails, and says how to get it."""
    named = os.environ.get(BROWSER_VARIABLE)
    found = next(filter(None, map(shutil.which, [named] if named else BROWSERS)), None)
    if found is None:
        looked = (
            f"{BROWSER_VARIABLE}={named} is no program" if named else f"none of {', '.join(BROWSERS)} is on the PATH"
        )
        pytest.fail(
            f"{looked}: install Chromium (on Debian: apt-get install chromium; on macOS: brew install chromium), "
            f"or name the program of a Chromium in {BROWSER_VARIABLE}",
            pytrace=False,
        )
    return found


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Run the browser without a screen."""
    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root, as whom it runs in most containers.
        browser = playwright.chromium.launch(executable_path=find_browser(), chromium_sandbox=os.geteuid() != 0)
        yield browser
        browser.close()


@contextmanager
def jupyter_lab(folder: Path, first: str) -> Iterator[str]:
    """Serve the notebooks of a folder as `make lab` does; yield the address that it opens, with the token.

    What JupyterLab keeps for itself is kept beside the folder: nobody's own settings count, or change.
    """
    (port,) = ports.choose(1)
    token = secrets.token_hex(16)
    own = {
        f"JUPYTER{name}_DIR": str(folder.parent / "jupyter" / name.strip("_").lower())
        for name in ("LAB_SETTINGS", "LAB_WORKSPACES", "_CONFIG", "_DATA", "_RUNTIME")
    }
    # Else it asks whether one would like to hear news.
    settings = Path(own["JUPYTERLAB_SETTINGS_DIR"]) / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    argv = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port_retries=0"),
        f"--config={Path(saving.__file__).with_name('jupyter_config.py')}",
        *(f"--notebook-dir={folder}", f"--LabApp.default_url=/lab/tree/{first}", f"--ServerApp.port={port}"),
        f"--IdentityProvider.token={token}",
    ]
    log = folder.parent / "jupyter.log"
    with log.open("wb") as out:
        server = subprocess.Popen(argv, cwd=folder.parent, env=os.environ | own, stdout=out, stderr=out)
    address = f"http://{ports.LOOPBACK}:{port}/"
    try:
        wait_until(
            lambda: server.poll() is not None or _answers(f"{address}api?token={token}"),
            "JupyterLab to answer",
            timeout_seconds=_START_SECONDS,
        )
        assert server.poll() is None, log.read_text()
        yield f"{address}?token={token}"
    finally:
        server.terminate()  # it ends its kernels, too
        server.wait(_START_SECONDS)


def _answers(address: str) -> bool:
    try:
        with urlopen(address) as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


@dataclass(frozen=True, slots=True)
class OpenNotebook:
    """A notebook that is open in JupyterLab, in front of all others."""

    page: Page
    name: str

    @property
    def panel(self) -> Locator:
        """Its panel."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    @property
    def text(self) -> str:
        """All that its cells show."""
        return "\n".join(self.panel.locator(".jp-Cell-outputArea").all_inner_texts())

    def wait_until_ready(self) -> None:
        """Wait for its tab to be in front, and for its kernel."""
        tab = self.page.locator(f".lm-DockPanel-tabBar .lm-TabBar-tab.lm-mod-current:has-text('{self.name}')")
        expect(tab).to_be_visible(timeout=_CLICK_MS)
        expect(self.panel.locator(".jp-CodeCell").first).to_be_visible(timeout=_CLICK_MS)
        # Its own toolbar: the status bar may still be about the notebook that was in front before.
        expect(self.panel.locator(".jp-Toolbar-kernelName")).to_contain_text("(ipykernel)", timeout=_CLICK_MS)
        idle = self.panel.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']")
        expect(idle.first).to_be_attached(timeout=_CLICK_MS)

    def select(self, holding: str) -> None:
        """Click beside the cell that holds a text: it is selected, and not edited."""
        cell = self.panel.locator(".jp-Cell", has_text=holding).first
        cell.locator(".jp-InputPrompt, .jp-MarkdownOutput").first.click(timeout=_CLICK_MS)
        expect(cell).to_have_class(re.compile("jp-mod-selected"))

    def run_the_cell(self) -> None:
        """Click on the button that runs the selected cell."""
        self.panel.locator("[data-command='notebook:run-cell-and-select-next']").first.click(timeout=_CLICK_MS)

    def run_all_by_keys(self) -> None:
        """Go from the first cell to the last with Shift and Enter.

        A notebook that has just been opened may not have the keyboard yet; keys before the cell is there are lost.
        """
        cells = self.panel.locator(".jp-Notebook .jp-Cell")
        cells.first.locator(".jp-InputPrompt, .jp-MarkdownOutput").first.click(timeout=_CLICK_MS)
        for place in range(cells.count()):
            expect(cells.nth(place)).to_have_class(re.compile("jp-mod-selected"), timeout=_CLICK_MS)
            self.page.keyboard.press("Shift+Enter")

    def run_from_the_menu(self, item: str) -> None:
        """Choose from the menu Run."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
        self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{item}$")).click()

    def see(self, said: str, *, seconds: float) -> None:
        """Wait until a cell shows this."""
        shown = self.panel.locator(".jp-Cell-outputArea", has_text=said).first
        expect(shown).to_be_attached(timeout=1000 * seconds)

    def answer(self, typed: str, *, seconds: float) -> None:
        """Wait until a cell asks, and type an answer."""
        box = self.panel.locator("input.jp-Stdin-input")
        box.wait_for(timeout=1000 * seconds)
        box.fill(typed)
        box.press("Enter")

    def follow(self, link: str) -> OpenNotebook:
        """Click on a link to another notebook."""
        self.panel.locator(".jp-Cell-outputArea a", has_text=link).first.click(timeout=_CLICK_MS)
        opened = OpenNotebook(self.page, link)
        opened.wait_until_ready()
        return opened
