"""The policy over whole actions: against adding up the list by hand, cached as not cached."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.config.presets import configure
from textrl.data.language import ActionGrammar, Language
from textrl.envs.wordle.task import WordleTask
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError
from textrl.model.action_policy import BIAS_RATE, ActionPolicy
from textrl.model.build import new_model
from textrl.model.limits import check_settings
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members

KINDS = [0, 1, 2] * 3
"""Three letters at three places."""
WORDS = np.array([[0, 3, 6], [0, 4, 7], [0, 4, 8], [1, 3, 8], [2, 5, 8]])


def random_policy() -> ActionPolicy:
    torch.manual_seed(0)
    policy = ActionPolicy(8, *WORDS.shape, KINDS)
    policy.spell(torch.from_numpy(WORDS))
    torch.nn.init.normal_(policy.bias, std=1 / BIAS_RATE)
    return policy


def odds_by_hand(policy: ActionPolicy, phi: Tensor, spoken: list[int]) -> Tensor:
    """(tokens,) chances of the next token, from the definition."""
    scores, odds = policy.scores(phi).detach(), torch.zeros(policy.tokens)
    for number, word in enumerate(WORDS.tolist()):
        if word[: len(spoken)] == spoken:
            letters = {KINDS[token] for token in word}
            score = sum(scores[token] for token in word)
            score = score + sum(scores[policy.tokens + letter] for letter in letters)
            score = score + BIAS_RATE * policy.bias[number].detach()
            odds[word[len(spoken)]] += score.exp()
    return odds / odds.sum()


@pytest.mark.parametrize("spoken", [[], [0], [0, 4], [1], [2, 5]])
def test_a_token_has_the_chance_of_all_words_that_go_on_with_it(spoken: list[int]) -> None:
    policy, phi = random_policy(), torch.randn(8)
    begun = policy.begun(torch.tensor([spoken], dtype=torch.long))
    with torch.no_grad():
        found = policy(phi.view(1, 1, -1), begun)[0, 0].softmax(dim=0)
    torch.testing.assert_close(found, odds_by_hand(policy, phi, spoken), atol=1e-6, rtol=0)


def test_what_has_been_said_is_read_from_the_history() -> None:
    """Observations are 2 to 9, actions from 10 on; two words may follow each other directly."""
    policy = random_policy()
    tokens = torch.tensor([[1, 5, 10, 14, 18, 10, 14, 17, 3], [1, 12, 15, 18, 2, 2, 11, 13, 18]])
    positions = torch.tensor([[1, 2, 3, 4, 5, 6, 8], [0, 1, 2, 5, 6, 7, 7]])
    begun = policy.begun_at(tokens, positions, first_action=10)
    expected = [[], [0], [0, 4], [], [0], [0, 4], [], [], [2], [2, 5], [], [1], [1, 3], [1, 3]]
    for said, code, spoken in zip(begun.said, begun.code, expected, strict=True):
        alone = policy.begun(torch.tensor([spoken], dtype=torch.long))
        assert (int(said), int(code)) == (len(spoken), int(alone.code)), spoken


def test_histories_in_one_batch_do_not_matter_to_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy, phi = random_policy(), torch.randn(6, 1, 8)
    phi[3] = phi[0]
    tokens = torch.tensor([[1, 1, 1], [1, 10, 14], [1, 1, 10], [1, 1, 1], [1, 10, 1], [1, 12, 15]])
    last = torch.full((6, 1), 2)
    begun = policy.begun_at(tokens, last, first_action=10)
    with torch.no_grad():
        together = policy(phi, begun)
        for row in range(6):
            alone = policy.begun_at(tokens[row : row + 1], last[:1], first_action=10)
            torch.testing.assert_close(policy(phi[row : row + 1], alone)[0], together[row])
        monkeypatch.setattr("textrl.model.action_policy.PAIRS_AT_ONCE", 2)
        torch.testing.assert_close(policy(phi, begun), together)


def test_gradients_are_those_of_the_definition() -> None:
    """A word's letters together have the gradient of the softmax over whole words."""
    policy, word = random_policy(), 2
    phi = torch.randn(1, 1, 8, requires_grad=True)
    total = torch.zeros(())
    for place, token in enumerate(WORDS[word].tolist()):
        begun = policy.begun(torch.from_numpy(WORDS[word : word + 1, :place]))
        total = total + policy(phi, begun)[0, 0].log_softmax(0)[token]
    (found,) = torch.autograd.grad(total, phi)
    scores = policy.scores(phi[0, 0])
    words = torch.stack(
        [
            scores[each].sum() + scores[policy.tokens + (each % 3).unique()].sum()
            for each in torch.from_numpy(WORDS)
        ]
    )
    log_pi = (words + BIAS_RATE * policy.bias).log_softmax(0)[word]
    (expected,) = torch.autograd.grad(log_pi, phi)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.fixture
