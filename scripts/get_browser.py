"""Make sure that the browser tests find a Chromium: the system's, Playwright's own, or Debian's package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def found() -> str | None:
    """Return the path of an installed Chromium, or None."""
    named = os.environ.get("STROBE_CHROMIUM")
    if named:
        return named
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        path = shutil.which(name)
        if path:
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def main() -> None:
    if path := found():
        print("browser:", path)
        return
    attempts = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get") and os.geteuid() == 0:
        attempts = [["apt-get", "update", "-q"], ["apt-get", "install", "-y", "-q", "chromium"], *attempts]
    for command in attempts:
        print("+", " ".join(command), flush=True)
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        if path := found():
            print("browser:", path)
            return
    print(
        "cannot install Chromium, so browser tests will fail; set STROBE_CHROMIUM to the path of one", file=sys.stderr
    )
    sys.exit(1)


if __name__ == "__main__":
    main()
