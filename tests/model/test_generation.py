"""Generating text: the language model's own choice without values, another with them."""

from pathlib import Path

import pytest
import torch
from transformers import MaxLengthCriteria, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer

from tests.tiny_lms import CONFIGS, TOKENS, agent_on, random_tokens, save_lm
from textrl.data.language import Language
from textrl.errors import UserError
from textrl.model.generation import whole_turns
from textrl.model.network import TextRLModel

HOW = {"max_new_tokens": 10, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}


@pytest.mark.parametrize("kind", CONFIGS)
def test_an_untrained_agent_says_what_the_language_model_says(kind: str, tmp_path: Path) -> None:
    lm = save_lm(kind, tmp_path)
    agent, prompts = agent_on(tmp_path), random_tokens(3, 7)
    expected = lm.generate(prompts, **HOW)
    for beta in (None, 0.0, 8.0):  # its values are zero yet
        assert torch.equal(agent.generate(prompts, beta=beta, **HOW), expected)


def test_greedy_choices_by_hand_and_beta_changes_them(tmp_path: Path) -> None:
    save_lm("llama", tmp_path)
    agent, prompt = agent_on(tmp_path, moved=True), random_tokens(1, 5)
    chosen = {}
    for beta in (0.0, 3.0):
        tokens = prompt
        for _ in range(6):
            with torch.no_grad():
                said = agent(tokens)
            advantage = said.target_q.amin(0) - said.v[..., None]
            scores = said.policy.log_softmax(-1) + beta * advantage
            tokens = torch.cat([tokens, scores[:, -1].argmax(-1, keepdim=True)], dim=1)
        chosen[beta] = agent.generate(prompt, beta=beta, **{**HOW, "max_new_tokens": 6})
        assert torch.equal(chosen[beta], tokens)
    assert not torch.equal(chosen[0.0], chosen[3.0])
    agent.config.beta = 3.0
    assert torch.equal(agent.generate(prompt, **{**HOW, "max_new_tokens": 6}), chosen[3.0])


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_batch_says_what_each_prompt_says_alone(kind: str, tmp_path: Path) -> None:
    save_lm(kind, tmp_path)
    agent = agent_on(tmp_path, moved=True)
    lengths, width = (7, 4, 1, 6), 7
    prompts = [random_tokens(1, length, seed=length) for length in lengths]
    alone = [agent.generate(prompt, beta=2.0, **HOW)[0, -10:].tolist() for prompt in prompts]
    for side in ("left", "right"):
        padded, mask = torch.zeros(4, width, dtype=torch.int64), torch.zeros(4, width).long()
        for row, prompt in enumerate(prompts):
            size = prompt.shape[1]
            where = slice(width - size, width) if side == "left" else slice(0, size)
            padded[row, where], mask[row, where] = prompt[0], 1
        together = agent.generate(padded, attention_mask=mask, beta=2.0, **HOW)
        assert together[:, -10:].tolist() == alone
        assert together[1, :7].tolist() == [0, 0, 0, *prompts[1][0].tolist()]


class Collects(BaseStreamer):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.is_ended = False

    def put(self, value: torch.Tensor) -> None:
        self.tokens += value.flatten().tolist()

    def end(self) -> None:
        self.is_ended = True


def test_samples_beams_streams_and_stops(tmp_path: Path) -> None:
    save_lm("llama", tmp_path)
    agent, prompts = agent_on(tmp_path, moved=True), random_tokens(2, 5)
    sampling = {"do_sample": True, "max_new_tokens": 8, "pad_token_id": 0, "eos_token_id": None}
    torch.manual_seed(0)
    first = agent.generate(prompts, beta=1.0, **sampling)
    torch.manual_seed(0)
    assert torch.equal(agent.generate(prompts, beta=1.0, **sampling), first)
    assert not torch.equal(agent.generate(prompts, beta=1.0, **sampling), first)

    beams = agent.generate(prompts, beta=1.0, num_beams=3, num_return_sequences=3, **HOW)
    assert beams.shape[0] == 6
    one_beam = agent.generate(prompts, beta=1.0, num_beams=1, **HOW)
    assert torch.equal(one_beam, agent.generate(prompts, beta=1.0, use_cache=False, **HOW))

    streamer = Collects()
    said = agent.generate(prompts[:1], streamer=streamer, **HOW)
    assert streamer.tokens == said[0].tolist() and streamer.is_ended

    stop = StoppingCriteriaList([MaxLengthCriteria(7)])
    assert agent.generate(prompts, stopping_criteria=stop, **HOW).shape[1] == 7
    likeliest = int(said[0, 5])
    assert agent.generate(prompts[:1], **{**HOW, "eos_token_id": likeliest}).shape[1] == 6


