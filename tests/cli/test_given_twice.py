"""An option that counts once is refused if it is given twice: every option of every command."""

from collections.abc import Iterator

import click
import pytest

from strobe.cli.main import cli, main


def commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, as click lists them."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command, info_name=" ".join(words))
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from commands(inner, (*words, name))


ALL = dict(commands(cli))


def value_of(option: click.Option) -> list[str]:
    """A value that the option takes."""
    if option.is_flag:
        return []
    if isinstance(option.type, click.Choice):
        return [str(next(iter(option.type.choices)))]
    return ["1"] * option.nargs


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_an_option_given_twice_is_refused(words: tuple[str, ...]) -> None:
    command = ALL[words]
    for option in command.params:
        if not isinstance(option, click.Option) or option.multiple or (option.is_flag and not option.secondary_opts):
            continue
        flags = [option.opts[-1], (option.secondary_opts or option.opts)[-1]]
        given = [word for flag in flags for word in (flag, *value_of(option))]
        with pytest.raises(click.UsageError, match="was given twice"):
            cli.main([*words, *given], standalone_mode=False)


def test_there_are_options_to_try() -> None:
    assert len(ALL) > 25
    assert (
        sum(isinstance(one, click.Option) and not one.multiple for command in ALL.values() for one in command.params)
        > 300
    )


def test_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["eval", "data", "-m", "a", "-m", "b", "--limits", "timeout=1", "--limits", "concurrency=2", "-q", "-q"])
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("strobe: --limits was given twice")


def test_a_limit_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["eval", "data", "-m", "openai:a@http://h", "-o", "run", "--limits", "timeout=1,timeout=2"])
    assert "--limits: timeout was given twice; give it once" in capsys.readouterr().err
