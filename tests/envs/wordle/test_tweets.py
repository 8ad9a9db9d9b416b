"""Games from tweets: every kind of mess counted by its reason, colours reproduced exactly."""

import csv
import gzip
import io
import random
from pathlib import Path

import numpy as np
import pytest

from textrl.envs.wordle.crowd import simulate_crowd
from textrl.envs.wordle.games import Games
from textrl.envs.wordle.tweets import Reason, TweetSummary, read_tweets
from textrl.envs.wordle.words import WordList, load_words
from textrl.errors import UserError

COLUMNS = ["wordle_id", "tweet_id", "tweet_date", "tweet_username", "tweet_text"]
GRID = "⬛🟨⬛⬛🟩\n🟩🟩⬛⬛🟩\n🟩🟩🟩🟩🟩"
GOOD = f"Wordle 210 3/6\n\n{GRID}"


@pytest.fixture(scope="module")
def words() -> WordList:
    """A seventh of the full list's answers, with all of them as guesses: small, yet it fits."""
    common = load_words("full").answers
    answers = common[::7]
    return WordList("seventh", answers, (*answers, *sorted(set(common) - set(answers))))


def to_csv(texts: list[str], columns: list[str] = COLUMNS) -> str:
    """One tweet per text, each by another player, all of puzzle 210."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(columns)
    for index, text in enumerate(texts):
        row = dict(
            zip(COLUMNS, ["210", str(1000 + index), "today", f"p{index}", text], strict=True)
        )
        writer.writerow([row[column] for column in columns])
    return file.getvalue()


def read(
    tmp_path: Path, content: str | bytes, words: WordList, seed: int = 0
) -> tuple[Games, TweetSummary]:
    path = tmp_path / "tweets.csv"
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return read_tweets(path, words, seed)


def pattern(row: str) -> int:
    return sum("⬛🟨🟩".index(square) * 3**slot for slot, square in enumerate(row))


GRID_PATTERNS = [pattern(row) for row in GRID.split("\n")] + [-1] * 3

USABLE = {
    "plain": GOOD,
    "light": GOOD.replace("⬛", "⬜"),
    "light and dark": GOOD.replace("⬛", "⬜", 1),
    "high contrast": GOOD.replace("🟩", "🟧").replace("🟨", "🟦"),
    "hard mode": GOOD.replace("3/6", "3/6*"),
    "text around": f"Phew! {GOOD}\nBeat that, @friend #wordle",
    "text between the rows": GOOD.replace("🟩\n", "🟩 hmm 🤔\n"),
    "rows on one line": GOOD.replace("\n", " "),
    "CRLF": GOOD.replace("\n", "\r\n"),
    "another language": f"今日のワードル: {GOOD}\n難しかった",
    "full-width": GOOD.replace("210 3/6", "\uff12\uff11\uff10 \uff13\uff0f\uff16"),
    "variation selectors": GOOD.replace("⬛", "⬛\ufe0f"),
    "zero-width joiners": GOOD.replace("🟩", "🟩\u200d"),
    "NUL bytes": GOOD.replace("Wordle", "\0Wordle\0"),
    "lower case and hash": GOOD.replace("Wordle 210", "wordle #210"),
    "no-break space": GOOD.replace("210 3", "210\u00a03"),
}


@pytest.mark.parametrize("text", USABLE.values(), ids=USABLE.keys())
def test_usable_tweets(tmp_path: Path, words: WordList, text: str) -> None:
    games, summary = read(tmp_path, to_csv([text]), words)
    assert (summary.rows, summary.used, summary.skipped) == (1, 1, {})
    assert games.patterns(words).tolist() == [GRID_PATTERNS]
    assert games.behaviours == ("human",)


@pytest.mark.parametrize("separator", [",", ".", " ", "'", "\u2019", "\u202f", ""])
def test_thousands_separators(tmp_path: Path, words: WordList, separator: str) -> None:
    content = to_csv([GOOD.replace("210", f"1{separator}012")]).replace("\n210,", "\n1012,")
    _, summary = read(tmp_path, content, words)
    assert summary.skipped == {}


UNUSABLE = {
    "just talk": ("I love Wordle so much", Reason.NO_SCORE),
    "empty": ("", Reason.NO_SCORE),
    "another game": (f"Quordle 210 3/6\n{GRID}", Reason.NO_SCORE),
    "clone in another language": (f"Wordle (ES) #210 3/6\n{GRID}", Reason.NO_SCORE),
    "seven guesses": (f"Wordle 210 7/6\n{GRID}", Reason.NO_SCORE),
    "out of sixty": (f"Wordle 210 3/60\n{GRID}", Reason.NO_SCORE),
    "number of absurd length": (f"Wordle {'9' * 5000} 3/6\n{GRID}", Reason.NO_SCORE),
    "two grids": (f"{GOOD}\n{GOOD}", Reason.SEVERAL_SCORES),
    "two days": (f"{GOOD}\nWordle 209 4/6", Reason.SEVERAL_SCORES),
    "two grids, one score": (f"{GOOD}\n\n{GRID}", Reason.WRONG_COUNT),
    "yesterday's puzzle": (GOOD.replace("210", "209"), Reason.OTHER_PUZZLE),
    "no grid": ("Wordle 210 3/6 no spoilers", Reason.NO_GRID),
    "cut off in a row": (GOOD[:-2], Reason.CUT_OFF),
    "cut off after a row": (GOOD[:-6], Reason.WRONG_COUNT),
    "six squares": (GOOD.replace("⬛🟨", "⬛⬛🟨"), Reason.CUT_OFF),
    "mixed colours": (GOOD.replace("🟨", "🟦"), Reason.MIXED_COLOURS),
    "score too low": (GOOD.replace("3/6", "2/6"), Reason.WRONG_COUNT),
    "score too high": (GOOD.replace("3/6", "4/6"), Reason.WRONG_COUNT),
    "lost in three": (GOOD.replace("3/6", "X/6"), Reason.WRONG_COUNT),
    "won without the answer": (GOOD.replace("🟩🟩🟩🟩🟩", "🟩🟩🟩🟩⬛"), Reason.WRONG_END),
    "went on after the answer": (
        f"Wordle 210 4/6\n🟩🟩🟩🟩🟩\n{GRID}",
        Reason.WRONG_END,
    ),
    "lost with the answer": (
        "Wordle 210 X/6\n" + "⬛⬛⬛⬛⬛\n" * 5 + "🟩🟩🟩🟩🟩",
        Reason.WRONG_END,
    ),
    "colours that cannot be": (
        "Wordle 210 2/6\n🟩🟩🟩🟩🟨\n🟩🟩🟩🟩🟩",
        Reason.UNFITTABLE,
    ),
}


@pytest.mark.parametrize(("text", "reason"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_unusable_tweets(tmp_path: Path, words: WordList, text: str, reason: Reason) -> None:
    games, summary = read(tmp_path, to_csv([text]), words)
    assert summary.skipped == {reason: 1}
    assert len(games) == summary.used == 0


def test_lost_games_are_read(tmp_path: Path, words: WordList) -> None:
    games, summary = read(tmp_path, to_csv(["Wordle 210 X/6\n" + "⬛⬛⬛⬛⬛\n" * 6]), words)
    assert summary.used == 1
    assert games.won().tolist() == [False]


def test_everything_in_one_file_is_counted(tmp_path: Path, words: WordList) -> None:
    texts = [text for text, _ in UNUSABLE.values()] + list(USABLE.values())
    games, summary = read(tmp_path, to_csv(texts), words)
    assert summary.rows == len(texts)
    assert summary.used == len(games) == len(USABLE)
    assert sum(summary.skipped.values()) == len(UNUSABLE)
    assert summary.skipped[Reason.WRONG_COUNT] == 5
    first, *reasons = summary.describe().splitlines()
    assert first == f"tweets: {len(texts)} rows, {len(USABLE)} games used (41.0%)"
    assert len(reasons) == len(summary.skipped)
    assert reasons[0] == "  skipped 7: no score such as 'Wordle 210 4/6'"


def test_duplicates(tmp_path: Path, words: WordList) -> None:
    rows = [
        ("210", "1", "ann", GOOD),
        ("210", "1", "bob", GOOD),
        ("210", "2", "@Ann", GOOD),
        ("211", "3", "ann", GOOD.replace("210", "211")),
        ("210", "4", "cy", "Wordle 210 3/6"),
        ("210", "5", "cy", GOOD),
        ("210", "", "", GOOD),
        ("210", "", "", GOOD),
    ]
    file = io.StringIO()
    csv.writer(file).writerows([("wordle_id", "tweet_id", "tweet_username", "tweet_text"), *rows])
    _, summary = read(tmp_path, file.getvalue(), words)
    assert summary.used == 5
    assert summary.skipped == {Reason.SAME_TWEET: 1, Reason.SAME_PLAYER: 1, Reason.NO_GRID: 1}


def test_columns_in_any_order_with_or_without_names(tmp_path: Path, words: WordList) -> None:
    for columns in (COLUMNS[::-1], ["tweet_text", "tweet_id", "wordle_id"]):
        _, summary = read(tmp_path, to_csv([GOOD, GOOD], columns), words)
        assert summary.used == 2


def test_files_as_they_come(tmp_path: Path, words: WordList) -> None:
    plain = to_csv([GOOD])
    for content in (
        b"\xef\xbb\xbf" + plain.encode(),
        plain.replace("\n", "\r\n").encode(),
        plain.replace("wordle_id", " Wordle_ID ").encode(),
        plain.rstrip().encode(),
        plain.replace("\r\n", "\r\n\r\n").encode(),
        plain.encode().replace(b"today", b"\xff\xfe\x80"),
        gzip.compress(plain.encode()),
    ):
        _, summary = read(tmp_path, content, words)
        assert (summary.used, summary.skipped) == (1, {})


def test_broken_rows_cost_only_themselves(tmp_path: Path, words: WordList) -> None:
    header, good = to_csv([GOOD]).split("\r\n", 1)
    other = good.replace(",1000,", ",1001,").replace("p0", "p1")
    for broken in ("210,7\r\n", "1,2,3,4,5,6,7\r\n", "x" * 1_000_000 + "\r\n"):
        _, summary = read(tmp_path, header + "\r\n" + good + broken + other, words)
        assert summary.used == 2
        assert summary.skipped.keys() == {Reason.BROKEN_ROW}


def test_reading_goes_on_after_a_quote_that_is_never_closed(
    tmp_path: Path, words: WordList
) -> None:
    unclosed = '210,7,today,p,"' + "never closed\n" * 20_000
    good = to_csv([GOOD] * 50)
    games, summary = read(tmp_path, good + unclosed + good.replace(",p", ",q"), words)
    assert summary.used >= 50
    assert Reason.BROKEN_ROW in summary.skipped
    assert len(games) == summary.used


def test_letters_reproduce_the_colours(tmp_path: Path, words: WordList) -> None:
    """Games of the crowd, tweeted: with the letters that are drawn they have the same colours."""
    played = simulate_crowd(words, 1500, seed=5)
    expected = played.patterns(words)
    content = to_csv([tweet(row) for row in expected])
    games, summary = read(tmp_path, content, words)
    assert summary.used > 0.9 * len(played)
    assert summary.skipped.keys() <= {Reason.UNFITTABLE}
    got = [tuple(row) for row in games.patterns(words).tolist()]
    remaining = iter([tuple(row) for row in expected.tolist()])
    assert all(row in remaining for row in got)  # the same rows in the same order


def tweet(patterns: np.ndarray) -> str:
    rows = [
        "".join("⬛🟨🟩"[pattern // 3**slot % 3] for slot in range(5))
        for pattern in patterns[patterns >= 0].tolist()
    ]
    score = str(len(rows)) if rows[-1] == "🟩🟩🟩🟩🟩" else "X"
    return f"Wordle 210 {score}/6\n\n" + "\n".join(rows)


def test_games_of_a_puzzle_share_their_answer(tmp_path: Path, words: WordList) -> None:
    content = to_csv(["Wordle 210 2/6\n⬛⬛⬛⬛⬛\n🟩🟩🟩🟩🟩"] * 40)
    games, _ = read(tmp_path, content, words, seed=3)
    assert len(set(games.answers.tolist())) == 1
    assert len(set(games.guesses[:, 0].tolist())) > 5
    again, _ = read(tmp_path, content, words, seed=3)
    np.testing.assert_array_equal(games.guesses, again.guesses)
    others = {read(tmp_path, content, words, seed)[0].answers[0] for seed in range(10)}
    assert len(others) > 5


def test_guesses_are_drawn_uniformly(tmp_path: Path) -> None:
    """Three of the five words share no letter with the answer, so that each gives a black row."""
    words = WordList("tiny", ("might",), ("might", "cease", "dolce", "pupas", "midst"))
    text = "Wordle 210 2/6\n⬛⬛⬛⬛⬛\n🟩🟩🟩🟩🟩"
    games, _ = read(tmp_path, to_csv([text] * 3000), words)
    assert np.bincount(games.guesses[:, 0], minlength=5)[[0, 4]].tolist() == [0, 0]
    np.testing.assert_allclose(
        np.bincount(games.guesses[:, 0], minlength=5)[1:4] / 3000, 1 / 3, atol=0.05
    )


def test_small_lists_fit_what_they_can(tmp_path: Path) -> None:
    games, summary = read(tmp_path, to_csv(list(USABLE.values())), load_words("paper"))
    assert summary.used + summary.skipped.get(Reason.UNFITTABLE, 0) == len(USABLE)
    assert all(row == GRID_PATTERNS for row in games.patterns(load_words("paper")).tolist())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "lacks the column wordle_id"),
        (b"a,b\n1,2\n", "lacks the column wordle_id"),
        (b"wordle_id,tweet_id\n1,2\n", "lacks the column tweet_text"),
        (to_csv([GOOD]).encode("utf-16"), "lacks the column"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "lacks the column"),
        (gzip.compress(to_csv([GOOD] * 99).encode())[:-30], "damaged gzip"),
        (b"\x1f\x8bnot gzip at all", "damaged gzip"),
    ],
)
def test_files_that_hold_no_tweets(
    tmp_path: Path, words: WordList, content: bytes, message: str
) -> None:
    with pytest.raises(UserError, match=message) as error:
        read(tmp_path, content, words)
    assert "\n" not in str(error.value)


def test_no_file(tmp_path: Path, words: WordList) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_tweets(tmp_path / "missing.csv", words, seed=0)
    with pytest.raises(UserError, match="directory"):
        read_tweets(tmp_path, words, seed=0)


def test_a_file_without_tweets_gives_no_games(tmp_path: Path, words: WordList) -> None:
    games, summary = read(tmp_path, to_csv([]), words)
    assert len(games) == 0
    assert summary.describe() == "tweets: 0 rows, 0 games used (0.0%)"


def test_random_damage_never_crashes(tmp_path: Path) -> None:
    words = load_words("paper")
    generator = random.Random(0)
    whole = to_csv(list(USABLE.values())).encode()
    header = whole[: whole.index(b"\n") + 1]
    for round_ in range(300):
        damaged = bytearray(whole)
        for _ in range(generator.randrange(1, 30)):
            damaged[generator.randrange(len(damaged))] = generator.choice(
                b'",\n\r\0\xf0\x9f\xff19x'
            )
        content = [
            bytes(damaged),
            header + bytes(damaged[len(header) : generator.randrange(len(damaged))]),
            header + generator.randbytes(2000),
            generator.randbytes(500),
        ][round_ % 4]
        try:
            games, summary = read(tmp_path, content, words)
        except UserError:
            continue
        assert summary.rows == summary.used + sum(summary.skipped.values())
        assert len(games) == summary.used
