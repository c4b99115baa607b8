"""`strobe view`: serve the viewer of runs and datasets until interrupted."""

import getpass
import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strobe.analyses.comparison import Comparison, change
from strobe.analyses.plan import ScoreOptions
from strobe.annexes.web.review.workflow import write_part
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.files import matching
from strobe.core.late import require
from strobe.core.locks import writing
from strobe.core.names import short_names
from strobe.core.parquet import read_footer
from strobe.core.ports import Silent
from strobe.core.tables import Boxes, Frames, Labels
from strobe.core.user_secret import server_secret
from strobe.report.clips import clip_lines
from strobe.report.view import shorter
from strobe.workflows.compare import compare_runs

if TYPE_CHECKING:
    from strobe.annexes.web.view.access import ViewRole
    from strobe.annexes.web.view.index import DatasetIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """The address and the people. Without invited names, only this machine can be served."""

    host: str = "127.0.0.1"
    port: int = 8322
    public_url: str | None = None
    proxy: tuple[str, ...] = ()
    name: str | None = None
    invite: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewLinks:
    """The link of the owner, and a read-only link for each invited name."""

    owner: str
    personal: Mapping[str, str] = field(default_factory=dict)


def serve_view(places: Sequence[Path], options: ViewOptions, *, on_ready: Callable[[ViewLinks], None]) -> None:
    """Serve the viewer until interrupted. `on_ready` receives the links once the server listens."""
    for package in ("fastapi", "uvicorn"):
        require(package, what="the viewer", extra="review")
    from strobe.annexes.web.view.library import Library

    secret = server_secret()
    scope = "\n".join(sorted(str(place.resolve()) for place in places))
    library = Library(places, secret=hashlib.sha256(secret + scope.encode()).digest())
    library.warm_up()  # reading waits for the disk and Arrow, and importing the server for the interpreter
    from strobe.annexes.web.guard import ServerAddress, is_loopback
    from strobe.annexes.web.serve import bind, run
    from strobe.annexes.web.view.access import ViewKeys
    from strobe.annexes.web.view.app import ViewWork, make_view_app
    from strobe.core.annotators import Spellings

    public = not is_loopback(options.host) or options.public_url is not None
    if public and not options.invite:
        raise StrobeError(
            f"a server that others can reach ({printable(options.public_url or options.host)}) needs <<invite=NAME>>; "
            "without it, only this machine can be served"
        )
    names = Spellings([])
    owner = names.checked(options.name or _user())
    people: dict[str, ViewRole] = {owner: "owner", **{names.checked(name): "guest" for name in options.invite}}
    if len(people) != 1 + len(options.invite):
        raise InvalidValue(f"<<invite>>: {printable(owner)} owns this viewer; invite other names")
    with closing(bind(options.host, options.port)) as listener:
        port = int(listener.getsockname()[1])
        address = ServerAddress.of(options.host, port, options.public_url)
        keys = ViewKeys(people, secret=secret, scope=scope)
        app = make_view_app(library, keys, ViewWork(compare=compare_aside, write=write_selection), address)
        links = {name: f"{address.url}/#key={keys.key_of(name)}" for name in people}
        ready = partial(on_ready, ViewLinks(owner=links.pop(owner), personal=links))
        run(app, listener, proxies=options.proxy, on_ready=ready)


def list_view(places: Sequence[Path]) -> dict[str, Any]:
    """Return what the viewer would show, without a server: every run with its state, figures and counts of sets."""
    from strobe.annexes.web.view.library import Library
    from strobe.annexes.web.view.runs import RunTable

    library = Library(places, secret=b"")
    if not library.datasets and not library.found.runs:
        shown = ", ".join(printable(place) for place in places)
        raise StrobeError(f"no run and no dataset found in {shown}; make a run with strobe eval")
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for key in library.datasets:
        try:
            index = library.index(key)
        except StrobeError as error:
            if not library.found.runs and len(library.datasets) == 1:
                raise
            library.refuse(key, str(error))
            continue
        for shown, model in library.models(key).items():
            counts.setdefault(model.run, {})[model.model] = index.models[shown].counts()
    content = RunTable(library).content()
    for run in content["runs"]:
        for row in run["models"]:
            row["sets"] = counts.get(run["id"], {}).get(row["model"])
    return content


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without users
        return "owner"


LARGE = 60_000
"""From this many frames on, models are compared in a process of its own, whose memory is freed afterwards."""


def compare_aside(rows: Sequence[tuple[Path, str]]) -> dict[str, Any]:
    """Return `compare_words`, computed in another process if the data are large."""
    frames = [read_footer(file).n_rows for path, _ in rows for file in matching(path, "frames/*.parquet")]
    if max(frames, default=0) < LARGE:
        return compare_words(rows)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as aside:
        return aside.submit(compare_words, rows).result()


