"""Give mutated files to every checked reader: `python -m fuzz.readers --each 500`.

A file is read or refused with one line that names it. Each reader has a process of its own, which may take 2 GiB on top
of its libraries. The process prints a line of JSON: files read, files refused, the slowest file, the peak of memory.
"""

import argparse
import base64
import hashlib
import io
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_S = 10.0
MOST_BYTES = 2 * 2**30


def _journal(folder: Path) -> bytes:
    import numpy as np
    import pyarrow as pa

    from strobe.core.remote import Usage
    from strobe.store.journal import Journal

    path = folder / "made.journal"
    journal = Journal(path)
    for row in range(3):
        scores = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(30, dtype=np.float32)), 3)
        texts = {"frame_id": pa.array([f"{row}:{n}" for n in range(10)]), "error": pa.array([None] * 10, pa.string())}
        numbers = {"raw_label": pa.array(np.arange(10, dtype=np.int32)), "said": pa.array(["x" * n for n in range(10)])}
        journal.add({**texts, "scores": scores, **numbers}, {"key": "k"}, Usage(requests=1))
    return path.read_bytes()


def _sealed(line: bytes, rng: random.Random) -> bytes:
    """Damage the Arrow stream of a line, and give the line the checksum of the damaged stream."""
    stream = mutated(base64.b64decode(line.partition(b" ")[2]), rng)
    text = base64.b64encode(stream)
    if rng.random() < 0.1:
        text = mutated(text, rng).replace(b"\n", b"")
    return hashlib.sha256(text).hexdigest()[:16].encode() + b" " + text


def _parquet(folder: Path) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"name": [f"n{n % 7}" for n in range(300)], "values": [[n, n + 1] for n in range(300)]}
    numbers = {"share": [n / 7 for n in range(300)], "label": list(range(300))}
    pq.write_table(pa.table(columns | numbers), folder / "made.parquet", compression="zstd", row_group_size=100)
    return (folder / "made.parquet").read_bytes()


def _sets(folder: Path) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import strobe

    names = strobe.example_dataset().sets.set_id.tolist() * 20
    texts = {
        name: pa.array(values).dictionary_encode() for name, values in (("set", names), ("model", ["m"] * len(names)))
    }
    flags = {name: [True] * len(names) for name in ("anchor_right", "holds")}
    more = {"worst_answer": ["0"] * len(names), "worst_confidence": pa.array([0.5] * len(names), pa.float32())}
    pq.write_table(pa.table({**texts, **flags, **more}), folder / "made.parquet")
    return (folder / "made.parquet").read_bytes()


def _npz(folder: Path) -> bytes:
    import numpy as np

    arrays = {f"place{n}": np.random.default_rng(n).random((5, 40), np.float32) for n in range(3)}
    np.savez_compressed(folder / "made.npz", **arrays)  # type: ignore[arg-type]  # the keys are not options
    return (folder / "made.npz").read_bytes()


def _npy(folder: Path) -> bytes:
    import numpy as np

    np.save(folder / "made.npy", np.arange(600, dtype=np.float32).reshape(20, 30))
    return (folder / "made.npy").read_bytes()


def _state() -> dict[str, Any]:
    import torch

    return {f"layer{n}.weight": torch.arange(60, dtype=torch.float32).reshape(6, 10) + n for n in range(4)}


def _safetensors(_folder: Path) -> bytes:
    from safetensors.torch import save

    content: bytes = save(_state(), metadata={"made": "for a test"})
    return content


def _torch_zip(folder: Path) -> bytes:
    import torch

    torch.save({"state_dict": _state(), "epoch": 3}, folder / "made.pth")
    return (folder / "made.pth").read_bytes()


def _torch_old(folder: Path) -> bytes:
    import torch

    torch.save(_state(), folder / "old.pth", _use_new_zipfile_serialization=False)
    return (folder / "old.pth").read_bytes()


def _gzip(_folder: Path) -> bytes:
    import gzip

    return gzip.compress(b"a,b,c\n" * 2000)


def _json(_folder: Path) -> bytes:
    return json.dumps({"a": [1, 2.5, None, "x" * 50], "b": {"c": [True, {"d": "é"}]}}, indent=1).encode()


def _reading() -> dict[str, Callable[[Path], object]]:
    """Return how each reader reads a path."""
    from strobe.core.files import read_json
    from strobe.core.parquet import read_bounded, read_footer
    from strobe.core.readers import gunzip, read_array, read_arrays
    from strobe.models.header import read_header
    from strobe.models.weights import read_state
    from strobe.store.journal import read_journal

    def journal(path: Path) -> object:
        content = read_journal(path)
        if content.table is not None:
            content.table.to_pylist()
        if content.damaged:
            from strobe.core.errors import InvalidFile

            raise InvalidFile(path, "damaged")
        return content

    def parquet(path: Path) -> object:
        read_footer(path)
        return read_bounded(path)[0].to_pylist()

    def sets(path: Path) -> object:
        import strobe
        from strobe.annexes.web.view.outcomes import SetRows, stored_outcomes

        dataset = strobe.example_dataset()
        return stored_outcomes(path.parent.parent, dataset, SetRows(dataset, dataset.sets.set_id))

    def weights(path: Path) -> object:
        return {name: one.clone() for name, one in read_state(path).items()}

    def safetensors(path: Path) -> object:
        read_header(path)
        return weights(path)

    return {
        "journal": journal,
        "parquet": parquet,
        "sets": sets,
        "npz": read_arrays,
        "npy": read_array,
        "npy mapped": lambda path: read_array(path, mapped=True).sum(),
        "safetensors": safetensors,
        "pth": weights,
        "old pth": weights,
        "gzip": gunzip,
        "json": read_json,
    }


