"""What pyproject.toml cannot say: README.md as a package index shows it, where no repository lies around it."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["strobe"]["repository"]


def for_an_index(text: str, address: str = REPOSITORY) -> str:
    """The text with absolute links, pictures as raw files, and the install line of who has no clone.

    Where the project has no address yet, links become plain words and pictures are left out.
    """
    if address:
        text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)([^)]+)", rf"\1{address}/raw/main/\2", text)
        text = re.sub(r"(\]\()(?!https?:|#)([^)]+)", rf"\1{address}/blob/main/\2", text)
    else:
        text = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]+\)", "", text)
        text = re.sub(r"\[([^\]]+)\]\((?!https?:|#)[^)]+\)", r"\1", text)
    return re.sub(r'pip install -e "\.\[([\w,]+)\]"', r'pip install "strobe-vision[\1]"', text)


if __name__ == "__main__":
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=for_an_index(readme),
        long_description_content_type="text/markdown",
        project_urls={"Repository": REPOSITORY} if REPOSITORY else {},
    )
