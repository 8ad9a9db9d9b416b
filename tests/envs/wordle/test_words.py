"""The committed lists, and what a user's file may and may not hold."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from textrl.envs.wordle import words as words_module
from textrl.envs.wordle.game import decode_words, encode_words
from textrl.envs.wordle.words import LISTS, WordList, load_words
from textrl.errors import UserError


def word_file(folder: Path, content: str | bytes) -> str:
    path = folder / "mine.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_full_list_has_the_promised_size_and_shape() -> None:
    full = load_words("full")
    assert 2_100 <= len(full.answers) <= 2_300
    assert len(full.guesses) >= 11_000
    assert len(set(full.guesses)) == len(full.guesses)
    assert full.guesses[: len(full.answers)] == full.answers
    assert all(re.fullmatch("[a-z]{5}", word) for word in full.guesses)
    assert {"crane", "house", "glass", "speed"} <= set(full.answers)
    assert {"cares", "boxes", "tried"} <= set(full.guesses) - set(full.answers)


def test_paper_list_is_a_fixed_sample() -> None:
    paper = load_words("paper")
    assert len(paper.answers) == 236
    assert paper.guesses == paper.answers
    assert set(paper.answers) < set(load_words("full").answers)
    # Data and checkpoints name the list by this digest: a change makes them strangers to it.
    assert paper.digest == "6e8e093e6564e05a"


def test_committed_lists_agree_with_their_checksums() -> None:
    check = [sys.executable, str(LISTS / "derive.py"), "--check"]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    for line in (LISTS / "SHA256SUMS").read_text().splitlines():
        checksum, name = line.split()
        assert hashlib.sha256((LISTS / name).read_bytes()).hexdigest() == checksum


def test_a_damaged_committed_list_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "SHA256SUMS").write_text((LISTS / "SHA256SUMS").read_text())
    (tmp_path / "answers.txt").write_text("crane\nslate\n")
    monkeypatch.setattr(words_module, "LISTS", tmp_path)
    with pytest.raises(UserError, match="differs from its checksum"):
        words_module._committed("answers.txt")


def test_a_file_is_lowered_and_keeps_its_order(tmp_path: Path) -> None:
    mine = load_words(word_file(tmp_path, "\ufeffSlate\r\n\n  crane  \nABBEY"))
    assert mine == WordList("mine.txt", ("slate", "crane", "abbey"), ("slate", "crane", "abbey"))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    first = load_words(word_file(tmp_path, "crane\nslate\n"))
    second = load_words(word_file(tmp_path, "crane\nabbey\n"))
    assert first.digest != second.digest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("crane\nbanana\n", r"mine\.txt, line 2: 'banana' has 6 letters"),
        ("crane\n\ncat\n", r"line 3: 'cat' has 3 letters"),
        ("crane\nit's5\n", r"line 2: \"it's5\" is not made of the letters"),
        ("crane\nnaïve\n", r"line 2: 'naïve' is not made of the letters"),
        ("crane slate\n", r"line 1: 'crane slate' is not made of the letters"),
        ("crane\nslate\nCRANE\n", r"line 3: 'CRANE' is already on line 1"),
        ("", r"has 0 words"),
        ("\n \n", r"has 0 words"),
        ("crane\n", r"has 1 words: a game needs at least 2"),
        (b"cr\xe4ne\nslate\n", r"is not UTF-8"),
    ],
)
def test_bad_files_name_what_is_wrong(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_words(word_file(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'papr': did you mean 'paper'"):
        load_words("papr")
    with pytest.raises(UserError, match=r"no word list '.*absent\.txt'"):
        load_words(str(tmp_path / "absent.txt"))
    with pytest.raises(UserError, match="is a folder"):
        load_words(str(tmp_path))


def test_find_tells_words_from_non_words() -> None:
    full = load_words("full")
    index = np.random.default_rng(0).integers(len(full.guesses), size=1000)
    np.testing.assert_array_equal(full.find(full.guess_letters[index]), index)
    assert full.find(encode_words(["aaaaa", "zzzzz", "qxqxq"])).tolist() == [-1, -1, -1]
    assert decode_words(full.guess_letters[:1]) == [full.guesses[0]]


def test_guesses_must_begin_with_the_answers() -> None:
    with pytest.raises(ValueError, match="begin with its answers"):
        WordList("wrong", ("crane", "slate"), ("slate", "crane"))