def compare_words(rows: Sequence[tuple[Path, str]]) -> dict[str, Any]:
    """Compare these models of runs, and return the sentences of `strobe compare` and the changed sets."""
    runs = list(dict.fromkeys(path for path, _ in rows))
    folders = dict(zip(runs, short_names([str(path.resolve()) for path in runs]), strict=True))
    names = list(dict.fromkeys(model for _, model in rows))
    compared = compare_runs(
        runs, models=names, options=ScoreOptions(), subset=None, progress=Silent(), allow_missing=True
    )
    comparisons = compared.comparisons
    wanted = {one: index for index, (run, model) in enumerate(rows) for one in (model, f"{folders[run]}/{model}")}
    chosen = [one for one in comparisons if one.a in wanted and one.b in wanted]
    clips = [clip for clip in compared.clips if clip.old in wanted and clip.new in wanted]
    if not chosen and not clips:
        raise InvalidValue("these models cannot be compared; choose models of one task on one dataset")
    short = shorter(
        [name for one in chosen for name in (one.a, one.b)] + [name for clip in clips for name in (clip.old, clip.new)]
    )
    on_clips = [
        {"metric": clip.lead or "", "text": short(printable(line, limit=2000)), "n": clip.n_frames}
        for clip in clips
        for line in clip_lines(clip)
    ]
    return {
        "sentences": [*(_sentence(one, short) for one in chosen), *on_clips],
        "changes": [_change(one, short, wanted) for one in chosen if change(one) is not None],
        "cautions": list(dict.fromkeys(printable(line, limit=600) for one in chosen for line in one.cautions or ())),
    }


def _sentence(one: Comparison, short: Callable[[str], str]) -> dict[str, Any]:
    return {"metric": one.metric, "text": short(printable(one.sentence, limit=2000)), "n": one.n_sets}


def _change(one: Comparison, short: Callable[[str], str], places: Mapping[str, int]) -> dict[str, Any]:
    """Return the newly held and newly broken sets; `before` and `after` are places in the request."""
    found = change(one)
    if found is None:
        raise InvalidValue(f"{one.metric} has no changed sets")
    return {
        "text": short(printable(found.sentence(), limit=2000)),
        "words": list(found.words),
        "before": places[found.before],
        "after": places[found.after],
        "held": found.newly_held,
        "broken": found.newly_broken,
        "by_box": found.detection,
    }


def write_selection(index: "DatasetIndex", rows: Sequence[int], name: str, query: str) -> Path:
    """Write these sets as a dataset folder next to their dataset, with hard links to its images. Return the folder."""
    index.expect_in_place()
    dataset = index.dataset
    chosen = np.zeros(dataset.n_sets, dtype=bool)
    chosen[list(rows)] = True
    ids = "\n".join(sorted(str(one) for one in dataset.sets.set_id[chosen].tolist()))
    source = {"selected_from": dataset.digest(), "selected_sets": hashlib.sha256(ids.encode()).hexdigest()}
    part = _without_other_frames(dataset.keep_rows(chosen[dataset.sets.set]))
    # People have voted on the whole dataset, not on this part of it.
    reviewed = "none" if dataset.info.reviewed == "votes" else dataset.info.reviewed
    part = replace(part, info=replace(dataset.info, name=f"{dataset.name}-{name}", reviewed=reviewed))
    out = index.path.resolve().parent / f"{index.path.resolve().name}-{name}"
    with writing(out):
        write_part(part, part, out, {**source, "selection": query[:2000]})
    return out


def _without_other_frames(part: Dataset) -> Dataset:
    """Return the part with only the frames of its sets. If frames are rendered from others, all frames are kept."""
    used = np.zeros(len(part.frames), dtype=bool)
    used[part.sets.frame] = True
    if used.all() or bool((part.frames.recipe != "").any()):
        return part
    place = np.cumsum(used) - 1
    own = used[part.labels.frame]
    boxes = part.boxes
    if boxes is not None:
        seen = used[boxes.frame]
        columns = {name: getattr(boxes, name)[seen] for name in Boxes.__slots__}
        boxes = Boxes(**columns | {"frame": place[columns["frame"]]})
    return replace(
        part,
        frames=Frames(**{name: getattr(part.frames, name)[used] for name in Frames.__slots__}),
        sets=replace(part.sets, frame=place[part.sets.frame].astype(np.int32)),
        labels=Labels(frame=place[part.labels.frame[own]], label=part.labels.label[own]),
        boxes=boxes,
    )
