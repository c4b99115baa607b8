"""Temporary files for what does not fit in memory: they lie in $TMPDIR; no room there is one line."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from strobe.core.errors import CannotWrite
from strobe.core.files import cannot_write

__all__ = ["making_room"]


@contextmanager
def making_room() -> Iterator[None]:
    """Turn what goes wrong with temporary files into a line that says where to name more room."""
    try:
        yield
    except OSError as error:
        where = f"temporary files in {tempfile.tempdir or 'any folder'}"
        raise CannotWrite(f"{cannot_write(where, error)}; set TMPDIR to a folder with more room") from error
