"""The review commands: serve the page, show its progress, write its result to the dataset, import answers.

Each command is about one question (`ask`): pairs, name, box or check. All questions share one store.
"""

import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from strobe.analyses.results import Cohort
from strobe.annexes.web.review.conduct import Conduct, Example, ReviewOptions, ServeOptions, exported_conduct
from strobe.annexes.web.review.questions import QUESTIONS
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import make_folder, reading, write_json
from strobe.core.late import require
from strobe.core.locks import writes, writing
from strobe.core.people import GROWING, PEOPLE, questions_of
from strobe.core.ports import Progress, Silent

if TYPE_CHECKING:
    from strobe.annexes.web.review.label_plan import QuestionPlan, QuestionsFrom
    from strobe.annexes.web.review.question import Question
    from strobe.annexes.web.review.store import Content, Store


MIN_TOKEN = 12
"""The length of the shortest accepted token. Shorter tokens can be guessed."""

MAX_GUIDELINES = 60_000
"""The length of the longest accepted guidelines. People do not read more before they vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The page, the admin page, and a personal link for each invited name."""

    url: str
    admin: str
    personal: dict[str, str] = field(default_factory=dict)


def _planned(folder: Path, plan: "QuestionsFrom", ask: str, db: str | None, seed: int) -> "QuestionPlan":
    """Draw or extend the sample of sets, using every name that people have given so far."""
    from strobe.annexes.web.review.label_plan import plan_questions

    names = _all_answers(folder, _read(folder), "name", db)[0] if ask == "name" else ()
    return plan_questions(folder, plan, "name" if ask == "name" else "check", seed=seed, names=names)


def _sample(folder: Path, ask: str) -> str | None:
    """Return a digest of the sets that people are asked about, or None if they are asked about all of them."""
    if ask not in ("name", "check") or not (folder / "samples.parquet").is_file():
        return None
    asked = questions_of(_read(folder).samples, ask)
    return hashlib.sha256("\n".join(asked).encode()).hexdigest() if asked else None


def _only(what: str) -> list[str]:
    """Return the questions to which a setting or an option applies. Other questions do not accept it."""
    return [name for name, one in QUESTIONS.working().items() if what in (*one.settings, *one.takes)]


def serve(
    folder: Path,
    options: ServeOptions,
    settings: ReviewOptions,
    *,
    ask: str = "pairs",
    suggest: str | None = None,
    plan: "QuestionsFrom | None" = None,
    guidelines: Path | None = None,
    examples: Path | None = None,
    on_plan: Callable[["QuestionPlan"], None] = lambda _plan: None,
    on_ready: Callable[[Links], None],
) -> None:
    """Serve the review page of a dataset until interrupted. `on_ready` receives the links once the server listens.

    `suggest` names the run or file whose boxes are suggested to people who draw boxes. `plan` draws or extends the
    sample of sets that people name or check, and `on_plan` receives it. `guidelines` is a Markdown file to show on the
    page. `examples` is a file of correct votes to practise on.
    """
    for package in ("fastapi", "uvicorn", "sqlalchemy"):
        require(package, what="the review page", extra="review")
    from strobe.annexes.web.guard import ServerAddress, is_loopback

    usual = ReviewOptions()
    given = [one.name for one in fields(settings) if getattr(settings, one.name) != getattr(usual, one.name)]
    given += [
        name for name, value in (("suggest", suggest), ("plan", plan), ("examples", examples)) if value is not None
    ]
    for name in given:
        if (only := _only(name)) and ask not in only:
            raise StrobeError(f"<<{name.removesuffix('_s')}>> only works with <<ask={' or '.join(only)}>>")
    guarded = options.token is not None or bool(options.invite)
    public = not is_loopback(options.host) or options.public_url is not None
    if public and not guarded:
        raise StrobeError(
            f"a server that others can reach ({printable(options.public_url or options.host)}) needs <<token=SECRET>> "
            "or <<invite=NAME>>; without them, only this machine can be served"
        )
    if options.token is not None and len(options.token) < MIN_TOKEN:
        raise StrobeError(f"<<token>>: expected at least {MIN_TOKEN} characters, so that it cannot be guessed")
    if plan is not None:
        on_plan(_planned(folder, plan, ask, options.db, settings.seed))
    settings = replace(settings, sample=_sample(folder, ask))
    content = _content(folder)
    with ThreadPoolExecutor(1) as beside:
        # Read the dataset and import the server at the same time: reading waits for the disk and Arrow, importing for
        # the interpreter.
        reading = beside.submit(_read, folder, people=False)
        from strobe.annexes.web.review.app import make_app
        from strobe.annexes.web.review.people import People
        from strobe.annexes.web.review.service import Access
        from strobe.annexes.web.review.sessions import Sessions
        from strobe.annexes.web.serve import bind, run
        from strobe.core.user_secret import server_secret
        from strobe.store.opening import LateSource, frame_source

        dataset = reading.result()
    settings = replace(settings, guidelines=None if guidelines is None else _guidelines(guidelines))
    if "examples" in QUESTIONS[ask].takes:
        settings = replace(settings, examples=_examples(dataset, settings, examples))
    with closing(bind(options.host, options.port)) as listener, _open(folder, options.db, ask) as store:
        if suggest is not None:
            _suggest(store, dataset, suggest)
        known = store.is_laid_out(settings, content)
        # A plan that already exists was checked at an earlier start.
        source = LateSource(dataset) if known else frame_source(dataset)
        store.prepare(dataset if known else _read(folder), settings, content=content)
        port = int(listener.getsockname()[1])
        address = ServerAddress.of(options.host, port, options.public_url)
        people = People(store)
        invited = [people.invite(name, "annotator") for name in options.invite]
        invited += [people.invite(name, "observer") for name in options.observers]
        admin_key = secrets.token_urlsafe(24)
        access = Access(
            address=address,
            secret=server_secret(),
            token=options.token,
            admin_key=admin_key,
            invited_only=guarded and options.token is None,
        )
        sessions = Sessions(people, secret=access.secret, mode=access.mode)
        personal = {person.name: f"{address.url}/#key={sessions.new_key(person)}" for person in invited}
        app = make_app(dataset, store, source, access)
        links = Links(
            url=address.url,
            admin=f"{address.url}/admin" + ("" if access.is_open else f"#key={admin_key}"),
            personal=personal,
        )
        run(app, listener, proxies=options.proxy, on_ready=lambda: on_ready(links))


