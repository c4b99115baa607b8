"""What the data is called on the page: frames or variants, reviewed or not, from videos or photos."""

from dataclasses import dataclass

from strobe.core.dataset import Dataset
from strobe.report.wording import counted

__all__ = ["Subject", "n_photos", "sources"]

_PHOTO_NAMES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The words for one dataset. `reviewed` is the dataset's own word: none, release or votes."""

    axis: str = "frame-offset"
    reviewed: str = "none"
    k: object = "k"

    @property
    def is_video(self) -> bool:
        """Whether members are neighbours in time."""
        return self.axis == "frame-offset"

    @property
    def frames(self) -> str:
        """The members of a set, in the plural."""
        return "frames" if self.is_video else "variants"

    @property
    def picture(self) -> str:
        """One picture of a set, the anchor or another."""
        return "frame" if self.is_video else "picture"

    @property
    def measure(self) -> str:
        """What the distance to the anchor is called where it is no number of frames."""
        return self.axis.replace("-", " ")

    @property
    def around(self) -> str:
        """The members as seen from their anchor, with what is known of how they look."""
        where = "the frames around each" if self.is_video else "the variants of each"
        return where if self.reviewed == "none" else f"{where}, which look the same"

    @property
    def within(self) -> str:
        """As far as the sets reach."""
        return self.up_to(self.k)

    def up_to(self, distance: object) -> str:
        """As far as a distance.

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
        """The axis of growing sets."""
        return "k: frames on either side of the anchor" if self.is_video else f"k: {self.measure}, up to"

    @property
    def distance_label(self) -> str:
        """The axis of distances without a sign."""
        return "distance from the anchor, frames" if self.is_video else self.measure

    @property
    def offset_label(self) -> str:
        """The axis of distances with their sign."""
        return "frames before (−) and after (+) the anchor" if self.is_video else self.measure

    @property
    def set_text(self) -> str:
        """What a set is, for the list of words."""
        if not self.is_video:
            what = f"The anchor and its variants up to {self.measure} k"
        else:
            what = "The anchor and the frames within ±k"
        return {
            "none": f"{what}; nobody has confirmed yet that they look the same.",
            "votes": f"{what} that the votes in the dataset kept as looking the same.",
        }.get(self.reviewed, f"{what} that people marked as looking the same.")


def n_photos(dataset: Dataset) -> int:
    """How many of the videos that have sets are photos under a simulated camera: those keep their file's name."""
    used = set(dataset.video_of_set.tolist())
    return sum(str(dataset.videos.name[video]).lower().endswith(_PHOTO_NAMES) for video in used)


def sources(n_videos: int, n_photos: int = 0) -> str:
    """What the sets were made from, counted; `n_photos` of them are known where the page has the dataset at hand.

    >>> sources(21, 20), sources(21)
    ('1 video and 20 photos', '21 videos')
    """
    if not n_photos:
        return counted(n_videos, "video")
    if n_photos == n_videos:
        return counted(n_photos, "photo")
    return f"{counted(n_videos - n_photos, 'video')} and {counted(n_photos, 'photo')}"
