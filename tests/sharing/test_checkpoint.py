"""Checkpoints: what is written, what is loaded again, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, GPT2Config, GPT2Model

from textrl.config.presets import configure, load_config
from textrl.data.files import scratch_folder
from textrl.data.task_file import check_same_task, describe_task, read_task_file
from textrl.envs.wordle.task import WordleTask
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError
from textrl.model.network import TextRLModel
from textrl.sharing.checkpoint import load_checkpoint, load_model, save_checkpoint
from textrl.tasks.members import Members

MakeModel = Callable[..., TextRLModel]
CONFIG = configure("wordle", layers=2, width=16, attention_heads=2)


@pytest.fixture
def saved(tmp_path: Path, wordle: WordleTask, make_model: MakeModel) -> Path:
    folder = tmp_path / "run"
    save_checkpoint(folder, make_model(wordle.language), Members({"wordle": wordle}), CONFIG)
    return folder


def test_what_a_checkpoint_holds(saved: Path, wordle: WordleTask) -> None:
    names = {path.name for path in saved.iterdir()}
    assert names >= {"config.json", "model.safetensors", "README.md", "training.yaml", "task.json"}
    assert "tokenizer.json" in names
    # Nothing that would be unpickled, and nothing left from writing.
    assert {Path(name).suffix for name in names} <= {".json", ".safetensors", ".md", ".yaml"}
    assert load_config(saved / "training.yaml") == CONFIG
    tokenizer = AutoTokenizer.from_pretrained(saved)
    assert tokenizer("<begin> c1 r2")["input_ids"] == [
        wordle.language.tokens.index(token) for token in ("<begin>", "c1", "r2")
    ]
    card = (saved / "README.md").read_text()
    assert card.startswith("---\n")
    assert "ilql" in card


def test_a_checkpoint_loads_as_it_was(
    saved: Path, wordle: WordleTask, make_model: MakeModel
) -> None:
    model, members = load_checkpoint(str(saved))
    expected = make_model(wordle.language).state_dict()
    assert model.state_dict().keys() == expected.keys()
    assert all(torch.equal(tensor, expected[n]) for n, tensor in model.state_dict().items())
    assert not model.training
    named = json.loads(json.dumps(describe_task(wordle)))
    assert read_task_file(saved / "task.json") == (named["task"], named["settings"])
    assert members.name == "wordle" and members.one()[1].settings() == wordle.settings()


def test_a_later_checkpoint_replaces_the_earlier(
    saved: Path, wordle: WordleTask, make_model: MakeModel
) -> None:
    (saved / "metrics.jsonl").write_text("mine\n")
    later = make_model(wordle.language, seed=1)
    save_checkpoint(saved, later, Members({"wordle": wordle}), CONFIG)
    weights = load_model(str(saved)).state_dict()
    assert all(torch.equal(tensor, weights[n]) for n, tensor in later.state_dict().items())
    assert (saved / "metrics.jsonl").read_text() == "mine\n"


def test_a_failed_save_leaves_the_old_checkpoint(
    saved: Path, wordle: WordleTask, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("textrl.sharing.checkpoint.save_config", full)
    with pytest.raises(OSError, match="No space left"):
        later = make_model(wordle.language, seed=1)
        save_checkpoint(saved, later, Members({"wordle": wordle}), CONFIG)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def damage_cut_off(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def damage_garbage(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x80\x04garbage" * 1000)


def damage_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def damage_foreign_weights(folder: Path) -> None:
    save_file({"other.weight": torch.zeros(3)}, folder / "model.safetensors", {"format": "pt"})


def damage_missing_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["v.0.bias"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def damage_surplus_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "extra": torch.zeros(1)}, folder / "model.safetensors", {"format": "pt"})


def damage_other_shape(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["v.0.bias"] = torch.zeros(7)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def damage_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"layers": 2')


def damage_unknown_backbone(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "backbone": "mamba"}))


def damage_config_values(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "heads": 5, "width": "wide"}))


def damage_config_list(folder: Path) -> None:
    (folder / "config.json").write_text("[]")


def damage_no_task(folder: Path) -> None:
    (folder / "task.json").unlink()


def damage_task_text(folder: Path) -> None:
    (folder / "task.json").write_text('{"task": ')


def damage_task_bytes(folder: Path) -> None:
    (folder / "task.json").write_bytes(b"\xff\xfe\x00")


def damage_task_content(folder: Path) -> None:
    (folder / "task.json").write_text('["wordle"]')


DAMAGES = {name.removeprefix("damage_"): f for name, f in globals().items() if "damage_" in name}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_by_name(saved: Path, damage: str) -> None:
    DAMAGES[damage](saved)
    with pytest.raises(UserError) as error:
        load_checkpoint(str(saved))
    assert str(saved) in str(error.value)


def test_the_damage_is_told(saved: Path) -> None:
    damage_cut_off(saved)
    with pytest.raises(UserError, match="incomplete metadata"):
        load_checkpoint(str(saved))
    damage_foreign_weights(saved)
    with pytest.raises(UserError, match="another model's"):
        load_checkpoint(str(saved))


def test_a_pickle_is_never_read(saved: Path) -> None:
    tensors = load_file(saved / "model.safetensors")
    (saved / "model.safetensors").unlink()
    torch.save(tensors, saved / "pytorch_model.bin")
    with pytest.raises(UserError):
        load_checkpoint(str(saved))


def test_a_model_of_another_library_is_refused(tmp_path: Path) -> None:
    GPT2Model(GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=9)).save_pretrained(tmp_path)
    (tmp_path / "task.json").write_text('{"task": "wordle", "settings": {}}')
    with pytest.raises(UserError):
        load_checkpoint(str(tmp_path))


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not a checkpoint: it has no config\.json"):
        load_checkpoint(str(tmp_path))
    with pytest.raises(UserError, match="nothing"):
        load_checkpoint(str(tmp_path / "nothing"))
    (tmp_path / "file").write_text("hello")
    with pytest.raises(UserError, match="not a checkpoint"):
        load_checkpoint(str(tmp_path / "file"))


def test_data_of_another_task_are_refused(tmp_path: Path, wordle: WordleTask) -> None:
    check_same_task(tmp_path, wordle.name, wordle.data_settings())  # nothing is said of these rows
    (tmp_path / "task.json").write_text(json.dumps(describe_task(wordle)))
    check_same_task(tmp_path, wordle.name, wordle.data_settings())
    other = WordleTask(WordList("twelve", ("crane", "slate"), ("crane", "slate")))
    with pytest.raises(UserError, match="was made with digest"):
        check_same_task(tmp_path, other.name, other.data_settings())
    # How the policy decodes is no matter of the data.
    loose = WordleTask(wordle.words, constrain=False)
    check_same_task(tmp_path, loose.name, loose.data_settings())
    (tmp_path / "task.json").write_text('{"task": "gridworld", "settings": {}}')
    with pytest.raises(UserError, match="of the task 'gridworld', not of 'wordle'"):
        check_same_task(tmp_path, wordle.name, wordle.data_settings())
    for damaged in ('{"task": ', "[]", '{"task": "wordle", "settings": null}'):
        (tmp_path / "task.json").write_text(damaged)
        with pytest.raises(UserError, match="is damaged"):
            check_same_task(tmp_path, wordle.name, wordle.data_settings())


def test_a_scratch_folder_is_empty_and_does_not_stay(tmp_path: Path) -> None:
    left = tmp_path / ".run.partial"
    left.mkdir()
    (left / "old").write_text("of a run that was killed")
    with scratch_folder(tmp_path / "run") as scratch:
        assert scratch.parent == tmp_path
        assert list(scratch.iterdir()) == []
        (scratch / "new").write_text("x")
    assert [path.name for path in tmp_path.glob(".*")] == []