def _guidelines(path: Path) -> str:
    """Return the guidelines. The page renders them as text and never as HTML."""
    with reading(path):
        text = path.read_text(encoding="utf-8-sig")
    if not text.strip() or len(text) > MAX_GUIDELINES:
        raise InvalidFile(
            path, f"expected Markdown text of at most {MAX_GUIDELINES:,} characters", hint="for <<guidelines>>"
        )
    return text


def _examples(dataset: Dataset, settings: ReviewOptions, path: Path | None) -> tuple[Example, ...]:
    from strobe.annexes.web.review.examples import plain_examples, read_examples

    if path is None:
        return plain_examples(dataset, settings.practice or 0, seed=settings.seed)
    return read_examples(path, dataset)[: settings.practice]


def _suggest(store: "Store", dataset: Dataset, source: str) -> None:
    from strobe.annexes.web.review.suggest import suggestions

    question: Any = store.question
    question.suggestions = suggestions(dataset, source)


def status(folder: Path, *, ask: str = "pairs", db: str | None = None) -> dict[str, Any]:
    """Return the state of the review for one question, from the store and the answers in the folder."""
    dataset = _read(folder)
    answers, conduct = _all_answers(folder, dataset, ask, db)
    return {"dataset": dataset.name, **_question(ask).summarise(dataset, answers, conduct)}


