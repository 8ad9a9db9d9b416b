"""The recipe: played in a real terminal, refused with one line, and as a folder for a Space."""

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from textrl.envs.wordle.play import start as starting
from textrl.errors import run_recipe
from textrl.recipes import play

ROOT = Path(__file__).parents[2]
PATIENCE = 120  # seconds, for machines under load


def mind_interrupts() -> None:
    """For a process about to start: one of a background job ignores Ctrl-C, and so do its own."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A process on a pseudo-terminal of 80 x 24, and all that it has written."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            mind_interrupts()
            os.execvpe(command[0], command, environment)
        self.resize(80, 24)
        self.written = ""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str) -> str:
        """What is written from now on, up to this text."""
        start = len(self.written)
        deadline = time.monotonic() + PATIENCE
        while text not in re.sub(r"\033\[[0-9;?]*[a-zA-Z]", "", self.written[start:]):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.end], [], [], left)[0], self.written[start:]
            self.written += os.read(self.end, 4096).decode(errors="replace")
        return self.written[start:]

    def press(self, keys: str) -> None:
        os.write(self.end, keys.encode())

    def wait(self) -> int:
        """The exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def start(small_run: Path, tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    started: list[Terminal] = []

    def run() -> Terminal:
        command = [sys.executable, str(ROOT / "recipes" / "play.py"), str(small_run), "--seed", "1"]
        data = {"XDG_DATA_HOME": str(tmp_path / "data"), "TERM": "xterm-256color"}
        started.append(Terminal(command, {**os.environ, **data, "PYTHONPATH": str(ROOT)}))
        return started[-1]

    yield run
    for terminal in started:
        os.close(terminal.end)


def test_a_game_in_a_real_terminal_then_ctrl_c(
    start: Callable[[], Terminal], tmp_path: Path
) -> None:
    terminal = start()
    terminal.until("Press a letter")
    terminal.press("r")
    terminal.until("Esc menu")
    terminal.press("qqqqq\r")
    terminal.until("QQQQQ is not in the dictionary")
    terminal.press("\x7f" * 5)
    for word in ("crane", "shout", "lymph", "blind", "gawky", "fjord"):
        terminal.press(f"{word}\r")
    assert "The word was" in terminal.until("Enter again")
    terminal.press("\t")
    terminal.until("words left 236 ->")
    terminal.resize(20, 10)
    terminal.until("the game needs")
    terminal.resize(80, 24)
    terminal.until("Enter again")
    terminal.press("\x1b")
    terminal.until("Press a letter")
    terminal.press("w\r")
    terminal.until("guess 1:")
    terminal.press("\x03")
    assert "\033[?1049l" in terminal.until("Until next time.")  # the screen was given back
    assert terminal.wait() == 0
    record = tmp_path / "data" / "textrl" / "wordle-games.json"
    assert '"yours"' in record.read_text()


@pytest.fixture
def fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., str]:
    """Run the recipe, which must fail; give its one line of error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["play.py", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            run_recipe(play.main)
        assert stopped.value.code == 2
        (error,) = capsys.readouterr().err.strip().splitlines()
        return error

    return run


def test_mistakes_end_in_one_line(
    fails: Callable[..., str], small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "try --web" in fails(small_run)  # the tests' input is no terminal
    assert "there is no checkpoint" in fails("runs/nothing")  # which is what to say first
    free = free_port()
    assert "make wordle" in fails("runs/nothing", "--web", "--port", free)
    assert "no config.json" in fails(tmp_path, "--web", "--port", free)
    assert "1 to 65535" in fails(small_run, "--web", "--port", 99999)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot listen on" in fails(small_run, "--web", "--port", taken.getsockname()[1])
    assert "exists already" in fails(small_run, "--space", tmp_path)
    monkeypatch.setattr(starting, "find_spec", lambda name: None)
    assert "pip install 'offline-textrl[play]'" in fails(small_run, "--web")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_space_runs_on_its_own(small_run: Path, tmp_path: Path) -> None:
    space = tmp_path / "space"
    command = [sys.executable, str(ROOT / "recipes" / "play.py"), str(small_run)]
    subprocess.run([*command, "--space", space], check=True, cwd=ROOT, capture_output=True)
    assert not list(tmp_path.glob(".space*"))
    card = (space / "README.md").read_text()
    assert card.startswith("---\n") and "sdk: gradio" in card and "app_file: app.py" in card
    assert re.search(r"^torch==[\d.]+$", (space / "requirements.txt").read_text(), re.MULTILINE)

    # It is the folder's own code that runs, not the one installed here.
    page = space / "textrl" / "envs" / "wordle" / "play" / "page" / "index.html"
    page.write_text(page.read_text().replace("<title>", "<title>This very folder: "))
    port = free_port()
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port)}
    environment.pop("PYTHONPATH", None)
    server = subprocess.Popen(
        [sys.executable, str(space / "app.py")],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=mind_interrupts,
    )
    try:
        assert server.stdout is not None
        assert f":{port}" in server.stdout.readline()
        assert "This very folder" in fetched(f"http://127.0.0.1:{port}/")
        assert '"answers":236' in fetched(f"http://127.0.0.1:{port}/api/about")
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=PATIENCE) == 0
    finally:
        server.kill()


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return str(answer.read().decode())
