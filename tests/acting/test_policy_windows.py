"""Acting with a window: as a fresh reading of exactly the turns in it, frames included."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from tests.frame_task import CELLS, SIDE, FrameTask, view
from textrl.acting import decoding
from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy, Turn, joined
from textrl.acting.rollout import play
from textrl.data.frames import Frames
from textrl.data.language import BEGIN_ID, FRAME, Language
from textrl.losses.outputs import action_scores
from textrl.model.network import TextRLModel

MakeModel = Callable[..., TextRLModel]
BETA = 1.5
HOT, FRAME_ID = 2, 3


@pytest.fixture
def seeing(language: Language) -> Language:
    """Ids: <begin> 1, hot 2, <frame> 3, a 4, b 5, x 6, y 7. Actions: ax, ay, by."""
    return Language(("hot", FRAME), language.actions, language.grammar)


def first_turn_read(decision: int, window: int) -> int:
    """From which turn on the model has read at this decision.

    A full window is read anew from its middle on: of 4 turns, the last 2 (and the one at hand).
    """
    first = 0
    for turn in range(decision + 1):
        if window and turn - first == window:
            first = turn - window // 2
    return first


class Told:
    """All that was seen and said so far, turn by turn, to be read anew at every decision."""

    def __init__(self, patches: int) -> None:
        self.patches = patches
        self.turns: list[tuple[NDArray[np.int64], NDArray[np.uint8] | None, list[Any]]] = []

    def see(self, tokens: NDArray[np.int64], frames: NDArray[np.uint8] | None) -> None:
        self.turns.append((tokens, frames, []))

    def keep(self, rows: NDArray[np.int64]) -> None:
        self.turns = [
            (tokens[rows], None if frames is None else frames[rows], [word[rows] for word in said])
            for tokens, frames, said in self.turns
        ]

    def read(self, first: int) -> tuple[Tensor, Frames | None]:
        """Turn `first` and all after it; every frame as so many tokens."""
        columns: list[NDArray[np.int64]] = []
        shown: list[tuple[NDArray[np.uint8], int, int]] = []
        for tokens, frames, said in self.turns[first:]:
            for column in tokens.T:
                if column[0] == FRAME_ID:
                    shown += [(frames[row], row, len(columns)) for row in range(len(column))]
                columns += [column] * (self.patches if column[0] == FRAME_ID else 1)
            columns += said
        if not shown:
            return torch.from_numpy(np.stack(columns, axis=1)), None
        pixels, episode, position = zip(*shown, strict=True)
        frames_read = Frames(
            torch.from_numpy(np.stack(pixels)), torch.tensor(episode), torch.tensor(position)
        )
        return torch.from_numpy(np.stack(columns, axis=1)), frames_read


@pytest.mark.parametrize("backbone", ["gpt2", "rnn"])
@pytest.mark.parametrize("patches", [0, 4])
@pytest.mark.parametrize("window", [0, 1, 2, 5])
def test_scores_are_those_of_reading_the_window_anew(
    seeing: Language,
    make_model: MakeModel,
    monkeypatch: pytest.MonkeyPatch,
    backbone: str,
    patches: int,
    window: int,
) -> None:
    shape = {"frame_shape": (SIDE, SIDE), "patches": patches} if patches else {}
    model = make_model(seeing, backbone=backbone, context=160, window=window, **shape)
    policy = Policy(model, seeing, Decoding(BETA, sample=True), seed=0)
    given: list[Tensor] = []

    def recorded(*arguments: Any) -> Tensor:
        given.append(action_scores(*arguments)[:, 0])
        return given[-1][:, None]

    monkeypatch.setattr(decoding, "action_scores", recorded)
    rng = np.random.default_rng(1)
    told = Told(patches)

    def see(count: int, turn: int) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
        """One to three tokens for each episode, the frame at another place each time."""
        words = rng.choice([BEGIN_ID, HOT], size=(count, 1 + turn % 3))
        if not patches:
            return words, None
        words[:, turn % words.shape[1]] = FRAME_ID
        return words, rng.integers(256, size=(count, SIDE, SIDE), dtype=np.uint8)

    def slow_scores(first: int, states: NDArray[np.int64]) -> Tensor:
        tokens, frames = told.read(first)
        legal = torch.from_numpy(seeing.grammar.legal[states])
        with torch.no_grad():
            return action_scores(model(tokens, frames=frames), legal[:, None], BETA)[:, 0]

    count, forgot = 5, 0.0
    kept = {3: np.array([4, 0, 2, 1]), 6: np.array([2, 3]), 7: np.array([1, 0])}
    for turn in range(13):
        seen = see(count, turn)
        told.see(*seen)
        if turn == 0:
            policy.begin(*seen)
        else:
            policy.observe(*seen)
        if turn in kept:
            policy.keep(kept[turn])
            told.keep(kept[turn])
            count = len(kept[turn])
        given.clear()
        chosen = policy.act()
        assert chosen.shape == (count, 2) and len(given) == 2
        states = np.zeros(count, dtype=np.int64)
        for number, scores in enumerate(given):
            first = first_turn_read(turn, window)
            expected = slow_scores(first, states)
            torch.testing.assert_close(scores, expected, rtol=0, atol=5e-5)
            if first:
                differs = (expected - slow_scores(0, states)).nan_to_num(0.0)  # illegal: inf - inf
                forgot = max(forgot, float(differs.abs().max()))
            states = seeing.grammar.next_state[states, chosen[:, number]].astype(np.int64)
            told.turns[-1][2].append(chosen[:, number] + seeing.first_action)
    assert (forgot > 5e-4) == (window > 0)  # what is forgotten would have mattered


def test_what_a_window_of_four_reads() -> None:
    first = [first_turn_read(decision, window=4) for decision in range(10)]
    assert first == [0, 0, 0, 0, 2, 2, 4, 4, 6, 6]
    assert [first_turn_read(decision, window=1) for decision in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("window", [1, 2, 3, 6])
def test_long_play_stays_within_the_context(
    seeing: Language, make_model: MakeModel, window: int
) -> None:
    # A turn: a word, a frame of four tokens, and two of the action, the last of which is not read
    # before the next turn.
    context = 7 * window - 1
    shape = {"frame_shape": (SIDE, SIDE), "patches": 4, "context": context}
    pixels = np.random.default_rng(0).integers(256, size=(3, SIDE, SIDE), dtype=np.uint8)
    seen = np.tile([HOT, FRAME_ID], (3, 1))

    def play_on(model: TextRLModel) -> None:
        policy = Policy(model, seeing, Decoding(BETA, sample=False), seed=0)
        policy.begin(seen, pixels)
        for _ in range(5 * window):
            policy.act()
            policy.observe(seen, pixels)

    play_on(make_model(seeing, window=window, **shape))
    # Without a window, or with a larger one, there are not so many positions.
    for more in (0, window + 1):
        with pytest.raises(IndexError):
            play_on(make_model(seeing, window=more, **shape))


def test_begin_forgets_the_window(seeing: Language, make_model: MakeModel) -> None:
    model = make_model(seeing, window=2, frame_shape=(SIDE, SIDE), patches=1, context=64)
    policy = Policy(model, seeing, Decoding(BETA, sample=False), seed=0)
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(6, 1, SIDE, SIDE), dtype=np.uint8)
    seen = np.array([[HOT, FRAME_ID]])

    def chances() -> list[tuple[float, ...]]:
        policy.begin(seen, frames[0])
        found = []
        for each in frames[1:]:
            policy.act()
            found += [thought.chance for thought in policy.thoughts(top=4)]
            policy.observe(seen, each)
        return found

    assert chances() == chances()


def test_a_frame_is_encoded_once(
    seeing: Language, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a window is read anew."""
    model = make_model(seeing, window=4, frame_shape=(SIDE, SIDE), patches=4, context=64)
    encoded: list[Tensor] = []
    encode = model.frames.forward

    def counted(pixels: Tensor) -> Tensor:
        encoded.append(pixels)
        return encode(pixels)

    monkeypatch.setattr(model.frames, "forward", counted)
    policy = Policy(model, seeing, Decoding(BETA, sample=False), seed=0)
    frames = np.random.default_rng(0).integers(256, size=(12, 3, SIDE, SIDE), dtype=np.uint8)
    seen = np.tile([HOT, FRAME_ID], (3, 1))
    policy.begin(seen, frames[0])
    for each in frames[1:]:
        policy.act()
        policy.observe(seen, each)
    policy.act()
    np.testing.assert_array_equal(np.stack([pixels.numpy() for pixels in encoded]), frames)


