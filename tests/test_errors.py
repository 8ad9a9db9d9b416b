"""A user's mistake ends in one line and exit code 2; a bug keeps its traceback."""

import errno

import pytest

from textrl.errors import UserError, fail, run_recipe, unknown


def test_unknown_suggests_the_nearest_name_and_lists_all() -> None:
    error = unknown("task", "wordel", ["wordle", "gridworld"])
    assert str(error) == "unknown task 'wordel': did you mean 'wordle'? (tasks: gridworld, wordle)"


def test_unknown_suggests_nothing_when_nothing_is_near() -> None:
    error = unknown("task", "xyz", ["wordle"])
    assert str(error) == "unknown task 'xyz' (tasks: wordle)"


def test_fail_writes_one_line_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        fail("first line\n  second line")
    captured = capsys.readouterr()
    assert exit.value.code == 2
    assert captured.out == ""
    assert captured.err == "error: first line second line\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("no such word list"), "error: no such word list\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "runs/wordle"),
            "error: No space left on device: runs/wordle\n",
        ),
        (OSError("the stream broke"), "error: the stream broke\n"),
    ],
)
def test_run_recipe_tells_a_mistake_in_one_line(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def main() -> None:
        raise error

    with pytest.raises(SystemExit) as exit:
        run_recipe(main)
    assert exit.value.code == 2
    assert capsys.readouterr().err == line


def test_run_recipe_exits_as_interrupted_programs_do(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as exit:
        run_recipe(main)
    assert exit.value.code == 130
    assert capsys.readouterr().err == "\ninterrupted\n"


def test_run_recipe_leaves_bugs_visible() -> None:
    def main() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_recipe(main)


def test_run_recipe_returns_when_all_went_well() -> None:
    calls: list[str] = []
    run_recipe(lambda: calls.append("ran"))
    assert calls == ["ran"]
