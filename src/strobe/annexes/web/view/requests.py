"""The request bodies of the viewer, checked field by field. Nothing else is read from a request."""

from typing import Annotated, Literal

from pydantic import Field

from strobe.annexes.web.app import Body

Place = Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
Query = Annotated[str, Field(max_length=8000)]


class ViewLogin(Body):
    """A log-in by the key of a personal link."""

    key: Annotated[str, Field(max_length=200)]


class TagBody(Body):
    """Tag one set (`row`), or all sets of a query; or write a note on one set."""

    data: Place
    act: Literal["tag", "untag", "note"]
    text: Annotated[str, Field(max_length=1000)]
    row: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    query: Query | None = None


class SelectionBody(Body):
    """Write the sets of a query as a new dataset folder next to their dataset."""

    data: Place
    query: Query
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]


class CompareBody(Body):
    """Models to compare: [run, model] each."""

    rows: Annotated[
        list[tuple[Place, Annotated[str, Field(max_length=1000)]]],
        Field(min_length=2, max_length=8),
    ]