def agent(wordle: WordleTask) -> TextRLModel:
    run = configure("wordle", policy_head="actions", width=16, attention_heads=2)
    torch.manual_seed(0)
    model = new_model(Members({"wordle": wordle}), run)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and name.startswith(("backbone", "policy")):
                parameter.mul_(5)
    return model.train(False)


@pytest.mark.parametrize("candidates", [1, 3])
def test_greedy_play_is_that_of_the_whole_words(
    agent: TextRLModel, wordle: WordleTask, candidates: int
) -> None:
    """At beta 0: the likeliest word for candidates, the likeliest letters for one."""
    policy = Policy(agent, wordle.language, Decoding(0.0, False, candidates), seed=0)
    policy.begin(np.array([[1]]))
    chosen = policy.act()[0].tolist()
    letters, history = wordle.language.grammar.spellings(), [1]
    chances = torch.zeros(len(letters))
    with torch.no_grad():
        for number, word in enumerate(letters.tolist()):
            for place, token in enumerate(word):
                spelled = [each + wordle.language.first_action for each in word[:place]]
                legal = np.zeros(agent.config.action_tokens, dtype=bool)
                fits = (letters[:, :place] == word[:place]).all(axis=1)
                legal[letters[fits, place]] = True
                logits = agent(torch.tensor([[*history, *spelled]])).policy[0, 0]
                logits = logits.masked_fill(~torch.from_numpy(legal), -torch.inf)
                chances[number] += logits.log_softmax(0)[token]
    assert chances.exp().sum() == pytest.approx(1, abs=1e-5)
    if candidates > 1:
        assert chosen == letters[int(chances.argmax())].tolist()
    else:
        assert chosen in letters.tolist()


def test_a_saved_agent_knows_its_words(
    agent: TextRLModel, wordle: WordleTask, tmp_path: Path
) -> None:
    agent.save_pretrained(tmp_path)
    again = TextRLModel.from_pretrained(tmp_path)
    history = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        torch.testing.assert_close(again(history).policy, agent(history).policy)
    assert torch.equal(again.policy.spellings, agent.policy.spellings)


def test_it_needs_a_list_of_actions(words: WordList) -> None:
    free = Members({"wordle": WordleTask(words, constrain=False)})
    with pytest.raises(UserError, match=r"--policy-head actions: .* more than 100,000 actions"):
        new_model(free, configure("wordle", policy_head="actions"))
    with pytest.raises(UserError, match="--policy-head actions is for one task"):
        configure("wordle,gridworld", policy_head="actions")


def test_spellings_are_the_actions_in_order(language: Language) -> None:
    assert language.grammar.spellings().tolist() == [[0, 2], [0, 3], [1, 3]]
    with pytest.raises(ValueError, match="one length"):
        ActionGrammar(np.array([[0, 1], [-1, 0]], dtype=np.int32)).spellings()
    assert ActionGrammar.from_slots([[1, 2]], 3).spellings().tolist() == [[1], [2]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"whole_actions": [0, 5]},
        {"whole_actions": [5]},
        {"whole_actions": "5"},
        {"token_kinds": []},
        {"token_kinds": [0, 2]},
        {"token_kinds": [0, -1]},
        {"token_kinds": 3},
    ],
)
def test_a_stranger_s_list_of_actions_is_checked(wrong: dict[str, object]) -> None:
    check_settings({"whole_actions": (5, 3), "token_kinds": [0, 1, 0]}, {})
    with pytest.raises(ValueError, match=next(iter(wrong))):
        check_settings(wrong, {})
