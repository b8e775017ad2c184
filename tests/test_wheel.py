"""The wheel holds every package and works without the source tree beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command away from the source tree; its output, or the whole output as the failure."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_alone_trains_an_agent(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"sna_rl/py.typed", "sna_rl/agents/policies.py", "sna_rl/zoo_configs/sac.yml"} <= names
    assert {name.split("/")[0] for name in names} == {
        "sna_rl",
        wheel.name[: -len("-py3-none-any.whl")] + ".dist-info",
    }

    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=tmp_path)
    packages = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path
    ).strip()
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    origin = run(
        python, "-c", "import sna_rl.agents, sna_rl.envs; print(sna_rl.agents.__file__)", cwd=tmp_path
    )
    assert origin.startswith(str(tmp_path))
    assert "sna-rl" in run(tmp_path / "venv" / "bin" / "sna-rl", "--version", cwd=tmp_path)
    train = "train --algo sac --env Pendulum-v1 --rank 4 -n 120 -f logs --eval-freq 100 --eval-episodes 1"
    run(tmp_path / "venv" / "bin" / "sna-rl", *train.split(), cwd=tmp_path)
    assert list((tmp_path / "logs").rglob("evaluations.npz"))
