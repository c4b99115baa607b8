"""Compare reviewing a set at a time with a pair at a time, by a scripted person: speed and answers.

    python benchmarks/review_modes.py                  # sets of the synthetic world, both modes, then one minute
    offline python benchmarks/review_modes.py --dataset DATA   # another dataset python benchmarks/review_modes.py
    --offline 0      # without the minute

The scripted person sees only the page: the images of the two panes, or of the anchor and the strip, at their displayed
size. Two images are dissimilar if they differ by more than `--limit` grey levels (of 255) in the most different cell of
a 6 × 4 grid. In a strip, the person opens every image within `--doubt` of the limit and judges it at full size, like a
pair. Decisions go through keys, the page, its outbox and a separate server.

Times are the page's own seconds (measured from a key to the next image) plus a model of the person: `--look` for each
viewed image, `--choose` for each decision, `--key` for each key. Differences between people's answers cannot be
measured without people. One pair at a time is the default because people overlook changes in groups of images.
"""

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from strobe.annexes.web.review.store import Store

Grey = NDArray[np.float64]


@dataclass
class Person:
    """The actions of one scripted person in one mode: keys, looks, decisions, and the page's own seconds."""

    page: Page
    limit: float
    doubt: float
    keys: int = 0
    looks: int = 0
    choices: int = 0
    page_s: float = 0.0
    steps: list[float] = field(default_factory=list)

    def press(self, key: str, wait: str = "") -> None:
        """Press a key, and time the page until the awaited element appears."""
        begin = time.perf_counter()
        self.page.keyboard.press(key)
        if wait:
            self.page.wait_for_function(wait)
            self.steps.append(time.perf_counter() - begin)
        self.page_s += time.perf_counter() - begin
        self.keys += 1

    def see(self, selector: str) -> list[Grey]:
        """Return the displayed images. Each counts as a look, and not as time of the page."""
        found = self.page.locator(selector).all()
        self.looks += len(found)
        return [np.asarray(Image.open(io.BytesIO(one.screenshot())).convert("L"), dtype=np.float64) for one in found]

    def differ(self, anchor: Grey, other: Grey) -> float:
        """Return the largest difference of two images over the grid, at the size of the second."""
        size = (other.shape[1], other.shape[0])
        small = np.asarray(
            Image.fromarray(anchor.astype(np.uint8)).resize(size, Image.Resampling.BOX), dtype=np.float64
        )
        apart = np.abs(small - other)
        return max(float(part.mean()) for row in np.array_split(apart, 4) for part in np.array_split(row, 6, axis=1))


SHOWN = "() => document.body.dataset.shown"
MOVED = "() => document.querySelector('#pane-b img') && !document.querySelector('#panes.loading')"


def after(card: str) -> str:
    """Return a condition: the page shows another card, or none is left."""
    shown = f"document.body.dataset.shown && document.body.dataset.shown !== '{card}'"
    return f"() => ({shown}) || !document.getElementById('idle').hidden"


def by_pairs(person: Person) -> None:
    """Review one pair at a time: look at both images, press one key."""
    while person.page.is_visible("#review"):
        card = person.page.evaluate(SHOWN)
        anchor, other = person.see("#panes .zoom img")
        person.choices += 1
        person.press("s" if person.differ(anchor, other) <= person.limit else "1", after(card))


def by_sets(person: Person) -> None:
    """Review a set at a time: scan the strip, mark different images, open doubtful ones, and press Enter."""
    while person.page.is_visible("#review"):
        card = person.page.evaluate(SHOWN)
        (anchor,) = person.see("#pane-a .zoom img")
        apart = [person.differ(anchor, one) for one in person.see("#film img")]
        person.choices += 1
        wanted = [place for place, found in enumerate(apart) if found > person.limit - person.doubt]
        middle = len(apart) / 2
        here = 0
        for by, targets in ((1, [p for p in wanted if p < middle]), (-1, [p for p in reversed(wanted) if p >= middle])):
            if by < 0 and targets:
                person.press("ArrowDown", MOVED)
                here = len(apart) - 1
            for place in targets:
                while here != place:
                    person.press("ArrowRight" if by > 0 else "ArrowLeft", MOVED)
                    here += by
                if apart[place] <= person.limit + person.doubt:  # doubtful, so judged at full size like a pair
                    large, other = person.see("#panes .zoom img")
                    person.choices += 1
                    if person.differ(large, other) <= person.limit:
                        continue
                person.press("1", MOVED)
                here += by
        person.press("Enter", after(card))


