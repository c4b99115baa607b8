"""What commands say: counts with their nouns, and a no to options that would go unheard."""

import click

from strobe.core.errors import InvalidValue

__all__ = ["counted", "not_said"]


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "set"), counted(2, "class")
    ('1 set', '2 classes')
    """
    plural = noun + ("es" if noun.endswith(("s", "x")) else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def not_said(option: str, why: str) -> None:
    """Raise InvalidValue with the reason where the option (its Python name) was given, and not left at its default."""
    source = click.get_current_context().get_parameter_source(option)
    if source is not click.core.ParameterSource.DEFAULT:
        raise InvalidValue(why)
