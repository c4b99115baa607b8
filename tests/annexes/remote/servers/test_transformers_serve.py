"""A real server, `transformers serve`, with a tiny vision-language model: `make servers`, then `make test-servers`."""

import csv
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.answers import State
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.remote import RequestFailed
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store import dataset_folder
from strobe.store.run_folder import Run

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[4] / "scripts"))
from faulty_proxy import FaultyProxy
from servers_transformers import LETTERS, python_of, serve_command

ROOT = Path(__file__).parents[4]
pytestmark = [
    pytest.mark.servers,
    pytest.mark.slow,
    pytest.mark.skipif(not python_of().exists(), reason="make servers installs transformers serve"),
]
PETS = LabelSpace.of_names("pets", ["cat", "dog", "giant_panda", "red fox"])

IN_PROCESS = """
import base64, io, json, sys
import torch, transformers
from PIL import Image
folder, asked = sys.argv[1], json.load(sys.stdin)
model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
processor, out = transformers.AutoProcessor.from_pretrained(folder), []
for url, text in asked:
    image = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    content = [{"type": "image", "image": image}, {"type": "text", "text": text}]
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=True, return_dict=True,
        return_tensors="pt",
    )
    with torch.no_grad():
        tokens = model.generate(**inputs, do_sample=False, max_new_tokens=1)
    out.append(processor.decode(tokens[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vlm") / "tiny-vlm"
    script = ROOT / "scripts" / "servers_transformers.py"
    subprocess.run([str(python_of()), str(script), "model", str(path)], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (folder.parent / "serve.log").open("w")
    process = subprocess.Popen(serve_command(folder, port), stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None, (folder.parent / "serve.log").read_text()[-2000:]
            with suppress(OSError), urllib.request.urlopen(f"{url}/health"):
                break
            time.sleep(0.5)
        yield url
    finally:
        process.terminate()
        process.wait()
        log.close()


@pytest.fixture
def load(folder: Path, server: str, tmp_path: Path) -> Callable[..., Any]:
    def loaded(url: str = server, **settings: Any) -> Any:
        file = tmp_path / "settings.json"
        file.write_text(json.dumps({"encoding": "png", "max_tokens": 1, **settings}))
        return load_model(f"openai:{folder}@{url}/v1", LoadOptions(label_space=PETS, settings=file))

    return loaded


def pictures(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    bases = rng.integers(0, 256, (n, 1, 1, 3))
    return [np.clip(base + rng.integers(-60, 60, (36, 64, 3)), 0, 255).astype(np.uint8) for base in bases]


def test_answers_are_those_of_the_model_in_process(load: Any, folder: Path) -> None:
    model, asked, served = load(), [], []
    for place, image in enumerate(pictures(60)):
        sent, source = model.prepare(image), f"clip {place % 7}"
        reply = model.ask([sent], sources=[source])
        assert reply.used.input_tokens > 100
        assert reply.used.output_tokens == 1
        question = model._choices.question(source)
        asked.append((sent.url, question.text))
        answer = reply.answers[0]
        place_of = dict(zip(question.places, question.symbols, strict=True))
        served.append(place_of[-1 if answer.scores is None else int(answer.scores.argmax())])
    done = subprocess.run(
        [str(python_of()), "-c", IN_PROCESS, str(folder)], input=json.dumps(asked), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    letters = json.loads(done.stdout.splitlines()[-1])
    assert set(letters) <= set(LETTERS)
    assert len(set(letters)) > 1, "the answer depends on the image or on the order of the choices"
    assert served == letters


def test_it_ignores_log_probabilities_and_schemas(load: Any) -> None:
    assert load().spec.preprocessing["scores"] == "the choice"
    with pytest.raises(StrobeError, match="returns no log-probabilities"):
        load(scores="logprobs")
    model = load(answer="constrained")
    with pytest.raises(RequestFailed, match=r"the answer was cut off \('[A-E]'\)"):  # a letter names no class
        model.ask([model.prepare(pictures(1)[0])], sources=["clip"])


def test_another_model_and_another_path_are_refused(load: Any, folder: Path, server: str) -> None:
    options = LoadOptions(label_space=PETS)
    for name, url, problem in (
        ("other", f"{server}/v1", "status 400: Server is pinned to"),
        (str(folder), server, "status 404"),
    ):
        with pytest.raises(StrobeError, match=problem) as caught:
            load_model(f"openai:{name}@{url}", options)
        assert "\n" not in str(caught.value)


def test_a_run_through_a_faulty_proxy(
    folder: Path, server: str, command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    command("synthesize", tmp_path / "clips", "--videos", "26", "--k", "2", "--size", "48", "-q")
    n_frames = 26 * 5
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"max_tokens": 1}))
    faults = ["ok"] * 12 + ["429", "drop", "slow:1", "503", "json", "cut", "ok", "length", "filter", "refusal", "empty"]
    found = []
    for run, spoils in ((tmp_path / "plain", ["ok"]), (tmp_path / "faulty", faults)):
        with FaultyProxy(server, spoils) as proxy:
            words = ("eval", tmp_path / "clips", "-m", f"vlm=openai:{folder}@{proxy.url}/v1", "-o", run, "--no-report")
            words += ("--model-settings", settings, "--limits", "concurrency=4,timeout=120")
            code, _, err = command(*words, "--allow-missing")
            assert code in (0, 3), err
            again = sum(one in ("429", "drop", "503", "cut") for one in proxy.used)
            assert len(proxy.used) == 1 + n_frames + again, "each frame is answered once"
            refused = {"I'm sorry, I can't help with that.": proxy.used.count("refusal")}
            refused["(no text)"] = proxy.used.count("empty")
            failed = sum(one in ("json", "length", "filter") for one in proxy.used)
            proxy.faults = ("ok",)
            before = len(proxy.used)
            code, _, err = command(*words, "--retry-errors")
            assert code == 0, err
            assert len(proxy.used) == before + 1 + failed, "only frames without an answer are asked again"
            table = run / "tables" / "outside.csv"
            rows = list(csv.DictReader(table.read_text().splitlines())) if table.exists() else []
            outside = {row["said"]: int(row["frames"]) for row in rows}
            if spoils is faults:
                assert failed > 10
                assert outside == refused
        dataset = dataset_folder.read(tmp_path / "clips")
        found.append(next(iter(Run(run).models(dataset))).load())
    plain, faulty = found
    both = (plain.state == State.ANSWERED) & (faulty.state == State.ANSWERED)
    assert both.sum() == n_frames - sum(refused.values())
    assert (plain.label[both] == faulty.label[both]).all(), "every answer belongs to its own frame"
    assert len(set(plain.label.tolist())) > 3
