"""Rules of the house that no tool keeps."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import corewood

SOURCE = Path(corewood.__file__).parent
FLOW = ["data", "model", "evaluate", "prune", "analyse", "report"]
GROUND = {"errors", "seal", "spec", "untrusted"}  # everyone may import these
ALLOWED = {
    "errors": set(),
    "seal": set(),
    "untrusted": {"errors"},
    "spec": {"errors", "untrusted"},
    "store": {"errors", "seal", "untrusted"},
    **{name: {*FLOW[:place], *GROUND} for place, name in enumerate(FLOW)},
    "study": {*FLOW, *GROUND, "store"},
    "ship": {*FLOW, *GROUND, "store", "study"},
    "explore": {*FLOW, *GROUND, "store", "study"},
    "cli": {*FLOW, *GROUND, "store", "study", "ship", "explore"},
}


def imports(path: Path) -> set[str]:
    """Parts of corewood that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names] if node.module == "corewood" else [node.module]
        found |= {name.split(".")[1] for name in names if name.startswith("corewood.")}
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part in ("__init__", "__main__"):
        return  # the public names, looked up when used, and the command
    assert imports(path) - {part, "__version__"} <= ALLOWED[part]


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    code = f"import sys; sys.argv = ['corewood', *{command!r}]\nfrom corewood.cli import main\n"
    code += "try:\n    main()\nexcept SystemExit:\n    pass\n"
    code += (
        "print('LOADED', *sorted(set(sys.modules) & {'torch', 'transformers', 'pandas', 'numpy', 'scipy', 'dask', 'altair'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED"


def test_importing_the_library_imports_no_torch() -> None:
    code = "import sys, corewood; print('torch' in sys.modules, len(dir(corewood)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "False"


def test_every_public_name_is_there() -> None:
    for name in corewood.__all__:
        assert getattr(corewood, name) is not None
    assert set(corewood.__all__) == set(corewood._WHERE)
    with pytest.raises(AttributeError):
        _ = corewood.nothing_of_the_kind


def test_no_pickle_and_no_code_from_data() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for bad in ("import pickle", "torch.load(", "allow_pickle=True", "eval(", "exec(", "yaml.unsafe_load", "0.0.0.0"):
            if bad == "eval(" and ".eval()" in text:
                text = text.replace(".eval()", "")
            assert bad not in text, f"{path.name}: {bad}"
