"""What somebody types first: the name alone, or a name with a slip."""

import pytest

from strobe.cli.main import COMMANDS, main


@pytest.mark.parametrize("words", [[], *([name] for name in ("review", "import") if name in COMMANDS)])
def test_a_command_alone_shows_its_help_as_lines(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == " ".join(["Usage: strobe", *words, "[OPTIONS] COMMAND [ARGS]..."])
    assert ("Commands:" if words else "Measure:") in shown


def test_a_slip_gets_a_suggestion_in_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["evla"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "strobe: no such command 'evla'; did you mean eval?\n"
