"""Commands made from public functions: every argument is an option with the same default, and its Args are the help."""

import inspect
import subprocess
import sys

import click
import pytest

import strobe
from strobe.cli.main import COMMANDS, cli

VERBS = {"gate": {"plan", "churn", "out"}, "history": {"out"}, "compare": set(), "report": set()}


@pytest.mark.parametrize("verb", VERBS)
def test_a_command_has_the_arguments_of_the_function(verb: str) -> None:
    command = cli.get_command(click.Context(cli), verb)
    function = inspect.signature(getattr(strobe, verb))
    params = {param.name: param for param in command.params if param.name not in ("as_json", "quiet")}
    expected = {name: one for name, one in function.parameters.items() if name != "progress"}
    assert set(params) - VERBS[verb] == set(expected)
    context = command.make_context(verb, ["run"])
    for name, one in expected.items():
        param = params[name]
        if isinstance(param, click.Option):
            assert (context.params[name] or None) == (one.default or None), name
            assert param.help, name
            assert "`" not in param.help, name
    documented = inspect.getdoc(getattr(strobe, verb))
    assert " ".join(documented.split(".")[0].split()) in " ".join(command.help.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max", "drop=1", "--max", "drop=2"], "drop was given twice"),
        (["--max", "drop"], "expected MEASURE=NUMBER, e.g. --max acc_pmk=1, got 'drop'"),
        (["--for", "ever"], "'ever' is not one of 'these-clips', 'this-recording', 'other-videos'"),
    ],
)
def test_values_are_checked_before_anything_is_read(command, words: list[str], message: str) -> None:
    code, out, err = command("gate", "nowhere", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize("verb", VERBS)
def test_help_imports_neither_the_function_nor_numpy(verb: str) -> None:
    assert verb in COMMANDS
    program = (
        "import sys; from strobe.cli.main import cli\n"
        f"cli.main(['{verb}', '--help'], standalone_mode=False)\n"
        "print([name for name in ('numpy', 'strobe.api.gates', 'strobe.api.scoring') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
