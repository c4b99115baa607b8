"""Videos in folders: the files below a folder, and the class that a folder of its own gives each."""

from collections.abc import Sequence
from pathlib import Path

__all__ = ["VIDEO_SUFFIXES", "video_files"]

VIDEO_SUFFIXES = (".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".flv", ".wmv", ".3gp")


def video_files(sources: Sequence[Path]) -> tuple[list[Path], dict[Path, str]]:
    """The videos among the sources, a folder standing for those in it and in the folders below it.

    Also the class of each video that lies in a folder of its own below a source: that folder's name. A folder without
    videos stays as it is, for who opens it to refuse.
    """
    files: list[Path] = []
    classes: dict[Path, str] = {}
    for source in sources:
        inside = sorted(path for path in source.rglob("*") if _is_video(path, source)) if source.is_dir() else []
        files += inside or [source]
        classes |= {path: path.parent.name for path in inside if path.parent != source}
    return files, classes


def _is_video(path: Path, source: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(source).parts)
    return not hidden and path.suffix.lower() in VIDEO_SUFFIXES and path.is_file()
