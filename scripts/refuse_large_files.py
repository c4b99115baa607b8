"""Refuse files that do not belong in the repository: files over 2 MB (except our own weights), videos, secrets."""

import re
import sys
from pathlib import Path

MOST_BYTES = 2_000_000
WEIGHTS_BYTES = 20_000_000
"""The size limit of our own small networks, which are shipped as safetensors."""
VIDEOS = (".mp4", ".mkv", ".avi", ".mov", ".webm")
SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bghp_[A-Za-z0-9]{36}|\bAKIA[0-9A-Z]{16}\b|\bhf_[A-Za-z0-9]{34}\b"
)


def problem(path: Path) -> str:
    """Return why the file does not belong in the repository, or an empty text if it does."""
    if path.suffix.lower() in VIDEOS:
        return "a video; download it by version and hash instead"
    size = path.stat().st_size
    most = WEIGHTS_BYTES if path.suffix == ".safetensors" and "src" in path.parts else MOST_BYTES
    if size > most:
        return f"{size / 1e6:.1f} MB, more than {most / 1e6:.0f}; download it by version and hash instead"
    return "it contains text that looks like a secret" if SECRETS.search(path.read_bytes()) else ""


def main(names: list[str]) -> int:
    """Print a line for every file that does not belong. Return 1 if there is such a file."""
    found = {name: why for name in names if Path(name).is_file() and (why := problem(Path(name)))}
    for name, why in found.items():
        print(f"{name}: {why}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