class Server:
    """A running `strobe review serve`."""

    def __init__(self, root: Path, database: Path, mode: str, port: int = 0) -> None:
        call = "from strobe.annexes.web.review.command import command; command()"
        given = [
            "serve",
            str(root),
            "--no-open",
            "--port",
            str(port),
            "--at-once",
            mode,
            "--no-verify",
            "--controls",
            "0",
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-c", call, *given, "--db", f"sqlite:///{database}"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        out: Any = self.process.stdout
        self.url = out.readline().split()[-1]

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait(20)


def log_in(browser: Any, url: str) -> Any:
    """Return a page after log-in, with the first card shown."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(url)
    page.wait_for_selector("#login:not([hidden])")
    page.keyboard.type("Ann")
    page.keyboard.press("Enter")
    page.wait_for_function(SHOWN)
    return page


def votes(database: Path) -> dict[tuple[str, str], Any]:
    """Return the votes in a store by pair. A pair with two votes is an error of the page."""
    store = Store(f"sqlite:///{database}")
    found = list(store.all())
    store.close()
    out = {(vote.set_id, vote.frame_id): vote for vote in found}
    if len(out) != len(found):
        raise SystemExit(f"{len(found)} votes on {len(out)} pairs; some pairs have two")
    return out


def offline_minute(browser: Any, root: Path, folder: Path, seconds: float) -> dict[str, int]:
    """Decide sets offline, kill the server, reload the page, and compare stored with made decisions."""
    database = folder / "offline.sqlite"
    server = Server(root, database, "set")
    page = log_in(browser, server.url)
    page.wait_for_load_state("networkidle")
    made: list[str] = []
    page.on("request", lambda r: made.extend(v["verdict_id"] for v in (r.post_data_json or {}).get("votes", ())))
    page.context.set_offline(True)
    begin = time.monotonic()
    while page.is_visible("#review"):
        card = page.evaluate(SHOWN)
        page.keyboard.press("1")
        page.keyboard.press("Enter")
        page.wait_for_function(after(card))
    server.stop()
    page.wait_for_timeout(max(0.0, seconds - (time.monotonic() - begin)) * 1000)
    waiting = page.evaluate("() => Object.keys(localStorage).filter((key) => key.includes(':out:')).length")
    server = Server(root, database, "set", port=int(server.url.rsplit(":", 1)[1]))
    page.context.set_offline(False)
    page.reload()
    page.wait_for_selector("#saved.saved")
    page.wait_for_function("() => !Object.keys(localStorage).some((key) => key.includes(':out:'))")
    page.context.close()
    server.stop()
    stored = {vote.verdict_id for vote in votes(database).values()}
    return {"sets_waiting": waiting, "made": len(set(made)), "stored": len(stored), "lost": len(set(made) - stored)}


def main() -> None:
    """Measure both modes, then the offline minute."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--sets", type=int, default=12)
    for name, default in (
        ("limit", 50.0),
        ("doubt", 6.0),
        ("look", 0.3),
        ("choose", 0.5),
        ("key", 0.2),
        ("offline", 60.0),
    ):
        parser.add_argument(f"--{name}", type=float, default=default)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="strobe-modes-"))
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    root = options.dataset or folder / "world"
    if options.dataset is None:
        call = "from strobe.cli.main import cli; cli()"
        made = ["synthesize", str(root), "--videos", str(options.sets), "--size", "256", "-q"]
        subprocess.run([sys.executable, "-c", call, *made], check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = {}
    with sync_playwright() as playwright:
        path = os.environ.get("STROBE_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for mode, way in (("pair", by_pairs), ("set", by_sets)):
            database = folder / f"{mode}.sqlite"
            server = Server(root, database, mode)
            person = Person(page=log_in(browser, server.url), limit=options.limit, doubt=options.doubt)
            way(person)
            person.page.wait_for_selector("#saved.saved")
            person.page.context.close()
            server.stop()
            cast = votes(database)
            spent = (
                person.page_s
                + options.look * person.looks
                + options.choose * person.choices
                + options.key * person.keys
            )
            found[mode] = {
                "pairs": len(cast), "dissimilar": sum(vote.decision == "dissimilar" for vote in cast.values()),
                "keys": person.keys, "keys_per_100_pairs": round(100 * person.keys / len(cast), 1),
                "looks": person.looks, "choices": person.choices, "page_s": round(person.page_s, 1),
                "key_to_picture_ms": round(1000 * float(np.median(person.steps)), 1),
                "pairs_per_minute": round(60 * len(cast) / spent, 1),
                "pairs_per_minute_of_the_page": round(60 * len(cast) / person.page_s, 1),
            }  # fmt: skip
            found[f"votes_{mode}"] = cast
        one, other = found.pop("votes_pair"), found.pop("votes_set")
        found["differ"] = sum(one[pair].decision != other[pair].decision for pair in one)
        found["same_pairs"] = set(one) == set(other)
        if options.offline:
            found["offline"] = offline_minute(browser, root, folder, options.offline)
        browser.close()
    shutil.rmtree(folder)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
