"""What every long job needs: its folder, atomic writes, versions, progress."""

from sna_rl.runs.atomic import atomic_folder, atomic_write, remove_leftovers, write_json
from sna_rl.runs.folder import RunFolder, env_name, run_name
from sna_rl.runs.progress import Progress
from sna_rl.runs.versions import versions

__all__ = [
    "Progress",
    "RunFolder",
    "atomic_folder",
    "atomic_write",
    "env_name",
    "remove_leftovers",
    "run_name",
    "versions",
    "write_json",
]
