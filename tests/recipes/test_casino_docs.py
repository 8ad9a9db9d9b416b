"""The commands of docs/casino.md, one after the other, on a small part of the data."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from transformers import AutoModelForCausalLM, AutoTokenizer

from textrl import cli
from textrl.sharing import page

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
CASINO = SHARED / "data" / "conversations" / "casino.jsonl"
MODEL = SHARED / "models" / "stories260K"
ROWS = 40
SHORTER = {
    "train": "--max-steps 2 --batch-size 2 --accumulation 1 --context 256 --evaluate-episodes 2"
    " --evaluate-every 2 --log-every 1 --threads 1 --no-final-evaluation",
    "evaluate": "--episodes 2",
    "distill": "--steps 2",
}
"""What makes the commands quick."""


def commands() -> list[list[str]]:
    text = (ROOT / "docs" / "casino.md").read_text()
    return [shlex.split(line) for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE)]


@pytest.mark.skipif(
    not (CASINO.exists() and MODEL.exists()),
    reason="needs ../shared/data/conversations/casino.jsonl and ../shared/models/stories260K",
)
def test_the_path_of_a_new_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(MODEL)
    lines = CASINO.read_text().splitlines()[:ROWS]
    (tmp_path / "casino.jsonl").write_text("\n".join(lines))
    served: list[Any] = []
    monkeypatch.setattr(page, "serve", lambda app, *others: served.append(app))
    ran = []
    for program, command, *rest in commands():
        if "--from" in rest:  # the Hub's rows; tests/envs/text/test_formats.py has such
            continue
        if program == "transformers":
            tokenizer: Any = AutoTokenizer.from_pretrained(rest[0])
            asked = [{"role": "user", "content": "Hello! Shall we share?"}]
            prompt = tokenizer.apply_chat_template(
                asked, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            prompt.pop("token_type_ids", None)
            plain: Any = AutoModelForCausalLM.from_pretrained(rest[0])
            said = plain.generate(**prompt, max_new_tokens=3)
            assert said.shape[1] > prompt["input_ids"].shape[1]
        else:
            assert program == "textrl"
            cli.run([command, *rest, *SHORTER.get(command, "").split()])
        ran.append(command)
    assert ran == [
        *("collect", "train", "train", "evaluate", "view", "plot", "distill", "chat"),
    ]
    client = TestClient(served[0])
    assert client.get("/api/about").json()["data"]["count"] == ROWS
    assert client.get("/api/values?row=0&agent=0").json()["turns"][0][0]["q"] is not None
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    assert "KL divergence from the agent" in capsys.readouterr().out
