"""The Hub's real client against a small Hub over HTTP: what is sent, what is told when it fails."""

import socket
from pathlib import Path

import huggingface_hub
import pytest

from tests.hub_server import HubServer
from textrl.config.hub_names import check_name
from textrl.data.download import fetch
from textrl.errors import UserError
from textrl.sharing.hub import open_repo, push

MARKS = ("task.json",)
PATTERNS = ("*.json", "*.safetensors", "figures/*.png")


@pytest.fixture(autouse=True)
def _logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canwrite")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files to push, and some that no pattern covers."""
    root = tmp_path / "run"
    for name in ("figures", "state/figures"):
        (root / name).mkdir(parents=True)
    (root / "task.json").write_text('{"task": "wordle"}')
    (root / "model.safetensors").write_bytes(bytes(range(256)) * 4000)
    (root / "figures" / "curve.png").write_bytes(b"a picture")
    for name in ("notes.txt", "state/optimizer.safetensors", "state/figures/x.png"):
        (root / name).write_text("stays here")
    return root


PUSHED = {".gitattributes", "task.json", "model.safetensors", "figures/curve.png"}


@pytest.mark.parametrize("name", ["", "agent", "a/b/c", "mine/", "mine/ä", "mine/a--b", "-a/b"])
def test_a_name_that_the_hub_would_not_take(name: str) -> None:
    with pytest.raises(UserError, match="USER/NAME"):
        check_name(name)


