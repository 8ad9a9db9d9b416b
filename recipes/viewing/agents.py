"""What agents say of logged turns, token by token, and what they would do in their place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy, Thought
from textrl.data.batches import collate
from textrl.data.chat import TextLanguage
from textrl.data.conversation import Message
from textrl.data.dataset import Rows
from textrl.data.language import TokenLanguage
from textrl.data.windows import cuts_of
from textrl.envs.text.rows import rows_of
from textrl.envs.text.talk import Saying, Speaker, candidates_json
from textrl.envs.text.task import TextTask
from textrl.errors import UserError
from textrl.losses.ops import legal_only, of_actions
from textrl.model.network import TextRLModel
from textrl.recipes.viewing.shelf import Conversations, Episodes, Shelf
from textrl.tasks.task import Task

TOP = 4  # tokens that are shown beside the one that was taken
LONGEST_ANSWER = 128  # tokens

Said = dict[str, Any]
"""Of one token: its text, pi, q, v (None without such a head), and the likeliest others."""


@dataclass(frozen=True)
class Ask:
    """How an agent is to act. beta, candidates: None = as trained."""

    beta: float | None = None
    candidates: int | None = None
    sample: bool = False
    seed: int = 0


class Agent(Protocol):
    """Someone whose opinion is asked."""

    name: str
    model: TextRLModel

    def values(self, shelf: Shelf, row: int) -> list[list[Said]]:
        """Of each of the row's last turns that it can read, from the first of these: its tokens."""

    def act(self, shelf: Shelf, row: int, turn: int, ask: Ask) -> dict[str, Any]:
        """What it would do instead of a turn of the row."""


