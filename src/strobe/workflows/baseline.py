"""A baseline in one small file: `bless` writes it, `eval --against` compares with it, and nothing else moves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import numpy as np

from strobe.analyses.plan import ScoreOptions
from strobe.analyses.variants_view import overall
from strobe.core.answers import ClassAnswers
from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidFile, StrobeError, expect, in_file, printable
from strobe.core.files import json_of, json_text, read_json, write_json
from strobe.core.ports import Progress
from strobe.core.seals import digest_of_json
from strobe.core.tasks import Task
from strobe.store.opening import Opened
from strobe.store.run_folder import Run
from strobe.workflows.clips import Clips, Entrant, Origin, answers_entrant, clips_of, origin_of

FORMAT = 1
NO_ANSWER, OUTSIDE = -2, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineModel:
    """The answer of one model on each frame of the dataset: (class, frames) for each run of equal answers.

    A class is a place in the baseline's classes; −1 is an answer outside the classes, −2 is no answer. `figures` are
    its measures, for people who read the file.
    """

    decode: str
    answers: tuple[tuple[int, int], ...]
    figures: Mapping[str, float]
    may_vary: bool = False

    def check(self, n_frames: int, n_classes: int) -> None:
        """Check the answers without writing them out, since the file may claim any number of frames."""
        expect(len(self.answers) > 0, "answers", "at least one", 0)
        values, lengths = zip(*self.answers, strict=True)
        expect(min(lengths) > 0 and sum(lengths) == n_frames, "answers", f"{n_frames} frames", None)
        expect(min(values) >= NO_ANSWER, "answers", "-2 or more", min(values))
        expect(max(values) < n_classes, "answers", "places in classes", max(values))

    def labels(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Return the answer on each frame, (F,)."""
        values, lengths = (np.array(column, dtype=np.int64) for column in zip(*self.answers, strict=True))
        return np.repeat(values, lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The content of a baseline file: when and on which machine it was made, the frames, and each model's answers."""

    format: int
    at: str
    cpu: str
    versions: Mapping[str, str]
    dataset: str
    frames_digest: str
    n_frames: int
    k: int
    classes: tuple[str, ...]
    models: Mapping[str, BaselineModel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(self.format == FORMAT, "format", f"{FORMAT}", self.format)
        expect(len(self.models) > 0, "models", "at least one", 0)
        expect(_when(self.at) is not None, "at", "a date and time with a time zone", self.at)
        for model in self.models.values():
            model.check(self.n_frames, len(self.classes))

    @property
    def age(self) -> str:
        """The date and the age in days, for a verdict."""
        days = (datetime.now(UTC) - (_when(self.at) or datetime.now(UTC))).days
        return f"{self.at[:10]}, {days} day{'' if days == 1 else 's'} old"


def _when(text: str) -> datetime | None:
    """Return a time with its zone, or None if the text is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else at


def bless(run: Path, file: Path, *, models: Sequence[str] = (), progress: Progress) -> Baseline:
    """Write the answers of a run's classifiers to a baseline file, which replaces an earlier one."""
    opened = Opened.of_run(Run(run))
    dataset = overall(opened.dataset)
    clips, _ = clips_of(opened.dataset, dataset, ScoreOptions())
    if clips is None:
        raise StrobeError(
            f"{printable(run)}: its sets are not stretches of video without labels; use the run itself as a baseline"
        )
    chosen = Run(run).models(dataset, only=models)
    names = dataset.info.label_space.names
    used: dict[int, int] = {}
    held: dict[str, BaselineModel] = {}
    about = Run(run).about()
    with progress.task("reading", len(chosen)) as advance:
        for model in chosen:
            advance(1)
            if model.task is not Task.CLASSIFICATION:
                progress.note(f"{printable(model.name)} is a detector and is left out")
                continue
            answers = model.load().as_classes()
            labels = np.where(answers.scored, answers.label, NO_ANSWER)
            for label in sorted({*labels[labels >= 0].tolist()}):
                used.setdefault(label, len(used))
            own = [used[label] if label >= 0 else label for label in labels.tolist()]
            origin = origin_of(model, name=model.name)
            entrant = answers_entrant(clips, answers, name=model.name, names=names, origin=origin)
            columns = entrant.columns
            held[model.name] = BaselineModel(
                decode=origin.decode,
                answers=tuple((label, len(list(frames))) for label, frames in groupby(own)),
                figures={name: column.value for name, column in columns.items() if column.value is not None},
                may_vary=origin.may_vary,
            )
    if not held:
        raise StrobeError(f"{printable(run)} has no classifier, so there is nothing to make a baseline of")
    baseline = Baseline(
        format=FORMAT,
        at=str(about.get("at", "")),
        cpu=str(about.get("cpu", "an unknown CPU")),
        versions=about.get("versions", {}),
        dataset=dataset.name,
        frames_digest=opened.candidates.frames_digest(),
        n_frames=len(dataset.frames),
        k=dataset.info.k,
        classes=tuple(names[label] for label in used),
        models=held,
    )
    content = encode(baseline)
    write_json(file, {**content, "sha256": digest_of_json(json_of(json_text(content)))})
    return baseline


def read_baseline(file: Path) -> Baseline:
    """Read a baseline file and check its digest."""
    data = read_json(file, hint="write it with strobe bless")
    if not isinstance(data, dict) or "frames_digest" not in data:
        raise InvalidFile(file, "it is not a baseline", hint="write it with strobe bless")
    digest = data.pop("sha256", None)
    if digest != digest_of_json(data):
        raise InvalidFile(file, "its digest does not match its content", hint="write it again with strobe bless")
    with in_file(file, hint="write it again with strobe bless"):
        return decode(Baseline, data)


def baseline_entrant(clips: Clips, run: Run, baseline: Baseline, *, model: str, file: Path) -> Entrant:
    """Return a model of the baseline as an entrant: the model of this name, or the only one."""
    same = run.about()["dataset"]["frames_digest"] == baseline.frames_digest
    if not same or baseline.n_frames != len(clips.dataset.frames):
        raise StrobeError(
            f"{printable(file)} was made on other frames than {printable(run.path)}: another clip, other bytes of it, "
            "or other sets; make the baseline again with strobe bless"
        )
    name = model if model in baseline.models else next(iter(baseline.models))
    if model not in baseline.models and len(baseline.models) > 1:
        known = ", ".join(map(printable, baseline.models))
        raise StrobeError(f"{printable(file)} has no model {printable(model)}; its models are {known}")
    one = baseline.models[name]
    labels = one.labels()
    answers = ClassAnswers.from_labels(name, np.maximum(labels, OUTSIDE), scored=labels != NO_ANSWER)
    shown = f"{name} (baseline)" if name == model else name
    origin = Origin(name=shown, cpu=baseline.cpu, versions=baseline.versions, decode=one.decode, may_vary=one.may_vary)
    return answers_entrant(clips, answers, name=shown, names=baseline.classes, origin=origin)