@writes("folder")
def export(
    folder: Path,
    *,
    ask: str = "pairs",
    db: str | None = None,
    out: Path | None = None,
    crops: Path | None = None,
    unreviewed: Literal["exclude", "keep"] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write every answer and the figures into the dataset folder. The same answers give the same bytes.

    With `out`, the result is also written as a new dataset folder with hard links to the media: for pairs the reviewed
    sets, for boxes the sets whose anchor is kept, with the drawn boxes. With `crops`, the kept images are cropped to
    their boxes and written to that folder. `unreviewed` decides whether sets without any vote stay in the study as
    built (`keep`) or not (`exclude`). None repeats the choice of the last export. The first export excludes them.
    """
    _question(ask)
    takes = QUESTIONS[ask].takes
    if out is not None and "out" not in takes:
        raise StrobeError(
            "--out writes sets, which only votes on pairs or boxes change; remove --out, or use <<ask=pairs>> or box"
        )
    if crops is not None and "crops" not in takes:
        raise StrobeError("<<crops>> crops images to the boxes that people drew, so it only works with <<ask=box>>")
    if unreviewed is not None and "unreviewed" not in takes:
        raise StrobeError("<<unreviewed>> is about sets without a vote on a pair, so it only works with <<ask=pairs>>")
    with ExitStack() as held:
        for place in (
            out,
            crops,
        ):  # checked before anything is written, so that the export is complete or writes nothing
            if place is not None:
                held.enter_context(writing(place))
        return _exported(folder, ask, db, (out, crops), unreviewed, progress or Silent())


def _exported(
    folder: Path,
    ask: str,
    db: str | None,
    places: tuple[Path | None, Path | None],
    unreviewed: Literal["exclude", "keep"] | None,
    progress: Progress,
) -> dict[str, Any]:
    """Run the export while the folders are locked. `places` are the output folders for a dataset and for crops."""
    from strobe.core.derivation import derive
    from strobe.store.dataset_folder import append_answers, append_verdicts

    question, (out, crops) = _question(ask), places
    before, dataset = _content(folder), _read(folder)
    answers, conduct = _all_answers(folder, dataset, ask, db)
    if not answers:
        what = "votes" if ask == "pairs" else f"answers to <<ask={ask}>>"
        raise StrobeError(
            f"{printable(folder)}: there are no {what} to export yet; collect them with strobe review serve"
        )
    if ask == "pairs":
        dataset = append_verdicts(folder, answers, unreviewed=unreviewed)
    else:
        dataset = append_answers(folder, question.log.table, answers)
    all_answers = getattr(dataset, question.log.table)
    if _has_store(folder, db):
        with _open(folder, db, ask) as store:
            store.took_in(before, _content(folder), len(all_answers))
    figures = {"schema": 1, "dataset": dataset.name, **question.summarise(dataset, all_answers, conduct)}
    if ask == "pairs":
        figures["undecided_labels"] = list(derive(dataset).undecided_labels)
        figures["unreviewed"] = dataset.info.unreviewed
    write_json(folder / written(ask)[1], figures)
    if out is not None:
        _OUTCOMES[ask](dataset, out)
    if crops is not None:
        _write_crops(dataset, crops, progress)
    return figures


def written(ask: str) -> tuple[str, str]:
    """Return the files that an export of a question writes: its answers and its figures."""
    table = _question(ask).log.table
    return f"{table}.parquet", "review.json" if table == "verdicts" else f"{table}.json"


def _write_reviewed(dataset: Dataset, out: Path) -> None:
    """Write the sets that the votes keep as a new dataset folder."""
    from strobe.core.derivation import reviewed

    part = reviewed(dataset)
    source = {"reviewed_from": dataset.digest(), **_without_votes(part)}
    write_part(dataset, part, out, source)


def _without_votes(part: Dataset) -> dict[str, int]:
    """Return the number of sets without a vote, for the provenance of a dataset without votes."""
    cohort = Cohort.of(part, needs_labels=False)
    counts = {"sets_without_votes": cohort.sets_without_votes, "kept_without_votes": cohort.kept_without_votes}
    return {name: count for name, count in counts.items() if count}


def _write_boxed(dataset: Dataset, out: Path) -> None:
    """Write the sets that the votes keep and whose anchor people keep, with the drawn boxes."""
    from strobe.analyses.drawn import drawn_pictures, with_drawn_boxes
    from strobe.core.derivation import reviewed

    pictures = drawn_pictures(dataset)
    voted = dataset.info.reviewed == "votes" and bool(dataset.verdicts)
    said = hashlib.sha256("\n".join(map(repr, pictures)).encode()).hexdigest()
    kept = reviewed(dataset) if voted else dataset
    source = {"boxed_from": dataset.digest(), "boxes_drawn": said, **_without_votes(kept)}
    write_part(dataset, with_drawn_boxes(kept, pictures), out, source)


_OUTCOMES = {"pairs": _write_reviewed, "box": _write_boxed}
"""The writer of `out` for each question."""


def write_part(dataset: Dataset, part: Dataset, out: Path, source: Mapping[str, Any]) -> None:
    """Write a part of the dataset as a new folder with its provenance, without people's answers."""
    from strobe.store.dataset_folder import write
    from strobe.store.making import made_before

    files = _media_files(dataset)
    decided = "release" if part.info.reviewed == "votes" else part.info.reviewed
    info = replace(part.info, reviewed=decided, unreviewed="exclude", provenance={**part.info.provenance, **source})
    old = made_before(out, lambda old: {**old.info.provenance, **source} == old.info.provenance)
    nobody: dict[str, Any] = dict.fromkeys(GROWING, ())
    write(replace(part, info=info, **nobody), out, overwrite=old is not None)
    _link_media(files, out)


def _write_crops(dataset: Dataset, crops: Path, progress: Progress) -> None:
    """Crop the images that people keep to their boxes."""
    from strobe.analyses.drawn import drawn_pictures
    from strobe.formats.export_crops import export_crops
    from strobe.store.opening import frame_source

    export_crops(dataset, drawn_pictures(dataset), frame_source(dataset), crops, progress=progress)


def import_votes(
    folder: Path, file: Path, *, annotator: str, ask: str = "pairs", db: str | None = None
) -> dict[str, Any]:
    """Import answers given elsewhere into the store. Reading the same file again adds nothing."""
    dataset = _read(folder)
    known = {answer.annotator for table in PEOPLE for answer in getattr(dataset, table)}
    if _has_store(folder, db):
        with _open(folder, db, ask) as store:
            known |= set(store.names())
    imported = _question(ask).read(file, dataset, annotator=annotator, known=sorted(known))
    with _open(folder, db, ask) as store:
        # Keep the current settings, so that an import does not change the queue of other people.
        conduct = store.conduct()
        settings = ReviewOptions() if conduct is None else conduct.settings
        store.prepare(dataset, settings, remember=conduct is not None, content=_content(folder))
        added = store.extend(imported.answers)
    return {"read": len(imported.answers), "added": added, "elsewhere": imported.elsewhere}


def _media_files(dataset: Dataset) -> dict[str, Path]:
    """Return the file of each stored frame by its path in the folder, without missing files.

    Only regular files inside the folder are accepted, because a link could point to any file of this machine.
    """
    from strobe.store.media import MediaSource

    source, out = MediaSource(dataset), {}
    for row, relative in enumerate(dataset.frames.media.tolist()):
        if relative and (path := source.path(row)).exists():
            if not stat.S_ISREG(path.lstat().st_mode):
                raise InvalidFile(path, "not a regular file")
            out[relative] = path
    return out


def _link_media(files: Mapping[str, Path], out: Path) -> None:
    """Add the frames' files to the new folder: hard links, or copies if the file system cannot link."""
    for relative, source in files.items():
        target = out / relative
        if target.exists() or not target.resolve().is_relative_to(out.resolve()):
            continue
        make_folder(target.parent)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target, follow_symlinks=False)


