"""Print a page to PDF with an installed Chromium."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from strobe.core.errors import StrobeError, printable
from strobe.core.files import write_bytes

Paper = Literal["A4", "letter"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_SECONDS = 300


def chromium() -> str:
    """Return the path of a Chromium browser: the one in STROBE_CHROMIUM, or the first on the PATH.

    Raises:
        StrobeError: None is installed.
    """
    named = os.environ.get("STROBE_CHROMIUM")
    path = named if named and Path(named).is_file() else next(filter(None, map(shutil.which, _NAMES)), None)
    if named and path != named:
        raise StrobeError(f"STROBE_CHROMIUM is {printable(named)}, which is not a file; set it to a Chromium browser")
    if path is None:
        raise StrobeError(
            "a PDF needs Chromium or Chrome, and none was found; install one (Debian: apt-get install chromium) or set "
            "STROBE_CHROMIUM to its path. report.html can also be printed from any browser"
        )
    return path


def print_pdf(html: str, target: Path) -> None:
    """Print the page to the file `target`. The page is read from a temporary folder, without a network.

    Raises:
        StrobeError: Chromium is missing or fails.
    """
    browser = chromium()
    with tempfile.TemporaryDirectory(prefix="strobe-pdf-") as name:
        folder = Path(name)
        page, made = folder / "report.html", folder / "report.pdf"
        page.write_text(html, encoding="utf-8")
        words = [browser, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder / 'profile'}"]
        words += ["--host-resolver-rules=MAP * ~NOTFOUND", "--no-pdf-header-footer", f"--print-to-pdf={made}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            words.append("--no-sandbox")  # Chromium refuses to run as root with its sandbox
        try:
            done = subprocess.run([*words, page.as_uri()], capture_output=True, text=True, timeout=_SECONDS)  # noqa: S603  # a fixed program on our own file
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StrobeError(f"{printable(browser)} could not print the report: {printable(error)}") from error
        if done.returncode or not made.is_file():
            last = printable((done.stderr.strip().splitlines() or ["no message"])[-1])
            raise StrobeError(f"{printable(browser)} could not print the report: {last}")
        write_bytes(target, made.read_bytes())
