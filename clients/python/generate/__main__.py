"""`python -m generate [--check]`: writes the generated files of the SDK, or names those that are stale."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from generate.schema import Reader
from generate.write import files

HERE = Path(__file__).resolve().parent.parent
DOCUMENT = HERE.parent.parent / "docs/reference/openapi.json"


def main(arguments: list[str]) -> int:
    written = files(Reader(json.loads(DOCUMENT.read_text())).read())
    stale = 0
    for name, source in written.items():
        path = HERE / "src/gpuaas" / name
        if path.exists() and path.read_text() == source:
            continue
        if arguments == ["--check"]:
            print(f"{path.relative_to(HERE.parent.parent)} is stale; run make sdk", file=sys.stderr)
            stale += 1
        else:
            path.write_text(source)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
