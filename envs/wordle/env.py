"""Wordle as gymnasium environments: one game, or a batch of games stepped by array operations.

An action is five letter numbers 0..25, MultiDiscrete([26] * 5); one game also takes the word as it
is, step("crane"). An observation is the board, int8 of shape (6, 5, 2): for each turn and slot the
letter guessed and its colour (0 black, 1 yellow, 2 green), and -1 for both where nothing has been
guessed yet. A wrong guess is rewarded with -1.0, the right one with 0.0; the game terminates with
the right guess or the sixth wrong one and is never truncated.

Letters that are no word of the list still take their turn and are coloured, as an agent that spells
has to learn what a word is. A word given as text must be of the list. The info of a step tells:

- pattern: the colours of this guess as one number 0..242 (see game.pattern_of);
- guess: its index in the list, -1 if it is not there;
- valid: this guess is in the list; repeated: it was guessed before in this game;
- clue_consistent: as a word, this guess could be the answer by all clues seen before it;
- won: the game has been won; answer: the index of the answer once the game is over, else -1.
"""

import difflib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from textrl.envs.wordle.game import (
    ALL_GREEN,
    GREEN,
    MAX_GUESSES,
    WORD_LENGTH,
    colours_of,
    score,
)
from textrl.envs.wordle.rendering import Picture, board_picture, board_text
from textrl.envs.wordle.words import WordList, load_words
from textrl.errors import UserError

Board = NDArray[np.int8]

_ACTION_SPACE = spaces.MultiDiscrete([26] * WORD_LENGTH)
_BOARD_SHAPE = (MAX_GUESSES, WORD_LENGTH, 2)
_BOARD_SPACE = spaces.Box(
    low=np.int8(-1),
    high=np.broadcast_to(np.array([25, GREEN], dtype=np.int8), _BOARD_SHAPE),
    dtype=np.int8,
)


