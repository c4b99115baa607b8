"""The input of a report: the results, with short names of models, and the terms for this data."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

from strobe.analyses.comparison import Comparison
from strobe.analyses.model_results import ClassificationResult, DetectionResult, ModelResult
from strobe.analyses.results import Results
from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.core.names import shown_models
from strobe.core.tables import SOURCES
from strobe.core.tasks import Task
from strobe.report.wording import EstimateText, counted, join, plain_number
from strobe.studies.variants.records import VariantFacts

_PHOTO_NAMES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The terms for one dataset. `reviewed` is the dataset's own value: none, release or votes.

    `kinds` are the kinds of its sources if not all are videos. `varied` is set if images were changed, and `doubted` is
    set if there are problems with the votes.
    """

    axis: str = "frame-offset"
    reviewed: str = "none"
    k: object = "k"
    kinds: tuple[str, ...] = ()
    varied: bool = False
    doubted: bool = False

    @property
    def anchors(self) -> str:
        """The plural noun for the images before any change."""
        return "images" if self.varied or (self.kinds and self.is_still) else "anchors"

    def metric(self, name: str) -> str:
        """Return the label of a measure: its name, or another term if sets are single images or images were changed."""
        name = name.replace("map_drop", "drop")
        if self.is_still:
            return {"acc_orig": "accuracy", "map_orig": "mAP"}.get(name, name)
        return {"acc_orig": "accuracy", "acc_pmk": "worst"}.get(name, name) if self.varied else name

    @property
    def is_still(self) -> bool:
        """Whether every set is a single image, so that nothing changes."""
        return self.k == 0

    @property
    def source(self) -> str:
        """The noun for one source: video, photo, image, generated image, or source if they are mixed.

        >>> Subject().source, Subject(kinds=("photo",)).source, Subject(kinds=("photo", "video")).source
        ('video', 'photo', 'source')
        """
        return {0: "video", 1: SOURCES[self.kinds[0]] if self.kinds else ""}.get(len(self.kinds), "source")

    def say(self, text: str, *, names: Collection[str] = ()) -> str:
        """Convert a text of the results, written for videos and frames, to this data's terms.

        The `names` in the text stay unchanged.

        >>> Subject(kinds=("photo",)).say("only 3 videos: the interval is too narrow")
        'only 3 photos: the interval is too narrow'
        >>> Subject(kinds=("photo",)).say("video-net is wrong on 3 videos", names=["video-net"])
        'video-net is wrong on 3 photos'
        >>> Subject().say("video-cluster bootstrap")
        'video-cluster bootstrap'
        """
        if self.kinds:
            kept = "|".join(re.escape(printable(name)) for name in sorted(names, key=len, reverse=True))
            # (?!) matches nothing, because there is no name to keep.
            pattern = rf"((?<!\w)(?:{kept or '(?!)'})(?!\w))|\b(?:video|frame)(?=s?\b)"
            nouns = {"video": self.source, "frame": "image"}
            text = re.sub(pattern, lambda match: match[1] or nouns[match[0]], text)
        if self.anchors == "images":
            text = text.replace("on the anchors", "on the images")
        if self.varied:
            text = text.replace("accuracy on whole sets (pm-k)", "accuracy under every variant")
            text = text.replace("drop from anchors to whole sets", "drop to the worst variant")
        return re.sub(r" flickers (more|less) than ", r" loses \1 than ", text) if self.kinds else text

    @property
    def is_video(self) -> bool:
        """Whether members are neighbours in time."""
        return self.axis == "frame-offset"

    @property
    def frames(self) -> str:
        """The plural noun for the members of a set."""
        return "frames" if self.is_video else "variants"

    @property
    def picture(self) -> str:
        """The noun for one image of a set, whether it is the anchor or a member."""
        return "frame" if self.is_video else "image"

    @property
    def measure(self) -> str:
        """The name of the distance to the anchor if it is not a number of frames."""
        return self.axis.replace("-", " ")

    @property
    def around(self) -> str:
        """The phrase for the members around their anchors. It includes whether members look like their anchor."""
        where = "frames around the anchor" if self.is_video else "variants of the anchor"
        if self.doubted:
            return f"{where}, as kept by doubtful votes"
        return where if self.reviewed == "none" else f"{where}, which look the same"

    @property
    def alike(self) -> str:
        """The clause that explains who decided that the members of a set look like their anchor."""
        if self.doubted:
            return "doubtful votes kept (see the notes)"
        unseen = self.reviewed == "none"
        return "look the same (no person has confirmed this for this data)" if unseen else "look the same to people"

    @property
    def within(self) -> str:
        """The phrase for the full extent of the sets."""
        return self.up_to(self.k)

    def up_to(self, distance: object) -> str:
        """Return the phrase for a distance from the anchor.

        >>> Subject().up_to(3), Subject(axis="severity").up_to(3)
        ('within ±3 frames', 'up to severity 3')
        """
        return (
            f"within ±{distance} frame{'' if str(distance) == '1' else 's'}"
            if self.is_video
            else f"up to {self.measure} {distance}"
        )

    @property
    def k_label(self) -> str:
        """The axis label of growing sets."""
        return "k: frames on either side of the anchor" if self.is_video else f"k: largest {self.measure}"

    @property
    def distance_label(self) -> str:
        """The axis label of unsigned distances."""
        return "distance from the anchor, frames" if self.is_video else self.measure

    @property
    def offset_label(self) -> str:
        """The axis label of signed distances."""
        return "frames before (−) and after (+) the anchor" if self.is_video else self.measure

    @property
    def set_text(self) -> str:
        """The definition of a set, for the list of terms."""
        if not self.is_video:
            what = f"The anchor and its variants up to {self.measure} k"
        else:
            what = "The anchor and the frames within ±k"
        if self.doubted:
            return f"{what} that the votes in the dataset kept. These votes are doubtful; the notes give the reason."
        return {
            "none": f"{what}. No person has confirmed that they look the same.",
            "votes": f"{what} that look the same according to the votes in the dataset.",
        }.get(self.reviewed, f"{what} that people marked as looking the same.")


