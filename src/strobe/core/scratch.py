"""Temporary files in $TMPDIR for data that does not fit in memory; a full disk gives a one-line error."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from strobe.core.errors import CannotWrite
from strobe.core.files import cannot_write


@contextmanager
def making_room() -> Iterator[None]:
    """Turn an error about a temporary file into one line that explains where to provide more space."""
    try:
        yield
    except OSError as error:
        where = f"temporary files in {tempfile.tempdir or 'any folder'}"
        raise CannotWrite(f"{cannot_write(where, error)}; set TMPDIR to a folder with more room") from error