_MADE: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "journal": (_journal, ".journal"),
    "parquet": (_parquet, ".parquet"),
    "sets": (_sets, ".parquet"),
    "npz": (_npz, ".npz"),
    "npy": (_npy, ".npy"),
    "npy mapped": (_npy, ".npy"),
    "safetensors": (_safetensors, ".safetensors"),
    "pth": (_torch_zip, ".pth"),
    "old pth": (_torch_old, ".pth"),
    "gzip": (_gzip, ".gz"),
    "json": (_json, ".json"),
}
READERS = tuple(_MADE)


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return the content with one to four changes: flipped bits, extreme numbers, cuts, repeated or random parts."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place, length = rng.randrange(len(data) or 1), rng.choice((1, 2, 4, 8, 64))
        kind = rng.randrange(6)
        if kind < 2 and data:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            extreme = rng.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1))
            data[place : place + 8] = extreme.to_bytes(8, rng.choice(("little", "big")))
        elif kind == 3:
            data[place : place + length] = rng.randbytes(length)
        elif kind == 4:
            data[place:place] = data[place : place + rng.randrange(1, 300)]
        else:
            del data[place : place + rng.choice((length, len(data)))]
    return bytes(data)


def _rezipped(content: bytes, rng: random.Random) -> bytes:
    """Damage one record of an archive and store it again, so that its checksum fits the damage."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(out, "w") as after:
        chosen = rng.choice(before.namelist())
        for name in before.namelist():
            record = before.read(name)
            after.writestr(name, mutated(record, rng) if name == chosen else record, rng.choice((0, 8)))
    return out.getvalue()


def _case(name: str, content: bytes, rng: random.Random) -> bytes:
    if name == "journal":
        lines = content.splitlines()
        place = rng.randrange(len(lines))
        lines[place] = _sealed(lines[place], rng)
        return b"\n".join([*lines, b""])
    if name in ("npz", "pth") and rng.random() < 0.5:
        return _rezipped(content, rng)
    return mutated(content, rng)


def child(name: str, *, each: int, seed: int) -> None:
    """Read so many mutated files with one reader, and print what happened."""
    from strobe.core.errors import StrobeError

    make, ending = _MADE[name]
    counts, slowest, rng = Counter[str](), 0.0, random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        content, read, path = make(folder), _reading()[name], folder / f"tables/given{ending}"
        path.parent.mkdir()
        if name == "sets":
            path = path.with_name("sets.parquet")
        path.write_bytes(content)
        read(path)  # the sound file, which also imports the libraries
        begun = _resident()
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MOST_BYTES, size + MOST_BYTES))
        for number in range(each):
            path.write_bytes(_case(name, content, rng))
            sys.stderr.write(f"\r{name} {number}")  # after a signal, the last line names the file
            sys.stderr.flush()
            begin = time.perf_counter()
            try:
                read(path)
                counts["read"] += 1
            except StrobeError as error:
                named = str(path) in str(error) and "\n" not in str(error)
                counts["refused" if named else f"unnamed: {error}"] += 1
            except Exception as error:
                counts[f"{number}: {type(error).__name__}: {error}"] += 1
            slowest = max(slowest, time.perf_counter() - begin)
    print(
        json.dumps(
            {
                "reader": name,
                "counts": counts,
                "slowest_s": round(slowest, 3),
                "grown_mb": (_resident() - begun) // 1000,
            }
        )
    )


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(name: str, *, each: int, seed: int = 0) -> dict[str, Any]:
    """Return the line of a reader's process; a signal or a hang is its only content."""
    words = [sys.executable, "-m", "fuzz.readers", "--each", str(each), "--seed", str(seed), "--child", name]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120 + each, check=False)
    except subprocess.TimeoutExpired as error:
        return {"reader": name, "failed": f"hangs: {error.stderr!r}"[-300:]}
    if done.returncode != 0:
        return {"reader": name, "failed": f"exit {done.returncode}: {done.stderr[-300:]}"}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Run every reader and print a line for each; exit with 1 if a rule was broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--each", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", choices=READERS)
    given = parser.parse_args()
    if given.child:
        child(given.child, each=given.each, seed=given.seed)
        return
    broken = False
    for name in READERS:
        found = run(name, each=given.each, seed=given.seed)
        print(json.dumps(found), flush=True)
        broken |= not is_fine(found)
    sys.exit(int(broken))


def is_fine(found: dict[str, Any]) -> bool:
    """Return whether every file was read or refused by name, in time and within memory."""
    if "failed" in found:
        return False
    fits = found["slowest_s"] < MOST_S and found["grown_mb"] < MOST_BYTES // 10**6
    return bool(fits and set(found["counts"]) <= {"read", "refused"})


if __name__ == "__main__":
    main()