def test_one_commit_holds_the_folder_s_files(hub: HubServer, folder: Path) -> None:
    open_repo("mine/whole", "model", False, MARKS)
    address = push(folder, "mine/whole", "model", PATTERNS, "first")
    repo = hub.model("mine/whole")
    assert address == f"{hub.url}/mine/whole"
    assert repo.messages == ["initial commit", "first"]
    assert repo.files.keys() == PUSHED
    assert repo.files["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    assert not repo.private


def test_a_later_push_sends_what_changed_and_drops_what_is_gone(
    hub: HubServer, folder: Path
) -> None:
    open_repo("mine/later", "model", False, MARKS)
    push(folder, "mine/later", "model", PATTERNS, "first")
    # What others put there, outside of the patterns, is not ours to remove.
    repo = hub.model("mine/later")
    repo.commit("by hand", {**repo.files, "NOTES.md": b"mine", "old/a.json": b"mine"})
    (folder / "figures" / "curve.png").unlink()
    (folder / "task.json").write_text('{"task": "gridworld"}')
    open_repo("mine/later", "model", False, MARKS)
    hub.log.clear()
    push(folder, "mine/later", "model", PATTERNS, "second")
    assert repo.files.keys() == PUSHED - {"figures/curve.png"} | {"NOTES.md", "old/a.json"}
    assert repo.files["task.json"] == b'{"task": "gridworld"}'
    assert not any(line.startswith("PUT") for line in hub.log), "the weights were sent twice"
    push(folder, "mine/later", "model", PATTERNS, "nothing new")
    assert repo.messages == ["initial commit", "first", "by hand", "second"]


def test_an_upload_cut_in_the_middle_is_repeated(hub: HubServer, folder: Path) -> None:
    open_repo("mine/cut", "model", False, MARKS)
    (folder / "model.safetensors").write_bytes(b"another" * 100_000)
    hub.cut_uploads = 1
    hub.log.clear()
    push(folder, "mine/cut", "model", ("model.safetensors",), "cut once")
    assert sum(line.startswith("PUT") for line in hub.log) == 2
    assert hub.model("mine/cut").files["model.safetensors"] == b"another" * 100_000


def test_a_push_that_broke_off_changes_nothing_and_goes_on(hub: HubServer, folder: Path) -> None:
    open_repo("mine/broken", "model", False, MARKS)
    (folder / "model.safetensors").write_bytes(b"weights" * 100_000)
    hub.drop_commits = 1
    with pytest.raises(UserError, match=r"cannot publish to 'mine/broken': no connection to http"):
        push(folder, "mine/broken", "model", PATTERNS, "dropped")
    assert hub.model("mine/broken").messages == ["initial commit"]
    hub.log.clear()
    push(folder, "mine/broken", "model", PATTERNS, "again")
    assert not any(line.startswith("PUT") for line in hub.log), "the weights were sent twice"
    assert hub.model("mine/broken").files.keys() == PUSHED


def test_private_and_organizations(hub: HubServer) -> None:
    open_repo("acme/secret", "dataset", True, MARKS)
    assert hub.dataset("acme/secret").private
    open_repo("acme/secret", "dataset", True, MARKS)
    open_repo("acme/secret", "dataset", False, MARKS)  # it stays private
    assert hub.dataset("acme/secret").private
    open_repo("mine/open", "dataset", False, MARKS)
    with pytest.raises(UserError, match="'mine/open' exists and is public"):
        open_repo("mine/open", "dataset", True, MARKS)


def test_a_name_that_is_taken(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    open_repo("mine/thesis", "model", False, MARKS)
    repo = hub.model("mine/thesis")
    repo.commit("a card by hand", {**repo.files, "README.md": b"mine"})
    open_repo("mine/thesis", "model", False, MARKS)  # as good as empty
    repo.commit("by hand", {**repo.files, "thesis.pdf": b"important"})
    with pytest.raises(
        UserError, match=r"holds something else \(thesis.pdf, ...\): choose another"
    ):
        open_repo("mine/thesis", "model", False, MARKS)
    monkeypatch.setenv("HF_TOKEN", "hf_bobwrites")
    for name in ("mine/thesis", "mine/new", "acme/new"):
        with pytest.raises(UserError, match="the token may not write there: choose a name"):
            open_repo(name, "model", False, MARKS)
    assert ("models", "mine/new") not in hub.repos


def test_a_repository_that_went_away(hub: HubServer, folder: Path) -> None:
    with pytest.raises(UserError, match="there is no such repository"):
        push(folder, "mine/nowhere", "model", PATTERNS, "first")


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (None, "there is no Hugging Face token: run `hf auth login`"),
        ("hf_wrong", "the token is not valid: run `hf auth login`"),
        ("hf_canread", "the token can only read: run `hf auth login`"),
        ("hf_with\x0binside", "the token has characters that no token has"),
        ("hf_withäinside", "the token has characters that no token has"),
    ],
)
def test_tokens_that_do_not_do(
    hub: HubServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    token: str | None,
    told: str,
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(UserError) as error:
        open_repo("mine/agent", "model", False, MARKS)
    assert str(error.value).startswith(f"cannot publish to 'mine/agent': {told}")
    everything = str(error.value) + "".join(capfd.readouterr())
    assert "hf_w" not in everything and "inside" not in everything and "canread" not in everything
    assert ("models", "mine/agent") not in hub.repos


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", nobody)
    with pytest.raises(UserError, match=f"no connection to {nobody} .*: check the network"):
        open_repo("mine/agent", "model", False, MARKS)
    with pytest.raises(UserError, match=f"be loaded from the Hub: no connection to {nobody}"):
        fetch("mine/agent", "model", PATTERNS)


def test_a_hub_in_trouble(hub: HubServer) -> None:
    for status, told in ((503, "try again later"), (429, "too many requests"), (418, "status 418")):
        hub.trouble = status
        with pytest.raises(UserError, match=told):
            open_repo("mine/agent", "model", False, MARKS)


def test_offline_mode_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        open_repo("mine/agent", "model", False, MARKS)


def test_what_is_fetched(hub: HubServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_repo("mine/fetched", "model", False, MARKS)
    push(folder, "mine/fetched", "model", PATTERNS, "first")
    monkeypatch.delenv("HF_TOKEN")
    got = fetch("mine/fetched", "model", ("*.json",))
    assert [path.name for path in got.iterdir()] == ["task.json"]
    hub.trouble = 503
    assert fetch("mine/fetched", "model", ("*.json",)) == got  # from the cache
    assert fetch(str(folder), "model", ("*.json",)) == folder


def test_what_cannot_be_fetched(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # where one works, there may be a runs/wordle
    open_repo("mine/hidden", "model", True, MARKS)
    with pytest.raises(UserError, match="'runs/wordel' does not exist here, and cannot be"):
        fetch("runs/wordel", "model", ("*.json",))
    with pytest.raises(UserError, match="not a Hub id"):
        fetch("./runs/wordle", "model", ("*.json",))
    for token in (None, "hf_bobwrites"):
        monkeypatch.delenv("HF_TOKEN")
        if token:
            monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(UserError, match="no such repository, or it is private"):
            fetch("mine/hidden", "model", ("*.json",))
        monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(UserError, match="the token is not valid"):
        fetch("mine/hidden", "model", ("*.json",))
