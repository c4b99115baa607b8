"""The review verbs: serve the page, say how far it is, write its outcome to the dataset, take in others' votes."""

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import make_folder, read_json, write_json
from strobe.core.late import require
from strobe.core.records import Verdict
from strobe.review.conduct import Conduct, ReviewSettings

if TYPE_CHECKING:
    from strobe.review.store import Store

__all__ = ["Links", "ServeOptions", "export", "import_votes", "serve", "status"]

MIN_TOKEN = 12
"""The shortest shared token taken: shorter ones can be guessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Where and for whom to serve. Without a token or invited names only this machine can be served."""

    db: str | None = None
    host: str = "127.0.0.1"
    port: int = 8321
    token: str | None = None
    public_url: str | None = None
    invite: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where people go: the page, the admin page, and one personal link for each invited name."""

    url: str
    admin: str
    personal: dict[str, str] = field(default_factory=dict)


def serve(folder: Path, options: ServeOptions, settings: ReviewSettings, *, on_ready: Callable[[Links], None]) -> None:
    """Serve the review page of a dataset until interrupted; `on_ready` is told the links once it listens."""
    for package in ("fastapi", "uvicorn", "sqlalchemy"):
        require(package, what="the review page", extra="review")
    from strobe.review.app import Access, make_app
    from strobe.review.guard import ServerAddress, is_loopback
    from strobe.review.people import People
    from strobe.review.secret import server_secret
    from strobe.review.serve import bind, run
    from strobe.review.sessions import Sessions
    from strobe.workflows.sources import frame_source

    guarded = options.token is not None or bool(options.invite)
    public = not is_loopback(options.host) or options.public_url is not None
    if public and not guarded:
        raise StrobeError(
            f"a server others can reach ({printable(options.public_url or options.host)}) needs --token SECRET "
            "or --invite NAME; without one only this machine is served"
        )
    if options.token is not None and len(options.token) < MIN_TOKEN:
        raise StrobeError(f"--token: expected at least {MIN_TOKEN} characters, so that it cannot be guessed")
    dataset = _read(folder)
    with closing(bind(options.host, options.port)) as listener, _open(folder, options.db) as store:
        store.prepare(dataset, settings)
        port = int(listener.getsockname()[1])
        address = ServerAddress.of(options.host, port, options.public_url)
        people = People(store)
        invited = [people.invite(name, "annotator") for name in options.invite]
        invited += [people.invite(name, "observer") for name in options.observers]
        admin_key = secrets.token_urlsafe(24)
        access = Access(
            address=address, secret=server_secret(), token=options.token, admin_key=admin_key,
            invited_only=guarded and options.token is None,
        )  # fmt: skip
        sessions = Sessions(people, secret=access.secret, mode=access.mode)
        personal = {person.name: f"{address.url}/#key={sessions.new_key(person)}" for person in invited}
        app = make_app(dataset, store, frame_source(dataset), access)
        links = Links(
            url=address.url,
            admin=f"{address.url}/admin" + ("" if access.is_open else f"#key={admin_key}"),
            personal=personal,
        )
        run(app, listener, on_ready=lambda: on_ready(links))


def status(folder: Path, *, db: str | None = None) -> dict[str, Any]:
    """Progress, agreement, attention and pace of a review, from the store and the votes in the folder."""
    from strobe.review.summary import summarise

    dataset = _read(folder)
    votes, conduct = _all_votes(folder, dataset, db)
    return {"dataset": dataset.name, **summarise(dataset, votes, conduct=conduct)}


def export(folder: Path, *, db: str | None = None, out: Path | None = None) -> dict[str, Any]:
    """Write every vote into the dataset folder, and review.json with the figures; the same votes give the same bytes.

    With `out` the reviewed sets are also written as a dataset folder of their own, its media hard links to these.
    """
    from strobe.core.derivation import derive, reviewed
    from strobe.datasets.folder import append_verdicts, write
    from strobe.datasets.making import made_before
    from strobe.review.summary import summarise

    dataset = _read(folder)
    votes, conduct = _all_votes(folder, dataset, db)
    if not votes:
        raise StrobeError(f"{printable(folder)}: there are no votes to export yet; strobe review serve collects them")
    dataset = append_verdicts(folder, votes)
    derivation = derive(dataset)
    figures = {"schema": 1, "dataset": dataset.name, **summarise(dataset, dataset.verdicts, conduct=conduct)}
    figures["undecided_labels"] = list(derivation.undecided_labels)
    write_json(folder / "review.json", figures)
    if out is not None:
        files = _media_files(dataset)
        kept = reviewed(dataset)
        source = {"reviewed_from": dataset.digest()}
        info = replace(kept.info, reviewed="release", provenance={**kept.info.provenance, **source})
        old = made_before(out, lambda old: {**old.info.provenance, **source} == old.info.provenance)
        write(replace(kept, info=info, verdicts=()), out, overwrite=old is not None)
        _link_media(files, out)
    return figures


def import_votes(folder: Path, file: Path, *, annotator: str, db: str | None = None) -> dict[str, Any]:
    """Take votes made elsewhere into the store; reading the same file again adds nothing."""
    from strobe.review.votes import read_votes

    dataset = _read(folder)
    known = {verdict.annotator for verdict in dataset.verdicts}
    if _has_store(folder, db):
        with _open(folder, db) as store:
            known |= set(store.names())
    found = read_votes(file, dataset, annotator=annotator, known=sorted(known))
    with _open(folder, db) as store:
        # As it is run already: an import leaves the queue of others as it is.
        conduct = store.conduct()
        settings = ReviewSettings() if conduct is None else conduct.settings
        store.prepare(dataset, settings, remember=conduct is not None)
        added = store.extend(found.verdicts)
    return {"read": len(found.verdicts), "added": added, "elsewhere": found.elsewhere}


def _media_files(dataset: Dataset) -> dict[str, Path]:
    """Where each stored frame lies, by its path in the folder; those that are not there left out.

    Anything but a regular file inside the folder is refused: a link or a pipe could stand for any file of this machine.
    """
    from strobe.datasets.media import MediaSource

    source, out = MediaSource(dataset), {}
    for row, relative in enumerate(dataset.frames.media.tolist()):
        if relative and (path := source.path(row)).exists():
            if not stat.S_ISREG(path.lstat().st_mode):
                raise InvalidFile(path, "not a regular file")
            out[relative] = path
    return out


def _link_media(files: Mapping[str, Path], out: Path) -> None:
    """The frames' files in the new folder too: hard links, or copies where the disk cannot link."""
    for relative, source in files.items():
        target = out / relative
        if target.exists() or not target.resolve().is_relative_to(out.resolve()):
            continue
        make_folder(target.parent)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target, follow_symlinks=False)


