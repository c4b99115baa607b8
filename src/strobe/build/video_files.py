"""Find the videos in folders, and the class of each video from its folder's name."""

from collections.abc import Sequence
from pathlib import Path

VIDEO_SUFFIXES = (".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".flv", ".wmv", ".3gp")


def video_files(sources: Sequence[Path]) -> tuple[list[Path], dict[Path, str]]:
    """Return the videos among the sources. A folder contributes all videos in it and in its subfolders.

    Also return the class of each video in a subfolder of a source, which is the subfolder's name. A folder without
    videos is returned unchanged, so that opening it reports the error.
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