def _read(folder: Path, *, people: bool = True) -> Dataset:
    from strobe.store.dataset_folder import read

    return read(folder, people=people)


def _content(folder: Path) -> "Content":
    from strobe.store.dataset_folder import content

    return content(folder)


def _question(ask: str) -> "Question":
    for package in ("fastapi", "sqlalchemy"):
        require(package, what="a review", extra="review")
    from strobe.annexes.web.review.question import question_named

    return question_named(ask)


def _open(folder: Path, db: str | None, ask: str) -> "AbstractContextManager[Store]":
    require("sqlalchemy", what="the review store", extra="review")
    from strobe.annexes.web.review.store import Store

    own = folder / "review.sqlite"
    if db is None and own.is_symlink():
        raise StrobeError(
            f"{printable(own)} is a link, which may lead to any file; pass the database itself with <<db>>"
        )
    return closing(Store(db or f"sqlite:///{own.absolute()}", ask=ask))


def _has_store(folder: Path, db: str | None) -> bool:
    """Return whether there is a store. The check must not create one."""
    return db is not None or (folder / "review.sqlite").exists()


@contextmanager
def _place_to_read(folder: Path, db: str | None) -> Iterator[Path]:
    """Yield the folder of the store to read. SQLite also writes to read, so of a read-only folder this is a copy."""
    own = folder / "review.sqlite"
    if db is not None or own.is_symlink() or (os.access(folder, os.W_OK) and os.access(own, os.W_OK)):
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        for path in (own, *folder.glob(f"{own.name}-wal")):
            with reading(path):
                shutil.copyfile(path, Path(temporary) / path.name)
        yield Path(temporary)


def _all_answers(folder: Path, dataset: Dataset, ask: str, db: str | None) -> tuple[Sequence[Any], Conduct | None]:
    """Return the answers in the folder and in the store, each once and oldest first, and how the review was run.

    Without a store, the settings of the last export are used, if it recorded them.
    """
    log, conduct = _question(ask).log, None
    answers = {log.id_of(answer): answer for answer in getattr(dataset, log.table)}
    if _has_store(folder, db):
        with _place_to_read(folder, db) as place, _open(place, db, ask) as store:
            store.check(dataset, _content(folder))
            answers |= {log.id_of(answer): answer for answer in store.all()}
            conduct = store.conduct()
    conduct = conduct or exported_conduct(folder, written(ask)[1])
    return sorted(answers.values(), key=lambda answer: (answer.at, log.id_of(answer))), conduct