def test_turns_join_by_hand() -> None:
    early, late = torch.zeros(2, 1, 1), torch.ones(2, 1, 1)
    before = Turn(torch.tensor([[1, 3, 3], [1, 3, 3]]), ((1, early),), torch.tensor([[4], [5]]))
    now = Turn(torch.tensor([[2, 2, 3, 3], [1, 2, 3, 3]]), ((2, late),))
    tokens, frames = joined([before, now])
    assert tokens.tolist() == [[1, 3, 3, 4, 2, 2, 3, 3], [1, 3, 3, 5, 1, 2, 3, 3]]
    columns = (frames.episode, frames.position, frames.embedded.flatten())
    found = sorted(zip(*(column.tolist() for column in columns), strict=True))
    assert found == [(0, 1, 0.0), (0, 6, 1.0), (1, 1, 0.0), (1, 6, 1.0)]
    tokens, frames = joined([Turn(torch.tensor([[7]])), now.of(torch.tensor([1]))])
    assert tokens.tolist() == [[7, 1, 2, 3, 3]]
    assert (frames.episode.tolist(), frames.position.tolist()) == ([0], [3])


@pytest.mark.parametrize("at_once", [512, 3])
def test_played_frames_are_seen_where_they_belong(
    corridor: FrameTask, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Episodes of several lengths, replayed one by one by the rules and by reading anew."""
    window, first_action = 3, corridor.language.first_action
    model = make_model(
        corridor.language, seed=8, window=window, frame_shape=(SIDE, SIDE), patches=4
    )
    given: list[Tensor] = []

    def recorded(*arguments: Any) -> Tensor:
        given.append(action_scores(*arguments))
        return given[-1]

    monkeypatch.setattr(decoding, "action_scores", recorded)
    monkeypatch.setattr(corridor, "episodes_at_once", at_once, raising=False)
    played = play(corridor, Policy(model, corridor.language, Decoding(30.0, False), 0), 9, seed=0)
    lengths = [len(episode.steps) for episode in played.episodes]
    scores = {}
    for first in range(0, 9, at_once):
        batch = range(first, min(9, first + at_once))
        for time in range(max(lengths[number] for number in batch)):
            playing = [number for number in batch if lengths[number] > time]
            for number, said in zip(playing, given.pop(0), strict=True):
                scores[number, time] = said
    moves = set()
    for number, episode in enumerate(played.episodes):
        cell, words, told = number % 7, [BEGIN_ID], []
        for time, step in enumerate(episode.steps):
            told.append((words, view(cell, time)))
            since = told[first_turn_read(time, window) :]
            tokens: list[int] = []
            places = []
            for before, _ in since:
                places.append(len(tokens) + len(before))
                tokens += [*before, *[4] * 4]
                if before is not words:  # then comes what was done
                    tokens += episode.steps[time - len(since) + len(places)].action
            frames = Frames(
                torch.from_numpy(np.stack([pixels for _, pixels in since])),
                torch.zeros(len(since), dtype=torch.int64),
                torch.tensor(places),
            )
            with torch.no_grad():
                output = model(torch.tensor([tokens]), frames=frames)
            expected = action_scores(output, torch.ones(1, 1, 2, dtype=torch.bool), 30.0)[0]
            torch.testing.assert_close(scores[number, time], expected, rtol=0, atol=1e-3)
            best = int(expected.argmax())
            assert step.action == (best + first_action,)
            goes = min(max(cell + (1 if best else -1), 0), CELLS - 1)
            words = [2 + int(goes == cell)]
            assert step.observation == (*words, 4)
            cell = goes
            moves.add(best)
        assert episode.terminated == (cell == CELLS - 1)
        assert len(episode.steps) == 5 + number % 4 or episode.terminated
    assert moves == {0, 1}
    assert set(lengths) == {5, 6, 7, 8}
    # Where an episode begins shows in its first frame alone.
    assert (scores[0, 0] - scores[1, 0]).abs().max() > 0.01
