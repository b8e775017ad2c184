"""Beyond one machine: two processes on one PostgreSQL, and a Ray cluster that loses a worker mid-cell."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

POSTGRES = next(
    (
        path
        for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        if (path / "initdb").exists()
    ),
    None,
)
TUNER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_tune import SPACE, FakePool, distance
from sna_rl.config import RunConfig
from sna_rl.training.tuning.search import Space
from sna_rl.training.tuning.tune import tune
from sna_rl.training.tuning.settings import Tuning

folder = Path({folder!r})
config = RunConfig("sac", "Pendulum-v1", n_timesteps=100, eval_freq=10)
space = Space.read(folder / "space.yml", "cp")
tuning = Tuning("shared", config, space, sampler="random", max_total_trials=8, n_startup_trials=2)
tuned = tune(tuning, folder, FakePool(), storage={url!r}, say=print, progress=False)
print("ran", tuned.n_run)
"""


@pytest.fixture
def postgres() -> Iterator[str]:
    """URL of a fresh server that listens on a socket alone."""
    if POSTGRES is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip("no PostgreSQL server or no psycopg here")
    folder = Path(tempfile.mkdtemp(prefix="sna-rl-pg-", dir="/tmp"))
    user = "postgres" if os.getuid() == 0 else None  # the server refuses to run as root
    if user:
        shutil.chown(folder, user)
    data = str(folder / "data")

    def call(*words: str) -> None:
        subprocess.run(words, check=True, cwd="/", user=user, group=user, stdout=subprocess.DEVNULL)

    try:
        call(f"{POSTGRES}/initdb", "-D", data, "-U", "sna", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses='' -k {folder} -c fsync=off"
        call(f"{POSTGRES}/pg_ctl", "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:
            yield f"postgresql://sna@/postgres?host={folder}"
        finally:
            call(f"{POSTGRES}/pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_two_processes_on_one_postgresql_never_exceed_the_total(postgres: str, tmp_path: Path) -> None:
    tests = str(Path(__file__).parent)
    (tmp_path / "space.yml").write_text(
        "first: {rank: {int: [2, 64]}, learning_rate: {float: [0.0001, 0.01]}}"
    )
    program = TUNER.format(tests=tests, folder=str(tmp_path), url=postgres)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    counts = [int(output.rsplit("ran ", 1)[1]) for output in outputs]
    assert sum(counts) == 8
    from sna_rl.training.tuning.storage import open_storage

    backend = open_storage(postgres, tmp_path).backend
    trials = backend.get_all_trials(backend.get_study_id_from_name("shared"))
    backend.engine.dispose()  # type: ignore[attr-defined]
    assert [trial.number for trial in trials] == list(range(8))
    assert len({trial.params["learning_rate"] for trial in trials}) == 8


CLUSTER = '''
import os, sys, time
from pathlib import Path
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")
import ray
from ray.cluster_utils import Cluster
from sna_rl.training.studies.ray_pool import RayPool
from sna_rl.training.studies.workers import Unit

folder = Path(sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
lost = cluster.add_node(num_cpus=1)
pool = RayPool(cluster.address)
assert pool.slots == 2, pool.slots
script = """
import os, time
from pathlib import Path
with open("{0}.started", "a") as file:
    print(os.getpid(), file=file)
while not Path("{1}").exists():
    time.sleep(0.1)
with open("{0}.ended", "a") as file:
    print("done", file=file)
"""
units = [
    Unit(f"cell {n}", "timeit:timeit", {"stmt": text, "number": 1}, folder / "log")
    for n, text in enumerate(script.format(folder / str(n), folder / "go") for n in range(4))
]
names = []
outcomes = pool.run(iter(units))
import threading
def lose():
    while len(list(folder.glob("*.started"))) < 2:
        time.sleep(0.1)
    cluster.remove_node(lost, allow_graceful=False)
    pids = [path.read_text().strip() for path in folder.glob("*.started")]
    while all(Path("/proc", pid).exists() for pid in pids):
        time.sleep(0.1)
    (folder / "go").touch()
threading.Thread(target=lose).start()
for outcome in outcomes:
    assert outcome.reason is None, outcome
    names.append(outcome.unit.name)
assert sorted(names) == [f"cell {n}" for n in range(4)], names
ray.shutdown()
cluster.shutdown()
print("complete")
'''


@pytest.mark.slow
def test_ray_cluster_that_loses_a_worker_completes_every_cell_once(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed")
    own_network = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if subprocess.run([*own_network, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespaces here")
    ran = subprocess.run(
        [*own_network, sys.executable, "-c", CLUSTER, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
    )
    assert ran.stdout.endswith("complete\n"), ran.stderr[-3000:]
    ended = {path.name: path.read_text() for path in tmp_path.glob("*.ended")}
    assert ended == {f"{n}.ended": "done\n" for n in range(4)}
    assert sum(len(path.read_text().split()) for path in tmp_path.glob("*.started")) == 5