def _read(folder: Path) -> Dataset:
    from strobe.datasets.folder import read

    return read(folder)


def _open(folder: Path, db: str | None) -> "AbstractContextManager[Store]":
    require("sqlalchemy", what="the review store", extra="review")
    from strobe.review.store import Store

    own = folder / "review.sqlite"
    if db is None and own.is_symlink():
        raise StrobeError(f"{printable(own)} is a link, and may lead to any file; name the store itself with --db")
    return closing(Store(db or f"sqlite:///{own.absolute()}"))


def _has_store(folder: Path, db: str | None) -> bool:
    """Whether there is a store to look into; looking must not make one."""
    return db is not None or (folder / "review.sqlite").exists()


def _all_votes(folder: Path, dataset: Dataset, db: str | None) -> tuple[Sequence[Verdict], Conduct | None]:
    """The votes in the folder and those in the store, each once, oldest first, and how the review was run.

    Where there is no store, the last export may have said how.
    """
    conduct = None
    found = {verdict.verdict_id: verdict for verdict in dataset.verdicts}
    if _has_store(folder, db):
        with _open(folder, db) as store:
            store.check(dataset)
            found |= {verdict.verdict_id: verdict for verdict in store.all()}
            conduct = store.conduct()
    exported = folder / "review.json"
    if conduct is None and exported.is_file():
        figures = read_json(exported)
        conduct = Conduct.from_json(figures.get("conduct") if isinstance(figures, dict) else None)
    return sorted(found.values(), key=lambda verdict: (verdict.at, verdict.verdict_id)), conduct
