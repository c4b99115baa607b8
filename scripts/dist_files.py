"""Write a bill of materials (CycloneDX 1.6, JSON) and checksums next to the wheel, both made from the wheel.

    python scripts/dist_files.py dist/    write *.cdx.json and SHA256SUMS (`make dist` runs this)

The same wheel gives the same bytes. Versions come from constraints.txt, with which the tests ran. Each component also
lists the versions that the wheel allows.
"""

import hashlib
import json
import re
import sys
import uuid
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SUMS = "SHA256SUMS"


def write_beside(folder: Path) -> list[Path]:
    """Write the bill of materials of the wheel in a folder, and the checksums of everything there."""
    (wheel,) = folder.glob("*.whl")
    name = "-".join(wheel.name.split("-")[:2])
    bill = folder / f"{name}.cdx.json"
    bill.write_text(json.dumps(bill_of_materials(wheel), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    sums = folder / SUMS
    sums.write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in files), encoding="utf-8")
    return [bill, sums]


def bill_of_materials(wheel: Path) -> dict[str, Any]:
    """Return a wheel and every package it requires, in CycloneDX format."""
    about = _metadata(wheel)
    digest = _sha256(wheel)
    name, version = about["Name"], about["Version"]
    own = f"pkg:pypi/{plain(name)}@{version}"
    needed = _components(about.get_all("Requires-Dist") or [], own_name=plain(name))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": name,
                "version": version,
                "description": about["Summary"],
                "licenses": [{"license": {"id": about["License-Expression"]}}],
                "purl": own,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        },
        "components": needed,
        "dependencies": [
            {"ref": own, "dependsOn": [one["bom-ref"] for one in needed]},
            *({"ref": one["bom-ref"]} for one in needed),
        ],
    }


def _components(requirements: list[str], *, own_name: str) -> list[dict[str, Any]]:
    """Return one component per required package. Packages of extras are optional."""
    pinned = dict(
        re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    )
    versions = {plain(name): version for name, version in pinned.items()}
    specs_of: dict[str, list[tuple[str, str]]] = {}
    for line in requirements:
        match = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*([^;]*)(?:;\s*(.*))?$", line)
        if match is None:
            raise ValueError(f"cannot parse the requirement {line}")
        if plain(match[1]) != own_name:
            specs_of.setdefault(plain(match[1]), []).append((match[2].strip(" ()"), (match[3] or "").strip()))
    out = []
    for name, lines in sorted(specs_of.items()):
        version = versions.get(name)
        purl = f"pkg:pypi/{name}" + (f"@{version}" if version else "")
        allowed = sorted({limit for limit, _ in lines if limit})
        extras = sorted({one for _, marker in lines for one in re.findall(r"extra == ['\"]([^'\"]+)", marker)})
        out.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                **({"version": version} if version else {}),
                "scope": "required" if any("extra" not in marker for _, marker in lines) else "optional",
                "purl": purl,
                "properties": [
                    *({"name": "strobe:allowed", "value": limit} for limit in allowed),
                    *({"name": "strobe:extra", "value": extra} for extra in extras),
                ],
            }
        )
    return out


def plain(name: str) -> str:
    """Return a package's name as an index normalises it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        (inside,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(inside).decode("utf-8"))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    for made in write_beside(Path(sys.argv[1])):
        print(made)