def count_sources(dataset: Dataset) -> dict[str, int]:
    """Count the sources that have sets, by kind.

    If all are recorded as videos, sources that are named like image files count as photos under a simulated camera.
    """
    kinds = dataset.kinds
    if set(kinds) != {"video"}:
        return kinds
    used = set(dataset.video_of_set.tolist())
    photos = sum(str(dataset.videos.name[row]).lower().endswith(_PHOTO_NAMES) for row in used)
    return {kind: many for kind, many in (("video", len(used) - photos), ("photo", photos)) if many}


def kinds_of(dataset: Dataset) -> tuple[str, ...]:
    """Return the kinds of the dataset's sources, if not all are videos."""
    counts = count_sources(dataset)
    return () if set(counts) == {"video"} else tuple(counts)


def sources(n: int, by_kind: Mapping[str, int] | None = None, kinds: Sequence[str] = ()) -> str:
    """Return the number of sources of the sets, by kind if the dataset is available.

    >>> sources(21, {"video": 1, "photo": 20}), sources(21), sources(21, kinds=("photo",))
    ('1 video and 20 photos', '21 videos', '21 photos')
    >>> sources(21, kinds=("photo", "video"))
    '21 sources (photos and videos)'
    """
    if by_kind:
        return join([counted(many, SOURCES[kind]) for kind, many in by_kind.items()])
    if len(kinds) > 1:
        return f"{counted(n, 'source')} ({join([f'{SOURCES[kind]}s' for kind in kinds])})"
    return counted(n, SOURCES[kinds[0]] if kinds else "video")


M = TypeVar("M", bound=ModelResult)
R = TypeVar("R")
Cell = str | float | bool | None
Row = dict[str, Cell]
Table = list[Row]
"""A table of results: its rows, each with its cells by column."""

Lines = tuple[str, list[str], list[list[str]], list[str]]
"""A table of plain text: title, column names, rows, and notes below."""

MOST_SHOWN = 8
"""The largest number of models in colour and in the gallery. More would not be distinguishable. Tables have all models.
"""


