"""Tables that go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sna_rl.errors import SnaError
from sna_rl.runs.rows import Rows


def test_rows_are_found_again_by_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "new" / "table.csv"
    rows = Rows(path, ["arm", "seed"])
    rows.add({"arm": "plain", "seed": 0, "score": 0.5})
    rows.add({"arm": "plain", "seed": 1, "score": 0.25, "note": "late"})
    again = Rows(path, ["arm", "seed"])
    assert again.find(arm="plain", seed=1) == {"arm": "plain", "seed": "1", "score": "0.25", "note": "late"}
    assert again.find(arm="plain", seed=2) is None
    assert again.find(arm="other", seed=0) is None
    assert path.read_text() == "arm,seed,score,note\nplain,0,0.5,\nplain,1,0.25,late\n"


def test_a_row_that_nothing_tells_apart_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("arm,seed\nplain,\n")
    with pytest.raises(SnaError, match="has a row without 'seed'; remove it"):
        Rows(path, ["arm", "seed"])
