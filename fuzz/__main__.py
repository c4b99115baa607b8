"""Test every command with damaged inputs, links, flipped bits, two writers and kills: `python -m fuzz` or `make fuzz`.

    python -m fuzz                        1,000 cases and every sweep; resumes a stopped run
    python -m fuzz --cases 10000          more cases
    python -m fuzz --case 1234            one case again, with its traceback; its folder is kept
    python -m fuzz --only kills           only one kind: sound, cases, links, bits, twice, rules or kills
    python -m fuzz --sweep twice/build    only one sweep

Exits with 1 if a case broke a rule. findings/ then contains the folder of each such case.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fuzz.bits import bit_plan, run_bits
from fuzz.cases import drawn, run_case
from fuzz.corpus import make_corpus
from fuzz.kills import kill_plan, run_kill
from fuzz.links import link_plan, run_links
from fuzz.process import preload
from fuzz.rules import rule_plan, run_rules
from fuzz.sound import run_sound, sound_plan
from fuzz.twice import run_twice, twice_plan

ROOT = Path(__file__).parents[1]
_SWEEPS = {
    "kill": run_kill,
    "links": run_links,
    "bits": run_bits,
    "twice": run_twice,
    "sound": run_sound,
    "rules": run_rules,
}


def main() -> None:
    """Parse the options, run the cases and print a summary. A stopped run resumes from the log in the folder."""
    options = _parsed()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    preload()
    code = _code_digest()
    corpus = folder / f"corpus-{code[:12]}"
    for old in folder.glob("corpus-*"):
        if old != corpus:
            shutil.rmtree(old)
    make_corpus(corpus)
    if options.case is not None:
        exit_code = _again(options.case, options.seed, corpus, folder)
        sys.stdout.flush()
        os._exit(exit_code)  # skip what libraries print at interpreter exit
    log = folder / "log.jsonl"
    finished = _begin(log, {"seed": options.seed, "code": code}, keep=options.keep)
    todo: list[Any] = []
    if options.only in (None, "cases") and not options.sweep:
        cases = range(options.first, options.first + options.cases)
        wanted = [
            case for case in cases if not options.verb or drawn(case, options.seed)[0].verb.startswith(options.verb)
        ]
        todo += [case for case in wanted if case not in finished]
    if options.only != "cases":
        todo += [name for name in _sweeps(options) if name not in finished]
    begin = time.monotonic()
    until = begin + 60 * options.minutes if options.minutes else None
    print(
        f"seed {options.seed}, {len(finished)} already done, {len(todo)} to do, {options.lanes} in parallel", flush=True
    )
    lanes = [
        _lane(todo[number :: options.lanes], options.seed, corpus, folder, log, until)
        for number in range(options.lanes)
    ]
    for pid in lanes:
        os.waitpid(pid, 0)
    exit_code = _summary(log, time.monotonic() - begin)
    sys.stdout.flush()
    os._exit(exit_code)  # skip what libraries print at interpreter exit


def _sweeps(options: argparse.Namespace) -> list[str]:
    """Return the requested sweeps: by name, by kind, or all."""
    if options.sweep:
        return list(options.sweep)
    if options.verb:
        return []
    plans = {
        "sound": sound_plan()[: options.sweeps],
        "links": link_plan(options.links)[: options.sweeps],
        "bits": bit_plan(options.flips)[: options.sweeps],
        "twice": twice_plan()[: options.sweeps],
        "rules": rule_plan()[: options.sweeps],
        "kills": kill_plan(options.kills, options.seed),
    }
    return [name for kind, names in plans.items() for name in names if options.only in (None, kind)]


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000, help="number of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--kills", type=int, default=None, help="maximum number of kills; default: all")
    parser.add_argument("--sweeps", type=int, default=None, help="maximum number of sweeps of each kind but kills")
    parser.add_argument(
        "--links", type=int, default=None, help="number of places per command to put a link; default: all"
    )
    parser.add_argument(
        "--flips", type=int, default=1, help="number of bits to flip in every stored file, one at a time"
    )
    parser.add_argument(
        "--only", choices=["sound", "cases", "links", "bits", "twice", "rules", "kills"], help="run only this kind"
    )
    parser.add_argument("--sweep", action="append", help="run only this sweep; repeatable")
    parser.add_argument("--verb", help="run only the cases of this verb")
    parser.add_argument("--case", help="run one case (a number) or one kill (its name) again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=float, help="stop after this many minutes; run the same command again to resume"
    )
    parser.add_argument(
        "--lanes", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="number of parallel processes"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "fuzz", help="folder for log, corpus and findings"
    )
    parser.add_argument("--keep", action="store_true", help="resume even if the code has changed")
    return parser.parse_args()


def _code_digest() -> str:
    """Return a digest of the code of strobe and of the fuzzer, so that cases of two versions are not mixed."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "fuzz").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _begin(log: Path, about: dict[str, Any], *, keep: bool) -> dict[Any, dict[str, Any]]:
    """Return the finished cases in the log. A log of other code or of another seed is discarded."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.is_file() else []
    if lines and (lines[0] == about or (keep and lines[0]["seed"] == about["seed"])):
        return {line["case"]: line for line in lines[1:]}
    log.write_text(json.dumps(about) + "\n", encoding="utf-8")
    return {}


def _lane(todo: list[Any], seed: int, corpus: Path, folder: Path, log: Path, until: float | None) -> int:
    """Run this process's share of the cases, and write one line to the log for each."""
    pid = os.fork()
    if pid:
        return pid
    try:
        for number, case in enumerate(todo):
            if until is not None and time.monotonic() > until:
                break
            work = folder / "work" / str(case).replace("/", "-")
            outcome = _run(case, seed, corpus, work)
            with log.open("a", encoding="utf-8") as file:
                file.write(outcome.line())
            if outcome.finding:
                _save(outcome, work, folder / "findings")
                print(f"{case}: {outcome.command}: {outcome.finding}", flush=True)
            _remove(work)
            if number % 200 == 199:
                print(f"  {number + 1} of {len(todo)} in this lane", flush=True)
    finally:
        sys.stdout.flush()
        os._exit(0)