@dataclass(frozen=True, kw_only=True)
class View:
    """Results as the reader requested them. `show` names models that come first, and `by_kind` counts the sources.

    `change` names two models as before and after. `whole` maps shortened names of models to their names in the run.
    """

    results: Results
    show: Sequence[str] = ()
    by_kind: Mapping[str, int] = field(default_factory=dict)
    change: tuple[str, str] | None = None
    whole: Mapping[str, str] = field(default_factory=dict)

    def cautioned(self, lines: Lines) -> Lines:
        """Return a table with a note for each reason why one of its figures must be read with care."""
        title, columns, rows, notes = lines
        cautions = [cell.caution for row in rows for cell in row if isinstance(cell, EstimateText) and cell.caution]
        return title, columns, rows, list(dict.fromkeys([*notes, *map(self.words.say, cautions)]))

    @cached_property
    def classifiers(self) -> dict[str, ClassificationResult]:
        """The classifiers in the order of all tables and figures: the most robust model first, and equally robust
        models by name.
        """
        models = self.results.models.items()
        return _ranked({name: one for name, one in models if isinstance(one, ClassificationResult)})

    @cached_property
    def detectors(self) -> dict[str, DetectionResult]:
        """The detectors, the most robust first."""
        models = self.results.models.items()
        return _ranked({name: one for name, one in models if isinstance(one, DetectionResult)})

    def of(self, task: Task) -> Mapping[str, ModelResult]:
        """The models of one task, the most robust first."""
        return self.classifiers if task is Task.CLASSIFICATION else self.detectors

    @property
    def ranked(self) -> list[str]:
        """Every model, task by task."""
        return [name for task in Task for name in self.of(task)]

    def drawn(self, models: Mapping[str, M], most: int = MOST_SHOWN) -> dict[str, M]:
        """Return the models that are drawn: the models in `show` in that order, then the most robust models."""
        first = [name for name in self.show if name in models]
        return {name: models[name] for name in list(dict.fromkeys([*first, *models]))[:most]}

    def drawn_text(self, models: Mapping[str, ModelResult]) -> str:
        """Return how the drawn models were chosen, or an empty text if all are drawn."""
        every, shown = list(models), list(self.drawn(models))
        if len(every) <= len(shown):
            return ""
        if shown == every[: len(shown)]:
            return f" The figure shows the {len(shown)} most robust of {len(every)} models; tables/ has all."
        return (
            f" The figure shows {len(shown)} of {len(every)} models: your own or chosen models first, then the "
            f"most robust; tables/ has all."
        )

    def listed(self, rows: Sequence[Comparison], most: int) -> Sequence[Comparison]:
        """Return all of these comparisons. If there are more than `most`, return only the comparisons of models that
        are drawn.

        With hundreds of models, the few pairs that fit would otherwise compare only the best with the worst.
        """
        drawn = {*self.drawn(self.classifiers), *self.drawn(self.detectors)}
        return rows if len(rows) <= most else [row for row in rows if row.a in drawn and row.b in drawn] or rows

    @property
    def words(self) -> Subject:
        """The terms for the dataset of these results."""
        data = self.results.dataset
        return Subject(
            axis=data.axis,
            reviewed=data.reviewed,
            k=data.k,
            kinds=data.kinds or (),
            varied=bool(self.variants),
            doubted=bool(self.doubts),
        )

    @property
    def is_temporal(self) -> bool:
        """Whether sets are frames around an anchor, and neither single images nor variants of images."""
        return not self.words.is_still and not self.variants

    @property
    def only_people(self) -> bool:
        """Whether the results are only of people; figures on models are then not listed as missing."""
        return not self.results.models and bool(self.results.people or self.results.drawn)

    @property
    def doubts(self) -> tuple[str, ...]:
        """The problems with the votes that decided the sets."""
        review = self.results.review
        return () if review is None or self.results.dataset.reviewed != "votes" else review.warnings

    @property
    def variants(self) -> Mapping[str, VariantFacts]:
        """The changes made to the images, by name. Empty for data without variants."""
        return {variant.variant: variant for variant in self.results.variants or ()}

    @property
    def sources(self) -> str:
        """Return the counted sources of the sets."""
        data = self.results.dataset
        return sources(data.n_videos, self.by_kind, data.kinds or ())

    def pictures(self, n: int) -> str:
        """Return the number of single images, with their kind if each source has one image."""
        if n == self.results.dataset.n_videos:
            return self.sources
        if self.words.source == "image":
            return f"{plain_number(n)} of {self.sources}"
        return f"{counted(n, 'image')} from {self.sources}"

    @property
    def n_pictures(self) -> int:
        """Return the largest number of original images that one model has answers for."""
        every = (model.headline.orig.n for model in self.results.models.values())
        return max(every, default=self.results.dataset.n_videos)

    @property
    def size(self) -> str:
        """Return the amount of data in one short line.

        If sets are single images or have variants, n counts images and not sets, so the line starts with images.
        """
        data = self.results.dataset
        if self.variants:
            return f"{self.pictures(self.n_pictures)} · {counted(len(self.variants), 'variant')}"
        return self.sources if self.words.is_still and data.kinds else f"{plain_number(data.n_sets)} sets"


def _ranked(models: Mapping[str, M]) -> dict[str, M]:
    def rank(name: str) -> tuple[bool, float, float, str]:
        model = models[name]
        value = model.headline.pmk.value
        # With many corruptions the worst case is soon zero for all models; their mean then gives the ranking.
        means = model.means if isinstance(model, ClassificationResult) else None
        return (value is None, -(value or 0.0), -(means[-1].at.value or 0.0) if means else 0.0, name)

    return {name: models[name] for name in sorted(models, key=rank)}


def in_short_names(results: Results) -> tuple[Results, dict[str, str]]:
    """Return the results with short names of models, and the short name of each renamed model.

    If the dataset has variants, every name stays unchanged, because the dataset names the target models of its
    searches.
    """
    names = _short(results.models)
    if not names or results.variants is not None:
        return results, {}
    return renamed(results, names), names


def renamed(record: R, names: Mapping[str, str]) -> R:
    """Return a record in which each key of `names` is replaced by its value, in every text."""
    short = in_names(names)

    def shown(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return short(value)
        if isinstance(value, Mapping):
            return {short(key): shown(one) for key, one in value.items()}
        if isinstance(value, tuple | list):
            found = [shown(one) for one in value]
            return found if isinstance(value, list) else tuple(found)
        if not is_dataclass(value) or isinstance(value, type):
            return value
        return replace(value, **{one.name: shown(getattr(value, one.name)) for one in fields(value) if one.init})

    found: R = shown(record)
    return found


def shorter(models: Iterable[str]) -> Callable[[str], str]:
    """Return a function that puts the short names of these models into a text."""
    return in_names(_short(models))


def in_names(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces each key of `names` in a text by its value."""
    if not names:
        return str
    # Longer names come first, because a name may begin with another name.
    known = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    return lambda text: known.sub(lambda found: names[found[0]], text)


def _short(models: Iterable[str]) -> dict[str, str]:
    return {name: short for name, short in shown_models(models).items() if name != short}