class Talker:
    """An agent of conversations."""

    def __init__(self, name: str, model: TextRLModel, task: TextTask) -> None:
        self.name, self.model, self._task = name, model, task
        self._speaker = Speaker(model, task)

    def values(self, shelf: Shelf, row: int) -> list[list[Said]]:
        """By its own tokens of the messages."""
        assert isinstance(shelf, Conversations)
        conversation, language = shelf.read(row), self._task.language
        spelled = language.spell(conversation, self.model.config.context)
        rows = rows_of([(conversation, spelled)])
        return turns_of(self.model, rows, language, lambda ids: token_texts(ids, language))

    def act(self, shelf: Shelf, row: int, turn: int, ask: Ask) -> dict[str, Any]:
        """Its answer to what was said before the turn."""
        assert isinstance(shelf, Conversations)
        parts = shelf.show(row).parts
        place = next(number for number, part in enumerate(parts) if part.turn == turn)
        return self.answer(list(shelf.read(row).messages[:place]), ask)

    def answer(self, messages: Sequence[Message], ask: Ask) -> dict[str, Any]:
        """Its answer to these messages."""
        config = self.model.config
        how = Saying(
            beta=config.beta if ask.beta is None else ask.beta,
            candidates=ask.candidates or config.candidates,
            sample=ask.sample,
            longest=min(LONGEST_ANSWER, config.context // 2),
        )
        torch.manual_seed(ask.seed)
        (answer,) = self._speaker.answer([messages], how)
        texts = token_texts(list(answer.tokens), self._task.language)
        tokens: list[Said] = [
            {"text": text, "pi": None if each.log_pi is None else float(np.exp(each.log_pi))}
            | {"q": each.q, "v": each.v, "top": []}
            for text, each in zip(
                texts, self._speaker.values(messages, answer, how.longest), strict=True
            )
        ]
        said = {"text": answer.text, "finished": answer.is_finished, "tokens": tokens}
        return {**said, **candidates_json(answer)}


class Player:
    """An agent of a game."""

    def __init__(self, name: str, model: TextRLModel, task: Task) -> None:
        self.name, self.model, self._task = name, model, task

    def values(self, shelf: Shelf, row: int) -> list[list[Said]]:
        """Token by token, as the language spells it."""
        assert isinstance(shelf, Episodes)
        language = self._task.language
        names = language.tokens
        return turns_of(
            self.model, shelf.read(row), language, lambda ids: [names[token] for token in ids]
        )

    def act(self, shelf: Shelf, row: int, turn: int, ask: Ask) -> dict[str, Any]:
        """Its action after what had happened before the turn."""
        assert isinstance(shelf, Episodes)
        language, found = self._task.language, shelf.read(row)
        cuts = cuts_of(found.tokens, found.is_action, language)
        decoding = Decoding.of(self.model, ask.sample, ask.beta, ask.candidates)
        policy = Policy(self.model, language, decoding, ask.seed)
        policy.begin(found.tokens[None, : cuts.stops[turn]].astype(np.int64))
        action = policy.act()[0] + language.first_action
        tokens = [self._said(thought) for thought in policy.thoughts(TOP)]
        text = " ".join(language.tokens[token] for token in action.tolist())
        return {"text": text, "finished": True, "tokens": tokens, "candidates": [], "v": None}

    def _said(self, thought: Thought) -> Said:
        names = self._task.language.actions

        def of(place: int) -> Said:
            pi = None if thought.policy is None else thought.policy[place]
            q = None if thought.q is None else thought.q[place]
            return {"text": names[thought.tokens[place]], "pi": pi, "q": q}

        others = [of(place) for place in range(len(thought.tokens))]
        taken = of(thought.tokens.index(thought.chosen))
        return {**taken, "v": thought.v, "top": others}


@torch.inference_mode()
def turns_of(
    model: TextRLModel, rows: Rows, language: TokenLanguage, texts_of: Any
) -> list[list[Said]]:
    """What the heads say of each action token of one row, turn by turn.

    texts_of: ids of the tokens of a turn -> what each adds to its text.
    """
    batch = collate(rows, np.array([0]), language).to(model.device)
    output = model(batch.tokens, batch.state_positions)
    count = batch.actions.shape[1]
    legal = None if batch.legal is None else batch.legal[:, :count]
    policy = q = None
    if output.policy is not None:
        policy = legal_only(output.policy[:, :count], legal).softmax(dim=-1)
    if output.target_q is not None:
        q = output.target_q[:, :, :count].amin(dim=0)
    ranked = policy if policy is not None else legal_only(q, legal)  # type: ignore[arg-type]
    top = ranked[0].topk(min(TOP, ranked.shape[-1])).indices
    pi_taken = None if policy is None else of_actions(policy, batch.actions)[0].tolist()
    q_taken = None if q is None else of_actions(q, batch.actions)[0].tolist()
    v_before = None if output.v is None else output.v[0, :count].tolist()
    actions, ends = batch.actions[0].tolist(), batch.ends_action[0].tolist()
    found: list[list[Said]] = [[]]
    ids: list[list[int]] = [[]]
    for place in range(count):
        others = [
            {
                "text": texts_of([token + language.first_action])[0],
                "pi": None if policy is None else float(policy[0, place, token]),
                "q": None if q is None else float(q[0, place, token]),
            }
            for token in top[place].tolist()
            if legal is None or bool(legal[0, place, token])
        ]
        said = {
            "pi": pi_taken and pi_taken[place],
            "q": q_taken and q_taken[place],
            "v": v_before and v_before[place],
            "top": others,
        }
        found[-1].append(said)
        ids[-1].append(actions[place] + language.first_action)
        if ends[place] and place < count - 1:
            found.append([])
            ids.append([])
    return [
        [{"text": text, **said} for text, said in zip(texts_of(each), turn, strict=True)]
        for each, turn in zip(ids, found, strict=True)
    ]


def token_texts(ids: list[int], language: TextLanguage) -> list[str]:
    """What each token adds to the text; one that ends within a character adds nothing yet."""
    tokenizer: Any = language.tokenizer()
    parts, done = [], ""
    for end in range(1, len(ids) + 1):
        text: str = tokenizer.decode(ids[:end])
        is_whole = not text.endswith("\ufffd") or end == len(ids)
        parts.append(text[len(done) :] if is_whole else "")
        done = text if is_whole else done
    return parts


def agent_of(name: str, model: TextRLModel, task: Any) -> Talker | Player:
    """By the kind of its task."""
    if isinstance(task, TextTask):
        return Talker(name, model, task)
    if isinstance(task, Task):
        if task.frame_shape:
            raise UserError(f"{name!r} sees frames, which the page cannot show: see textrl film")
        return Player(name, model, task)
    raise UserError(f"{name!r} has learned {task.name!r}, which the page cannot show")