def _run(case: Any, seed: int, corpus: Path, work: Path, *, debug: bool = False) -> Any:
    _remove(work)
    if isinstance(case, str):
        return _SWEEPS[case.partition("/")[0]](case, corpus=corpus, work=work)
    return run_case(case, seed=seed, corpus=corpus, work=work, debug=debug)


def _save(outcome: Any, work: Path, findings: Path) -> None:
    """Keep the folder of the case, and its output."""
    place = findings / work.name
    _remove(place)
    findings.mkdir(parents=True, exist_ok=True)
    work.rename(place)
    (place / "outcome.json").write_text(json.dumps(json.loads(outcome.line()), indent=1), encoding="utf-8")


def _again(case: str, seed: int, corpus: Path, folder: Path) -> int:
    """Run one case again and print everything."""
    name: Any = int(case) if case.isdigit() else case
    work = folder / "again" / case.replace("/", "-")
    outcome = _run(name, seed, corpus, work, debug=True)
    if (work / "case.json").is_file():
        print((work / "case.json").read_text(encoding="utf-8"))
    print(outcome.said)
    without = _run(name, seed, corpus, work)
    print(
        f"{case}: {without.command}: exit {without.code} after {without.seconds:g} s: {without.finding or 'no finding'}"
    )
    print(f"its folder: {work}")
    return int(bool(without.finding))


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        for inner in path.rglob("*"):
            with contextlib.suppress(OSError):
                inner.chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)


def _summary(log: Path, seconds: float) -> int:
    """Print counts per verb and per kind of damage. Returns 1 if a case broke a rule."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()[1:]]
    cases = [line for line in lines if isinstance(line["case"], int)]
    sweeps = [line for line in lines if not isinstance(line["case"], int)]
    kills = [line for line in sweeps if line["case"].startswith("kill/")]
    findings = [line for line in lines if line["finding"]]
    n_kills = sum(len(line["kinds"]) for line in kills)
    others = Counter({line["case"].partition("/")[0]: 0 for line in sweeps})
    for line in sweeps:
        others[line["case"].partition("/")[0]] += len(line["kinds"])
    print(f"\n{len(cases):,} cases and {n_kills:,} kills in {len(kills)} sweeps; this run {seconds:.0f} s")
    print("".join(f"{many:,} tries of {kind}\n" for kind, many in others.items() if kind != "kill"), end="")
    if cases:
        _table("verb", cases, lambda line: [line["verb"]])
        _table("damage", cases, lambda line: sorted(set(line["kinds"])))
        slowest, largest = max(cases, key=lambda c: c["seconds"]), max(cases, key=lambda c: c["grown"])
        print(
            f"slowest {slowest['seconds']:.1f} s (case {slowest['case']}), most memory "
            f"{largest['grown'] / 2**20:.0f} MB (case {largest['case']})"
        )
    if sweeps:
        print()
        for line in sweeps:
            print(f"{line['case']:<48}{len(line['kinds']):>5} tries{'  findings' if line['finding'] else ''}")
    for line in findings:
        print(f"FINDING {line['case']}: {line['command']}: {line['finding']}")
    print(f"{len(findings)} findings" if findings else "no findings")
    return int(bool(findings))


def _table(title: str, lines: list[dict[str, Any]], names: Any) -> None:
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        what = "found" if line["finding"] else f"exit {line['code']}"
        for name in names(line):
            counts.setdefault(name, Counter())[what] += 1
    columns: Iterable[str] = sorted({what for count in counts.values() for what in count})
    print(f"\n{title:<28}{'all':>7}" + "".join(f"{column:>9}" for column in columns))
    for name, count in sorted(counts.items()):
        print(f"{name:<28}{count.total():>7}" + "".join(f"{count[column] or '':>9}" for column in columns))


if __name__ == "__main__":
    main()
