from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sna_rl.errors import UsageError
from sna_rl.runs import RunFolder, env_name, run_name


def test_run_names_tell_baseline_from_separable() -> None:
    assert run_name("sac", "cp", 32) == "sac-cp-r32"
    assert run_name("sac", "mlp", 32) == "sac-mlp"
    assert run_name("sac", "mlp-matched", 32) == "sac-mlp-matched-r32"
    assert run_name("td3", "tucker", (8, 4)) == "td3-tucker-r8x4"
    assert run_name("dqn", "dueling", None) == "dqn-dueling"


def test_environment_ids_become_one_folder_name() -> None:
    assert env_name("HalfCheetah-v5") == "HalfCheetah-v5"
    assert env_name("SNA/LQR-v0") == "SNA-LQR-v0"
    assert env_name("sna_rl.envs:SNA/LQR-v0") == "SNA-LQR-v0"


def test_the_second_run_of_a_seed_gets_a_number(tmp_path: Path) -> None:
    made = [RunFolder.create(tmp_path, "Pendulum-v1", "sac-mlp", 3).path for _ in range(3)]
    parent = tmp_path / "Pendulum-v1" / "sac-mlp"
    assert made == [parent / "seed-3", parent / "seed-3-2", parent / "seed-3-3"]


def test_runs_started_together_never_share_a_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: RunFolder.create(tmp_path, "A-v0", "sac-mlp", 0).path, range(64)))
    assert len(set(made)) == 64


def test_file_names_are_the_zoos(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "SNA/LQR-v0", "sac-cp-r8", 0)
    names = [run.config_yml, run.model_zip, run.best_model_zip, run.evaluations_npz, run.vecnormalize_pkl]
    assert [path.name for path in names] == [
        "config.yml",
        "SNA-LQR-v0.zip",
        "best_model.zip",
        "evaluations.npz",
        "vecnormalize.pkl",
    ]
    assert run.monitor(0) == run.path / "0"


def test_open_reads_the_environment(tmp_path: Path) -> None:
    made = RunFolder.create(tmp_path, "SNA/LQR-v0", "sac-mlp", 0)
    made.config_yml.write_text("algo: sac\nenv: SNA/LQR-v0\n")
    assert RunFolder.open(made.path) == made
    assert RunFolder.open(made.config_yml) == made


def test_a_folder_that_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"not a run folder; a run folder holds a config\.yml"):
        RunFolder.open(tmp_path)
    made = RunFolder.create(tmp_path, "A-v0", "sac-mlp", 0)
    made.config_yml.write_text("algo: sac\n")
    with pytest.raises(UsageError, match="did you mean"):
        RunFolder.open(made.path.parent)
    with pytest.raises(UsageError, match="names no environment"):
        RunFolder.open(made.path)


def test_an_unwritable_log_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match=r"can't be written .*; name another with -f"):
        RunFolder.create(tmp_path / "file", "A-v0", "sac-mlp", 0)
