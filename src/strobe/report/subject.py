"""The page's terms for the data: frames or variants, reviewed or not, from videos or photos."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.core.tables import SOURCES
from strobe.report.wording import counted, join

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
        return text.replace(" flickers more than ", " loses more than ") if self.kinds else text

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
