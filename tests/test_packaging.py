"""The folders on disk, the names they install under, and how fast the front door opens."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def loaded_by(code: str) -> set[str]:
    """Top-level modules a fresh interpreter has loaded after `code`."""
    report = f"import sys; {code}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_every_folder_with_code_or_data_is_listed_as_a_package() -> None:
    on_disk = {
        str(file.parent.relative_to(ROOT)).replace("/", ".")
        for pattern in ("*.py", "*.yml")
        for top in ("sna_rl", "agents", "envs", "zoo_configs")
        for file in (ROOT / top).rglob(pattern)
        if not any(parent.is_symlink() for parent in file.relative_to(ROOT).parents)
    }
    installed = {name if name.startswith("sna_rl") else f"sna_rl.{name}" for name in on_disk}
    assert installed == set(PROJECT["tool"]["setuptools"]["packages"])


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"torch", "numpy", "gymnasium", "stable_baselines3", "optuna", "matplotlib", "typer", "mujoco"}
    assert not heavy & loaded_by("import sna_rl")


@pytest.mark.parametrize("name", ["agents", "envs"])
def test_generic_names_refuse_to_be_imported_bare(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    sys.modules.pop(name, None)
    with pytest.raises(ImportError, match=f"sna_rl.{name}"):
        importlib.import_module(name)


def test_pins_cover_every_dependency_and_name_no_local_build() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    wanted = {
        word.split(">")[0].split("[")[0].lower().replace("_", "-")
        for group in (
            PROJECT["project"]["dependencies"],
            *PROJECT["project"]["optional-dependencies"].values(),
        )
        for word in group
    } - {"sna-rl"}
    assert wanted <= pinned
    assert not [line for line in lines if "+" in line and not line.startswith("#")]