class WordleVectorEnv(gymnasium.vector.VectorEnv[Board, NDArray[np.integer[Any]], NDArray[Any]]):
    """A batch of games. Finished games wait for a reset: their steps change nothing and earn 0.0.

    reset draws every answer uniformly. Its options: `answers`, an array of answer indices, one per
    game; `reset_mask`, which games to begin anew (all of them if not given). The infos are arrays
    over the games; one more, `played`, tells whether this step was a turn of a game still going.
    """

    metadata = {  # noqa: RUF012 (gymnasium declares it so)
        "render_modes": ["ansi", "rgb_array"],
        "autoreset_mode": AutoresetMode.DISABLED,
    }

    def __init__(
        self, num_envs: int = 1, words: str | WordList = "paper", render_mode: str | None = None
    ) -> None:
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.words = load_words(words) if isinstance(words, str) else words
        self.single_action_space = _ACTION_SPACE
        self.single_observation_space = _BOARD_SPACE
        self.action_space = batch_space(_ACTION_SPACE, num_envs)
        self.observation_space = batch_space(_BOARD_SPACE, num_envs)
        self._answers = np.zeros(num_envs, dtype=np.intp)
        self._boards = np.full((num_envs, *_BOARD_SHAPE), -1, dtype=np.int8)
        self._patterns = np.zeros((num_envs, MAX_GUESSES), dtype=np.uint8)
        self._turns = np.zeros(num_envs, dtype=np.intp)
        self._won = np.zeros(num_envs, dtype=bool)
        self._over = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Board, dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        fresh = np.asarray(options.get("reset_mask", np.ones(self.num_envs, dtype=bool)))
        known = len(self.words.answers)
        if "answers" in options:
            answers = np.asarray(options["answers"])
        else:
            answers = self.np_random.integers(known, size=self.num_envs)
        if answers.shape != (self.num_envs,) or ((answers < 0) | (answers >= known)).any():
            raise ValueError(f"answers must be {self.num_envs} indices below {known}: {answers}")
        self._answers[fresh] = answers[fresh]
        self._boards[fresh] = -1
        self._turns[fresh] = 0
        self._won[fresh] = False
        self._over[fresh] = False
        return self._boards.copy(), {}

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[Board, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        if not self.action_space.contains(actions):
            raise ValueError(f"actions must be {self.num_envs} rows of letters 0..25: {actions}")
        guesses = actions.astype(np.uint8)
        playing = ~self._over
        index = self.words.find(guesses)
        valid = index >= 0
        patterns = self._colour(guesses, index)
        imagined = self._earlier_patterns(guesses)
        clues = self._patterns[:, : imagined.shape[1]]
        is_clue = np.arange(imagined.shape[1]) < self._turns[:, None]
        repeated = (imagined == ALL_GREEN).any(axis=1)
        clue_consistent = (~is_clue | (imagined == clues)).all(axis=1)

        games = np.flatnonzero(playing)
        turns = self._turns[games]
        self._boards[games, turns, :, 0] = guesses[games]
        self._boards[games, turns, :, 1] = colours_of(patterns[games])
        self._patterns[games, turns] = patterns[games]
        self._turns[games] += 1
        self._won |= playing & (patterns == ALL_GREEN)
        self._over = self._won | (self._turns == MAX_GUESSES)

        infos = {
            "played": playing,
            "pattern": np.where(playing, patterns, 0),
            "guess": np.where(playing, index, -1),
            "valid": playing & valid,
            "repeated": playing & repeated,
            "clue_consistent": playing & clue_consistent,
            "won": self._won.copy(),
            "answer": np.where(self._over, self._answers, -1),
        }
        rewards = np.where(playing & ~self._won, -1.0, 0.0)
        never = np.zeros(self.num_envs, dtype=bool)
        return self._boards.copy(), rewards, self._over.copy(), never, infos

    def render(self) -> tuple[str | Picture, ...] | None:
        """Each board as coloured text (ansi) or as pixels (rgb_array)."""
        if self.render_mode is None:
            return None
        draw = board_text if self.render_mode == "ansi" else board_picture
        return tuple(draw(board) for board in self._boards)

    def _colour(self, guesses: NDArray[np.uint8], index: NDArray[np.intp]) -> NDArray[np.uint8]:
        patterns = self.words.table[index, self._answers]
        not_words = np.flatnonzero(index < 0)
        answers = self.words.guess_letters[self._answers[not_words]]
        patterns[not_words] = score(guesses[not_words], answers)
        return patterns

    def _earlier_patterns(self, guesses: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """(games, turns) the earlier guesses, coloured as if this one were the answer."""
        earlier = self._boards[:, : self._turns.max(), :, 0]
        return score(earlier.astype(np.uint8), guesses[:, None])


class WordleEnv(gymnasium.Env[Board, NDArray[np.integer[Any]]]):
    """One game. reset draws the answer, or takes it from options={"answer": word or index}.

    - action_space: MultiDiscrete([26] * 5), letters 0..25; step takes a word of the list as well;
    - observation_space: Box(-1, [25, 2], (6, 5, 2), int8), the board: letters and their colours;
    - reward: -1.0 for a wrong guess, 0.0 for the right one; six guesses;
    - render_mode: "ansi", coloured text, or "rgb_array", (height, width, 3) uint8.
    """

    metadata = {  # noqa: RUF012 (gymnasium declares it so)
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 1,  # check_env warns where it is missing
    }

    def __init__(self, words: str | WordList = "paper", render_mode: str | None = None) -> None:
        self._games = WordleVectorEnv(1, words, render_mode)
        self.render_mode = render_mode
        self.words = self._games.words
        self._index = {word: number for number, word in enumerate(self.words.guesses)}
        self.action_space = _ACTION_SPACE
        self.observation_space = _BOARD_SPACE

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Board, dict[str, Any]]:
        super().reset(seed=seed)
        if options and "answer" in options:
            answer = self._answer_index(options["answer"])
        else:
            answer = int(self.np_random.integers(len(self.words.answers)))
        boards, _ = self._games.reset(options={"answers": [answer]})
        return boards[0], {}

    def step(
        self, action: NDArray[np.integer[Any]] | str
    ) -> tuple[Board, float, bool, bool, dict[str, Any]]:
        letters = self._letters(action) if isinstance(action, str) else np.asarray(action)
        boards, rewards, terminations, truncations, infos = self._games.step(letters[None])
        info = {name: values[0].item() for name, values in infos.items() if name != "played"}
        return boards[0], float(rewards[0]), bool(terminations[0]), bool(truncations[0]), info

    def render(self) -> str | Picture | None:
        """The board as coloured text (ansi) or as pixels (rgb_array)."""
        boards = self._games.render()
        return None if boards is None else boards[0]

    def _letters(self, word: str) -> NDArray[np.int64]:
        """The letters of a word that may be guessed, in upper or lower case."""
        found = word.strip().lower()
        if found not in self._index:
            near = difflib.get_close_matches(found, self.words.guesses, n=1)
            hint = f": did you mean {near[0]!r}?" if near else ": guess one of env.words.guesses"
            raise UserError(
                f"{word!r} is not one of the {len(self.words.guesses):,} words of the list"
                f" {self.words.name!r}{hint}"
            )
        letters: NDArray[np.int64] = self.words.guess_letters[self._index[found]].astype(np.int64)
        return letters

    def _answer_index(self, answer: str | int) -> int:
        if not isinstance(answer, str):
            return int(answer)
        answer = answer.strip().lower()
        if answer not in self.words.answers:
            near = difflib.get_close_matches(answer, self.words.answers, n=1)
            hint = f": did you mean {near[0]!r}?" if near else ": choose one of its answers"
            raise UserError(
                f"{answer!r} is not an answer of the word list {self.words.name!r}{hint}"
            )
        return self.words.answers.index(answer)
