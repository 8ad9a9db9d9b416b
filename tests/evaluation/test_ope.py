"""Off-policy evaluation of models: a game whose truth is known, and what is said of it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from textrl.acting.decoding import Decoding
from textrl.config.presets import configure
from textrl.errors import UserError
from textrl.evaluation import ope
from textrl.evaluation.behaviour import odds_of
from textrl.evaluation.estimators import Interval
from textrl.evaluation.judge import Watch
from textrl.evaluation.ope import Candidate, Evaluator, Logs, PolicyEstimate
from textrl.evaluation.verdict import AGENT, DATA, Verdict, logs_of, reach_verdict
from textrl.losses.outputs import TextRLOutput
from textrl.model.build import new_model
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members


def interval(mean: float, spread: float = 0.1) -> Interval:
    return Interval(mean, mean + spread * np.random.default_rng(0).normal(size=500))


def estimated(mean: float, effective: float = 50.0, spread: float = 0.1) -> PolicyEstimate:
    each = interval(mean, spread)
    return PolicyEstimate(each, each, each, effective, 1.0, 0.9, episodes=100)


def test_verdicts_in_words() -> None:
    earned = Interval(1.0, np.full(500, 1.0))
    better = Verdict(earned, {AGENT: estimated(2.0)}, 100, [])
    assert better.in_words(AGENT, DATA).startswith("better by an estimated +1.000 (95%: +0.")
    worse = Verdict(earned, {AGENT: estimated(0.0)}, 100, [])
    assert worse.in_words(AGENT, DATA).startswith("worse by an estimated -1.000")
    alike = Verdict(earned, {AGENT: estimated(1.1)}, 100, ["V is worse than a constant"])
    assert alike.in_words(AGENT, DATA).startswith("no clear difference: +0.100")
    assert alike.describe().endswith("caveat: V is worse than a constant")
    far = Verdict(earned, {AGENT: estimated(2.0, effective=2.0), "bc": estimated(1.0)}, 100, [])
    told = "cannot be said: the agent is too far from the data; +1.000"
    assert far.in_words(AGENT, "bc").startswith(told)
    found = far.to_json()
    assert found["policies"][AGENT]["too_far"] and not found["policies"]["bc"]["too_far"]
    assert found["differences"]["the agent - bc"]["mean"] == 1.0


@pytest.fixture(autouse=True)
def one_quick_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """How good the fit is, test_estimators asks."""
    monkeypatch.setattr(ope, "TRUSTS", (5.0,))


@pytest.fixture(scope="module")
def walks() -> tuple[Logs, TextRLModel, TextRLModel]:
    """Episodes of the gridworld, and two new models, which do this and that."""
    made = []
    for algo in ("ilql", "bc"):
        settings = {"layers": 1, "width": 16, "attention_heads": 2, "episodes": 300}
        run = configure("gridworld", algo=algo, context=104, **settings)
        members = Members.of_run(run)
        torch.manual_seed(0)
        made.append(new_model(members, run))
    member = run.members["gridworld"]
    logs = logs_of(members.one()[1], member, fit=100, judge=60)
    return logs, made[0], made[1]


def test_who_does_as_the_data_is_worth_what_they_earned(
    walks: tuple[Logs, TextRLModel, TextRLModel],
) -> None:
    """Held against itself, a policy has ratios of 1: nothing but what happened counts."""
    logs, _, bc = walks
    evaluator = Evaluator(logs, bc, [bc])
    found = evaluator.estimate(Candidate("bc", bc, Decoding(1.0, True)))
    assert found.effective == pytest.approx(found.episodes, rel=1e-4)
    assert found.overlap == pytest.approx(1, rel=1e-4)
    assert found.usable == 1
    assert found.importance.mean == pytest.approx(evaluator.earned.mean, abs=1e-5)
    again = evaluator.estimate(Candidate("bc", bc, Decoding(1.0, True)))
    assert again.robust.mean == found.robust.mean


def test_a_verdict_on_a_game(walks: tuple[Logs, TextRLModel, TextRLModel]) -> None:
    logs, ilql, bc = walks
    verdict = reach_verdict(logs, ilql, {"bc": bc}, Decoding(50.0, True), ["doubt"])
    assert list(verdict.estimates) == [AGENT, "its imitation alone", "bc"]
    told = verdict.describe()
    assert "the data, as logged" in told and "caveat: doubt" in told
    assert verdict.groups == 60
    greedy = Evaluator(logs, ilql, [bc]).estimate(Candidate("", ilql, Decoding(50.0, False)))
    assert greedy.overlap < verdict.estimates["bc"].overlap


def test_without_any_imitation_one_is_fitted(
    walks: tuple[Logs, TextRLModel, TextRLModel],
) -> None:
    logs, ilql, _ = walks
    evaluator = Evaluator(logs, ilql, [])
    likelihood = evaluator.judge.tokens.is_action.sum()
    assert float(evaluator._said["judge"].sum() / likelihood) > np.log(0.2)  # of four moves


def test_cut_off_logs_are_left_out(walks: tuple[Logs, TextRLModel, TextRLModel]) -> None:
    logs, _, bc = walks
    as_log = Logs(logs.fit, logs.judge, logs.groups, logs.language, ends_when_cut=False)
    evaluator = Evaluator(as_log, bc, [bc])
    assert len(evaluator.groups) == int((~logs.judge.truncated).sum()) < len(logs.groups)


def test_what_cannot_be_judged() -> None:
    run = configure("gridworld", window=4, episodes=300)
    task = Members.of_run(run).one()[1]
    with pytest.raises(UserError, match="only whole episodes"):
        logs_of(task, run.members["gridworld"])


@pytest.mark.parametrize(
    ("how", "first"), [("offline", "estimated_return"), ("likelihood", "log_likelihood")]
)
def test_the_best_model_can_be_chosen_without_playing(how: str, first: str) -> None:
    settings = {"layers": 1, "width": 16, "attention_heads": 2, "episodes": 300, "context": 104}
    run = configure("gridworld", algo="ilql", select=how, **settings)
    members = Members.of_run(run)
    scores = Watch(members, run)(new_model(members, run))
    assert next(iter(scores)) == first
    assert "greedy" not in scores  # nothing was played


def test_what_cannot_be_chosen_by() -> None:
    run = configure("gridworld,wordle", select="offline")
    with pytest.raises(UserError, match="--select offline is for one task"):
        Watch(Members.of_run(run), run)
    run = configure(
        "gridworld", algo="cql", select="likelihood", episodes=300, context=104, width=16
    )
    members = Members.of_run(run)
    with pytest.raises(UserError, match="needs a policy"):
        Watch(members, run)(new_model(members, run))


def test_estimates_are_of_the_policy_at_its_temperature() -> None:
    said = TextRLOutput(policy=torch.tensor([[[0.0, 1.0]]]))
    batch = SimpleNamespace(legal=None)
    for temperature in (1.0, 0.5):
        odds = odds_of(said, batch, Decoding(1.0, sample=True, temperature=temperature))
        expected = 1 / (1 + np.exp(-1 / temperature))
        assert float(odds[0, 0, 1]) == pytest.approx(expected, abs=1e-6)


def test_whole_candidates_are_refused_by_name(
    walks: tuple[Logs, TextRLModel, TextRLModel],
) -> None:
    _, ilql, bc = walks
    decoding = Decoding(1.0, sample=True, candidates=4)
    with pytest.raises(UserError, match=r"mine: .* 4 whole candidates .* --candidates 1"):
        ope.refuse_candidates(Candidate("mine", ilql, decoding))
    ope.refuse_candidates(Candidate("imitation", bc, decoding))  # it has no Q to compare by
