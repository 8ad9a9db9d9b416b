"""The game as a folder that runs as a Hugging Face Space: the page, the agent, and this code."""

import json
import re
import shutil
import sys
from importlib.metadata import distribution, requires, version
from pathlib import Path

import textrl
from textrl.data.files import scratch_folder
from textrl.data.task_file import TASK_FILE, describe_task
from textrl.envs.wordle.play.opponent import Opponent
from textrl.errors import UserError

DISTRIBUTION = "offline-textrl"
NOT_CODE = ("__pycache__", "*.pyc")

APP = '''"""Wordle against a model, as a Hugging Face Space runs it; see README.md."""

import os
from pathlib import Path

import torch

from textrl.envs.wordle.play.opponent import load_opponent
from textrl.envs.wordle.play.web import serve

torch.set_num_threads(1)
# A Space's visitors come through its proxy, which says who they are.
os.environ.setdefault("FORWARDED_ALLOW_IPS", "*")
agent = Path(__file__).parent / "{agent}"
opponent = load_opponent(str(agent), beta={beta!r}, sample={sample!r})

if __name__ == "__main__":  # 0.0.0.0: visitors come from outside the Space's container
    serve(opponent, "0.0.0.0", int(os.environ.get("GRADIO_SERVER_PORT", "7860")))
'''

CARD = """---
title: Wordle against a model
emoji: \N{LARGE GREEN SQUARE}
colorFrom: green
colorTo: yellow
sdk: gradio
sdk_version: {gradio}
python_version: "{python}"
app_file: app.py
license: apache-2.0
---

# Wordle against a model

Race a small language model for a hidden word, let it guess yours, or watch it play. It learned the
game offline with textrl; `agent/` is its checkpoint. `python app.py` runs the page on port 7860.
To publish it: `hf upload USER/NAME . --repo-type space`. The word lists derive from SCOWL; their
notice is in `textrl/envs/wordle/lists/NOTICE`.
"""


def write_space(folder: Path, opponent: Opponent) -> None:
    """Write the folder whole or not at all; it must not exist yet."""
    if folder.exists():
        raise UserError(f"{str(folder)!r} exists already: choose another folder or remove it")
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder.absolute()) as scratch:
        source = Path(str(textrl.__file__)).parent
        ignore = shutil.ignore_patterns(*NOT_CODE)
        shutil.copytree(source, scratch / source.name, ignore=ignore)
        write_metadata(scratch)
        agent = scratch / "agent"
        opponent.model.save_pretrained(agent)
        task = describe_task(opponent.task)
        (agent / TASK_FILE).write_text(json.dumps(task) + "\n", encoding="utf-8")
        decoding = opponent.decoding
        app = APP.format(agent=agent.name, beta=decoding.beta, sample=decoding.sample)
        (scratch / "app.py").write_text(app, encoding="utf-8")
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        card = CARD.format(gradio=version("gradio"), python=python)
        (scratch / "README.md").write_text(card, encoding="utf-8")
        (scratch / "requirements.txt").write_text(requirements(), encoding="utf-8")
        scratch.rename(folder)


def write_metadata(folder: Path) -> None:
    """What an installation would have: by its entry points the code finds its tasks."""
    ours = distribution(DISTRIBUTION)
    metadata = folder / f"{DISTRIBUTION.replace('-', '_')}-{ours.version}.dist-info"
    metadata.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (metadata / name).write_text(ours.read_text(name) or "", encoding="utf-8")


def requirements() -> str:
    """What textrl needs, in the versions that it runs with here; gradio comes with the Space."""
    lines = []
    for requirement in requires(DISTRIBUTION) or ():
        if "extra ==" not in requirement:
            name = re.split(r"[^A-Za-z0-9_.-]", requirement)[0]
            lines.append(f"{name}=={version(name).split('+')[0]}")  # without "+cpu"
    return "\n".join(lines) + "\n"
