"""Work that is killed at random moments comes to the same end; tests/kills.py has it all."""

import os
import subprocess
import sys
from pathlib import Path

KILLS = os.environ.get("TEXTRL_KILLS", "5")


def test_what_is_killed_comes_to_the_same_end() -> None:
    command = [sys.executable, "-m", "tests.kills", KILLS]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "kills" in ended.stdout