def test_beams_find_what_scores_best(tmp_path: Path) -> None:
    save_lm("gpt2", tmp_path)
    agent, prompt = agent_on(tmp_path, moved=True), random_tokens(1, 4)
    # As many beams as tokens: over two steps that is a search of everything.
    how = {"max_new_tokens": 2, "pad_token_id": 0, "eos_token_id": None, "do_sample": False}
    found = agent.generate(prompt, beta=0.0, num_beams=TOKENS, **how)
    with torch.no_grad():
        first = agent(prompt).policy[0, -1].log_softmax(-1)
        every = torch.cat([prompt.expand(TOKENS, -1), torch.arange(TOKENS)[:, None]], dim=1)
        second = agent(every).policy[:, -1].log_softmax(-1)
    best = (first[:, None] + second).argmax().item()
    assert found[0, -2:].tolist() == list(divmod(best, TOKENS))


def test_other_agents_do_not_generate(language: Language, make_model: object) -> None:
    model: TextRLModel = make_model(language)  # type: ignore[operator]
    with pytest.raises(UserError, match="only an agent on a language model generates"):
        model.generate(random_tokens(1, 3))


def test_whole_turns_are_chosen_by_q_at_their_end(tmp_path: Path) -> None:
    save_lm("llama", tmp_path)
    agent, prompts = agent_on(tmp_path, moved=True), random_tokens(2, 5)
    ends = [*range(10, 16)]
    how = {"max_new_tokens": 6, "pad_token_id": 0, "eos_token_id": ends, "top_k": 0}
    torch.manual_seed(3)
    turns = whole_turns(agent, prompts, candidates=8, **how)
    assert turns.tokens.shape[:2] == (2, 8)
    assert turns.is_finished.any(dim=1).all() and not turns.is_finished.all()
    for row in range(2):
        for number in range(8):
            said = turns.tokens[row, number, : turns.lengths[row, number]]
            assert (said[-1] in ends) == bool(turns.is_finished[row, number])
            assert not {*said[:-1].tolist()} & {*ends}
            with torch.no_grad():
                before = agent(prompts[row : row + 1])
                last = agent(torch.cat([prompts[row], said[:-1]])[None])
            q = last.target_q[:, 0, -1, said[-1]].min()
            torch.testing.assert_close(turns.q[row, number], q, rtol=0, atol=1e-5)
            torch.testing.assert_close(turns.v[row], before.v[0, -1], rtol=0, atol=1e-5)
        of_finished = turns.q[row].masked_fill(~turns.is_finished[row], -torch.inf)
        assert turns.chosen[row] == of_finished.argmax()
    torch.manual_seed(3)
    given = agent.generate(prompts, candidates=8, **how)
    assert torch.equal(given, torch.cat([prompts, turns.chosen_tokens], dim=1))
    torch.manual_seed(3)
    padded = torch.cat([prompts, torch.zeros(2, 2, dtype=torch.int64)], dim=1)
    mask = torch.tensor([[1] * 5 + [0] * 2] * 2)
    again = whole_turns(agent, padded, candidates=8, attention_mask=mask, **how)
    assert torch.equal(again.tokens, turns.tokens)
    torch.testing.assert_close(again.q, turns.q, rtol=0, atol=1e-5)


def test_a_higher_beta_draws_better_turns(tmp_path: Path) -> None:
    save_lm("gpt2", tmp_path)
    agent, prompts = agent_on(tmp_path, moved=True), random_tokens(1, 5).expand(64, -1)
    how = {"max_new_tokens": 4, "pad_token_id": 0, "eos_token_id": None, "top_k": 0}
    mean = {}
    for beta in (0.01, 100.0):
        torch.manual_seed(0)
        turns = whole_turns(agent, prompts, candidates=4, beta=beta, do_sample=True, **how)
        mean[beta] = float(turns.q.gather(1, turns.chosen[:, None]).mean())
        assert not turns.is_finished.any() and (turns.lengths == 4).all()
    best = float(turns.q.amax(dim=1).mean())
    assert mean[0.01] + 0.01 < mean[100.0] <= best + 1e-6


def test_who_has_no_candidates_answers_token_by_token(tmp_path: Path) -> None:
    save_lm("llama", tmp_path)
    imitator, prompts = agent_on(tmp_path, heads=("policy",)), random_tokens(2, 5)
    one = imitator.generate(prompts, **HOW)
    assert torch.equal(imitator.generate(prompts, candidates=5, **HOW), one)
    agent = agent_on(tmp_path, moved=True)
    with pytest.raises(UserError, match="num_beams is for turns chosen token by token"):
        agent.generate(prompts, candidates=5, num_beams=2, **HOW)
