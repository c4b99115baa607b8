"""Times of votes: text that sorts by time, in UTC to the microsecond."""

from datetime import UTC, datetime

NO_TIME = "1970-01-01T00:00:00.000000Z"
"""The time given to an imported vote that has none.

It is earlier than any vote from the page, so that votes from the page count.
"""


def moment_text(moment: datetime) -> str:
    """Return a UTC time as text."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def timestamp(seconds: float) -> str:
    """Return a Unix time as text.

    >>> timestamp(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    return moment_text(datetime.fromtimestamp(seconds, UTC))


def just_after(moment: str) -> str:
    """Return the time two microseconds later."""
    return timestamp(round(datetime.fromisoformat(moment).timestamp() + 2e-6, 6))
