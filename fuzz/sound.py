"""Run every command without any damage. A command that fails even so cannot show whether damage is handled."""

from pathlib import Path

from fuzz.cases import Outcome, judge, lay_out_sound
from fuzz.commands import commands
from fuzz.process import call

__all__ = ["run_sound", "sound_plan"]


def sound_plan() -> list[str]:
    """Return the names of the sweeps: one for each command."""
    return [f"sound/{one.name}" for one in commands()]


def run_sound(case: str, *, corpus: Path, work: Path) -> Outcome:
    """Run one command. It must succeed, or exit with 2 if it is marked as `refused`."""
    command = next(one for one in commands() if one.name == case.removeprefix("sound/"))
    outcome = Outcome(case=case, verb=command.verb, command=command.name, kinds=["sound"])  # type: ignore[arg-type]  # a name, not a number
    lay_out_sound(command, corpus, work)
    done = call(command.words, cwd=work, limit_s=60)
    outcome.code, outcome.seconds, outcome.grown = done.code, round(done.seconds, 3), done.grown
    outcome.finding = judge(done, command.verb)
    if not outcome.finding and (done.code == 2) != command.refused:
        outcome.finding = f"without damage: {done.ended}: {(done.stderr or done.stdout).strip()[-300:]}"
    return outcome
