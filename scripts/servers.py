"""Real servers for models behind an address, each in an environment of its own under .servers/.

    python scripts/servers.py            install MLServer and write its models (`make servers`)
    python scripts/servers.py --start    then also start it in the foreground: REST on port 8080, gRPC on port 8081

MLServer needs Python below 3.13 and an older FastAPI than strobe's, so it cannot share strobe's environment.
`make test-servers` runs the tests that need it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".servers" / "mlserver"
MODELS = ROOT / ".servers" / "models"
PACKAGES = ("mlserver>=1.7,<2", "onnxruntime>=1.17", "tritonclient[grpc,http]>=2.60")
_RUNTIME = ROOT / "tests/annexes/remote/servers" / "mlserver_runtime"


def older_python() -> str:
    """Return a Python that MLServer supports."""
    names = [sys.executable, "python3.12", "python3.11"]
    for name in names:
        path = shutil.which(name)
        probe = path and subprocess.run(
            [path, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
        )
        if path and probe and probe.returncode == 0 and (3, 11) <= tuple(map(int, probe.stdout.split())) < (3, 13):
            return path
    sys.exit("MLServer needs Python 3.11 or 3.12, and neither is installed")


def install() -> None:
    """Make the environment. An environment that is complete is left as it is."""
    done = HOME / ".installed"
    if done.is_file() and done.read_text() == "\n".join(PACKAGES):
        return
    subprocess.run([older_python(), "-m", "venv", str(HOME)], check=True)
    subprocess.run([str(HOME / "bin" / "python"), "-m", "pip", "install", "-q", *PACKAGES], check=True)
    done.write_text("\n".join(PACKAGES))


def write_models() -> None:
    """Export strobe's bundled models, with the Python that runs this script."""
    subprocess.run(
        [sys.executable, str(ROOT / "tests/annexes/remote/servers" / "served_models.py"), str(MODELS)], check=True
    )


def start(folder: Path = MODELS, *, http: int = 8080, grpc: int = 8081, quiet: bool = False) -> subprocess.Popen[bytes]:
    """Start MLServer with the models of a folder, and return its process."""
    settings = {"debug": False, "parallel_workers": 0, "host": "127.0.0.1", "http_port": http, "grpc_port": grpc}
    (folder / "settings.json").write_text(json.dumps({**settings, "metrics_endpoint": None}))
    env = {name: value for name, value in os.environ.items() if not name.startswith("MLSERVER_")}
    env["PYTHONPATH"] = str(_RUNTIME)
    command = [str(HOME / "bin" / "mlserver"), "start", str(folder)]
    sink = subprocess.DEVNULL if quiet else None
    return subprocess.Popen(command, cwd=folder, env=env, stdout=sink, stderr=sink)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--start", action="store_true", help="start the server after the installation")
    parser.add_argument("--http", type=int, default=8080, help="port for REST")
    parser.add_argument("--grpc", type=int, default=8081, help="port for gRPC")
    given = parser.parse_args()
    install()
    write_models()
    files = MODELS / "files"
    print(f"MLServer is installed in {HOME.relative_to(ROOT)}, its models are in {MODELS.relative_to(ROOT)}")
    if given.start:
        for name in ("world", "tiny"):
            settings = (files / f"{name}.json").relative_to(ROOT)
            print(f"  -m kserve:{name}@http://127.0.0.1:{given.http} --model-settings {settings}")
        sys.exit(start(http=given.http, grpc=given.grpc).wait())


if __name__ == "__main__":
    main()
