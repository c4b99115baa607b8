"""Write results.schema.json from the records of results.json. `--check` only reports whether it is up to date."""

import json
import sys
from pathlib import Path

from strobe.analyses.results import results_schema

TARGET = Path(__file__).parents[1] / "src/strobe/core/data/results.schema.json"


def main() -> None:
    text = json.dumps(results_schema(), indent=1) + "\n"
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") != text:
            sys.exit(f"{TARGET.name} is out of date; run make docs")
        return
    TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
