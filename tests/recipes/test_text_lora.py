"""An agent of conversations from its training to its answers: resumed, split, merged, talked to."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.tiny_lms import save_chat_lm
from textrl.errors import run_recipe
from textrl.model import lora
from textrl.recipes import merge, play, train
from textrl.sharing.checkpoint import load_agent
from textrl.training import loop

ROOT = Path(__file__).parents[2]
SETTINGS = "--task text --lora-rank 3 --context 128 --batch-size 4 --accumulation 1 --bisim 0.05"
SETTINGS += " --max-steps 6 --save-every 3 --log-every 1 --evaluate-every 100 --threads 2"
SETTINGS += " --learning-rate 3e-3 --no-final-evaluation --warmup-steps 0"
SAID = ("hello there", "how are you today?", "please tell me the price")
ANSWERS = (("I am fine, thank you.", 1.0), ("What can I do for you?", 0.5), ("no", -1.0))
Run = Callable[..., None]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model in lm/, conversations in logs.jsonl, a finished run in whole/."""
    folder = tmp_path_factory.mktemp("text")
    save_chat_lm(folder / "lm")
    with (folder / "logs.jsonl").open("w") as file:
        for number in range(24):
            messages: list[dict[str, Any]] = []
            for turn in range(1 + number % 3):
                answer, reward = ANSWERS[(number + turn) % 3]
                messages += [
                    {"role": "user", "content": SAID[(number // 3 + turn) % 3]},
                    {"role": "assistant", "content": answer, "reward": reward},
                ]
            print(json.dumps({"messages": messages}), file=file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXTRL_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["train", *arguments("whole")])
        train.main()
    return folder


def arguments(output: str) -> list[str]:
    where = ["--data", "logs.jsonl", "--backbone", "lm", "--output", output]
    return [*where, *SETTINGS.split()]


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a recipe in the place."""
    monkeypatch.chdir(place)

    def run(recipe: Any, *given: object) -> None:
        monkeypatch.setattr(sys, "argv", ["recipe", *map(str, given)])
        recipe.main()

    return run


def losses(folder: Path) -> list[float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["total"] for line in lines if "total" in line]


def test_killed_and_resumed_equals_uninterrupted(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = loop.save_state

    def save_and_die(*given: Any) -> None:
        save(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_state", save_and_die)
        with pytest.raises(KeyboardInterrupt):
            run(train, *arguments("broken"))
    assert [path.name for path in (place / "broken" / "state").iterdir()] == ["step-00000003"]
    run(train, "--output", "broken", "--resume")
    for name in ("model.safetensors", "state/step-00000006/optimizer.safetensors"):
        assert (place / "whole" / name).read_bytes() == (place / "broken" / name).read_bytes()
    assert losses(place / "whole") == losses(place / "broken")
    assert len(losses(place / "whole")) == 6


@pytest.mark.parametrize("how", ["two-cpus", "fsdp"])
def test_two_processes_follow_one(place: Path, run: Run, how: str) -> None:
    """A copy of the model in each (DDP), or one in pieces (FSDP)."""
    if not (place / "one").exists():
        run(train, *arguments("one"))
    script = {"two-cpus": "recipes/train.py", "fsdp": "tests/fsdp_on_cpu.py"}[how]
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--main_process_port", "0"]
    launch += ["--config_file", str(ROOT / f"recipes/configs/accelerate/{how}.yaml")]
    launch += ["--mixed_precision", "no", str(ROOT / script)]
    done = subprocess.run(
        [*launch, *arguments(how)],
        cwd=place,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = losses(place / "one"), losses(place / how)
    assert two == pytest.approx(one, abs=1e-4)
    assert two != one, "the run was not split at all"
    assert one[-1] < one[0]
    # What the processes saved together is a whole agent.
    ours, theirs = (load_agent(str(place / name))[0].state_dict() for name in ("one", how))
    assert ours.keys() == theirs.keys()
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-4) for name in ours)


def test_merged_it_says_the_same_without_peft(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, task = load_agent(str(place / "whole"))
    run(merge, "whole", "--output", "merged")
    (place / "lm").rename(place / "gone")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(lora, "find_spec", lambda name: None)
            merged, same_task = load_agent(str(place / "merged"))
    finally:
        (place / "gone").rename(place / "lm")
    assert merged.config.lora is None
    names = load_file(place / "merged" / "model.safetensors").keys()
    assert not any("lora" in name or name.startswith("world") for name in names)
    assert same_task.settings() == task.settings()
    rows, _ = task.held_out(2)
    tokens = torch.from_numpy(rows.tokens[None, :20]).long()
    positions = torch.arange(20)[None]
    with torch.no_grad():
        ours, theirs = agent(tokens, positions), merged(tokens, positions)
    for name in ("representation", "policy", "q", "target_q", "v"):
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-5)
    assert ours.q.abs().max() > 1e-4

    with pytest.raises(SystemExit):
        run_recipe(lambda: run(merge, "merged", "--output", "again"))
    with pytest.raises(SystemExit):
        run_recipe(lambda: run(merge, "whole", "--output", "merged"))
    assert not (place / "again").exists()


def test_prompts_of_a_file_are_answered_in_order_whatever_the_batch(place: Path, run: Run) -> None:
    prompts = [
        "hello there",
        json.dumps({"messages": [{"role": "user", "content": "how are you today? " * 3}]}),
        "",
        "please tell me",
    ]
    (place / "prompts.txt").write_text("\n".join(prompts))
    common = ["whole", "--prompts", "prompts.txt", "--max-new-tokens", 5, "--beta", 2, "--values"]
    found = []
    for size in (1, 2, 3):
        run(play, *common, "--batch-size", size, "--answers", f"answers-{size}.jsonl")
        lines = (place / f"answers-{size}.jsonl").read_text().splitlines()
        found.append([json.loads(line) for line in lines])
    for one, other in ((found[0], found[1]), (found[0], found[2])):
        assert [line["messages"] for line in one] == [line["messages"] for line in other]
    assert [line["messages"][0]["content"][:5] for line in found[0]] == ["hello", "how a", "pleas"]
    for line in found[0]:
        assert [message["role"] for message in line["messages"]] == ["user", "assistant"]
        assert len(line["tokens"]) <= 5
        assert all(each["log_pi"] < 0 for each in line["tokens"])
        assert all(abs(each["q"]) + abs(each["v"]) > 0 for each in line["tokens"])


def test_whole_answers_with_their_values(place: Path, run: Run) -> None:
    (place / "asked.txt").write_text("hello there\nplease tell me\n")
    common = ["whole", "--prompts", "asked.txt", "--max-new-tokens", 5, "--candidates", 4]
    run(play, *common, "--seed", 1, "--values", "--answers", "whole.jsonl")
    for line in map(json.loads, (place / "whole.jsonl").read_text().splitlines()):
        (chosen,) = [each for each in line["candidates"] if each["is_chosen"]]
        assert len(line["candidates"]) == 4 and isinstance(line["v"], float)
        assert line["messages"][-1]["content"] == chosen["text"]
        assert line["tokens"][-1]["q"] == pytest.approx(chosen["q"], abs=1e-5)
        finished = [each for each in line["candidates"] if each["is_finished"]]
        assert chosen["q"] == max(each["q"] for each in finished or line["candidates"])


def test_a_chat(
    place: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = "hello there\n/values\nhow are you?\n/beta 3\n/beta much\n/vlues\nodd <|eot_id|>\n/new\n"
    said += "/values\n/candidates 0\n/candidates 3\n/values\nhow much?\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(said))
    run(play, "whole", "--max-new-tokens", 4)
    heard = capsys.readouterr().out
    assert heard.count("agent: ") == 3
    assert heard.count("'\\n'") <= heard.count("Q - V") == 3
    assert "/candidates takes a number from 1 on, not '0'" in heard and "(candidates 3)" in heard
    compared = heard.partition("the turns compared")[2].splitlines()[1:4]
    assert sorted(line[0] for line in compared) == [" ", " ", ">"]
    shown = [float(line[1:].split()[0]) for line in compared]
    assert "V before them" in heard and len(set(shown)) > 1
    assert "(values on)" in heard and "(beta 3)" in heard and "(a new conversation)" in heard
    assert "/beta takes a number, not 'much'" in heard
    assert "unknown command '/vlues': did you mean '/values'?" in heard
    assert "control token '<|eot_id|>'" in heard
    assert heard.endswith("Until next time.\n")  # the input was at its end


def test_ctrl_c_ends_a_chat(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(shown: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)
    run(play, "whole")
    assert capsys.readouterr().out.endswith("Until next time.\n")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["whole", "--web"], "--web is not for agents of the task 'text'"),
        (["whole", "--max-new-tokens", "-1"], "--max-new-tokens must be at least 0"),
        (["whole", "--prompts", "nowhere.txt"], "nowhere.txt"),
        (["whole", "--prompts", "bad.txt"], "line 2 of the prompts is not a conversation"),
        (["whole", "--prompts", "done.txt"], "line 1 of the prompts ends with the assistant's"),
        (["whole", "--prompts", "ok.txt", "--max-new-tokens", "200"], "leaves no room"),
        (["whole", "--base", "elsewhere"], "the adapter's language model is not available"),
        (["whole", "--answers", "x"], "--answers needs --prompts"),
        (["lm"], "does not say in task.json what it plays"),
    ],
)
def test_mistakes(
    place: Path, run: Run, given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "ok.txt").write_text("hello\n")
    (place / "bad.txt").write_text('hello\n{"messages": [{"role": "usr", "content": "x"}]}\n')
    done = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}
    (place / "done.txt").write_text(json.dumps(done))
    with pytest.raises(SystemExit) as stopped:
        run_recipe(lambda: run(play, *given))
    *_, error = capsys.readouterr().err.strip().splitlines()
    assert stopped.value.code == 2 and error.startswith("error: ") and message in error


def test_the_lines_of_the_docs_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "lora.md").read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    for name, here in (("USER/NAME", "whole"), ("runs/text", "whole"), ("models/llama", "lm")):
        code = code.replace(name, str(place / here))
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["said"].shape[0] == 1 and names["agent"].config.lora
    assert capsys.readouterr().out
