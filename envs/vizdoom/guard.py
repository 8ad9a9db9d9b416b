"""A folder for a process's engines, and a guard that outlives the process and clears up after it.

An engine is a process of its own that waits for orders for ever, also when whoever gave them was
killed. So each process that starts engines has a guard: a small Python that reads from a pipe which
closes when the process ends, however it does, and then kills the engines and removes what is left
of them. Every engine has the folder's path on its command line; by that the guard knows them.
"""

import atexit
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Standard library only, so that it starts at once.
_GUARD = r"""
import glob, os, shutil, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder = sys.argv[1]
sys.stdin.buffer.read()
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        with open(path, "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
        pid = int(path.split("/")[2])
        if pid == os.getpid() or not any(word.startswith(folder + "/") for word in words):
            continue
        os.kill(pid, signal.SIGKILL)
        name = words[words.index("+viz_instance_id") + 1]
        for part in ("MQCtr", "MQDoom", "SM"):
            os.unlink("/dev/shm/ViZDoom" + part + name)
    except (OSError, ValueError, IndexError):
        pass
shutil.rmtree(folder, ignore_errors=True)
"""


@dataclass(frozen=True)
class _Guarded:
    pid: int
    folder: Path
    guard: subprocess.Popen[bytes]


_guarded: _Guarded | None = None


def engine_folder() -> Path:
    """This process's folder for what its engines read and write, watched by a guard."""
    global _guarded
    if _guarded is None or _guarded.pid != os.getpid():  # a fork has none yet
        folder = Path(tempfile.mkdtemp(prefix="textrl-vizdoom-")).resolve()
        guard = subprocess.Popen(
            [sys.executable, "-ISc", _GUARD, str(folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is not for it
            cwd="/",
        )
        _guarded = _Guarded(os.getpid(), folder, guard)
        atexit.register(_dismiss, _guarded)
    return _guarded.folder


def _dismiss(guarded: _Guarded) -> None:
    """Let the guard clear up, and wait for it."""
    if guarded.pid == os.getpid() and guarded.guard.stdin is not None:
        guarded.guard.stdin.close()
        guarded.guard.wait()
