"""The world model: what it is asked, and who learns when it and the pairs are compared."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from textrl.bisimulation.dynamics import WorldModel
from textrl.bisimulation.loss import BisimulationWeights, bisimulation_loss
from textrl.bisimulation.pairs import Pairs, draw_pairs, throw
from textrl.config.presets import configure
from textrl.data.batches import Batch, collate
from textrl.data.dataset import Rows, episodes_to_table
from textrl.data.episode import Episode
from textrl.data.language import Language
from textrl.losses.outputs import action_scores
from textrl.model.build import config_for
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members

MakeEpisodes = Callable[..., list[Episode]]
MakeModel = Callable[..., TextRLModel]
ENCODER = ("backbone", "representation")
HEADS = {
    "bc": ("policy", "world"),
    "cql": ("q", "world"),
    "ilql": ("policy", "q", "v", "world"),
    "with inverse": ("policy", "world", "inverse"),
}


@pytest.fixture
def batch(language: Language, random_episodes: MakeEpisodes) -> Batch:
    rows = Rows.from_table(episodes_to_table(random_episodes(6)))
    return collate(rows, np.arange(6), language)


@pytest.fixture
def pairs(batch: Batch) -> Pairs:
    return draw_pairs(batch, (0,))


@pytest.mark.parametrize(("classes", "said"), [(7, 7), (0, 10)])
def test_it_is_a_hidden_layer_over_representation_and_action(classes: int, said: int) -> None:
    torch.manual_seed(0)
    world = WorldModel(width=5, actions=4, classes=classes)
    z, actions = torch.randn(6, 5), torch.tensor([0, 1, 2, 3, 3, 0])
    reward, dynamics = world(z, actions)
    both = torch.cat([z, nn.functional.one_hot(actions, 4).float()], dim=1)
    weight = torch.cat([world.of_history.weight, world.of_action.weight], dim=1)
    read = world.last(torch.relu(both @ weight.t() + world.of_history.bias))
    assert reward.shape == (6,) and dynamics.shape == (6, said)
    torch.testing.assert_close(reward, read[:, 0])
    if classes:
        torch.testing.assert_close(dynamics, read[:, 1:])
    else:
        torch.testing.assert_close(dynamics[:, :5], read[:, 1:6])
        torch.testing.assert_close(dynamics[:, 5:], 2 * torch.tanh(read[:, 6:]))


@pytest.mark.parametrize("algo", HEADS)
@pytest.mark.parametrize("classes", [7, 0])
def test_what_is_asked_of_it(
    language: Language, make_model: MakeModel, batch: Batch, pairs: Pairs, algo: str, classes: int
) -> None:
    model = make_model(language, heads=HEADS[algo], observation_classes=classes, beta=3.0)
    at = (pairs.episode, pairs.state)
    with torch.no_grad():
        output = model(batch.tokens, batch.state_positions, pairs=pairs)
        # The slow encoder, read by putting its weights into a model of its own.
        slow = make_model(language, heads=HEADS[algo], observation_classes=classes)
        slow.backbone.load_state_dict(model.target_backbone.state_dict())
        slow.representation.load_state_dict(model.target_representation.state_dict())
        z = slow(batch.tokens, batch.state_positions).representation
        torch.testing.assert_close(output.target_representation[at], z[at], rtol=0, atol=1e-5)
        if not classes:  # then what follows is compared with the next history
            after = (pairs.episode, (pairs.state + 1).clamp_max(z.shape[1] - 1))
            torch.testing.assert_close(
                output.target_representation[after], z[after], atol=1e-5, rtol=0
            )
        assert (z - output.representation).abs().max() > 0.1

        # It is fitted where the agent is, and asked where the slow encoder is.
        reward, dynamics = model.world[0](output.representation[at], batch.actions[at])
        torch.testing.assert_close(output.predicted_reward, reward, rtol=0, atol=1e-5)
        torch.testing.assert_close(output.predicted_dynamics, dynamics, rtol=0, atol=1e-5)

        # The policy's own actions, by the scores with which it would act in each of the states.
        states = batch.legal.shape[1]
        scores = action_scores(output, batch.legal[:, :states], beta=3.0)[at]
        chosen = throw(pairs.dice, scores.softmax(dim=-1))
        assert pairs.legal[torch.arange(len(chosen)), chosen].all()
        reward, dynamics = model.world[0](z[at], chosen)
        torch.testing.assert_close(output.imagined_reward, reward, rtol=0, atol=1e-5)
        torch.testing.assert_close(output.imagined_dynamics, dynamics, rtol=0, atol=1e-5)
        assert (chosen != pairs.actions).any()

        # Or the data's, where that is asked for.
        told = model(batch.tokens, batch.state_positions, pairs=replace(pairs, from_data=True))
        reward, dynamics = model.world[0](z[at], pairs.actions)
        torch.testing.assert_close(told.imagined_reward, reward, rtol=0, atol=1e-5)
        torch.testing.assert_close(told.imagined_dynamics, dynamics, rtol=0, atol=1e-5)


def test_without_pairs_it_is_not_asked(
    language: Language, make_model: MakeModel, batch: Batch, pairs: Pairs
) -> None:
    model = make_model(language)
    with torch.no_grad():
        bare = model(batch.tokens, batch.state_positions)
        asked = model(batch.tokens, batch.state_positions, pairs=pairs)
    assert bare.target_representation is None and bare.predicted_reward is None
    for name in ("representation", "policy", "q", "target_q", "v"):
        assert torch.equal(bare[name], asked[name]), name


def learners(model: TextRLModel) -> set[str]:
    """The parts of the model that got a gradient."""
    return {
        name.split(".")[0]
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and (parameter.grad != 0).any()
    }


@pytest.mark.parametrize("classes", [7, 0])
@pytest.mark.parametrize("algo", HEADS)
def test_who_learns_from_what(
    language: Language, make_model: MakeModel, batch: Batch, pairs: Pairs, algo: str, classes: int
) -> None:
    weights = BisimulationWeights(weight=0.5, inverse=0.5 if algo == "with inverse" else 0.0)

    def learn(part: str, changed: BisimulationWeights = weights) -> set[str]:
        model = make_model(language, heads=HEADS[algo], observation_classes=classes).train()
        outputs = model(batch.tokens, batch.state_positions, pairs=pairs)
        added, terms = bisimulation_loss(outputs, batch, pairs, classes, changed)
        (added if part == "added" else getattr(terms, part)).backward()
        return learners(model)

    assert learn("bisimulation") == set(ENCODER)
    assert learn("model_reward") == learn("model_dynamics") == {"world"}
    assert learn("added", replace(weights, weight=0.0, inverse=0.0)) == {"world"}
    assert learn("added", replace(weights, inverse=0.0)) == {"world", *ENCODER}
    if algo == "with inverse":
        assert learn("inverse") == {"inverse", *ENCODER}
        assert learn("added", replace(weights, weight=0.0)) == {"world", "inverse", *ENCODER}


@pytest.mark.parametrize("classes", [7, 0])
def test_the_encoders_share_of_the_fit(
    language: Language, make_model: MakeModel, batch: Batch, pairs: Pairs, classes: int
) -> None:
    def learn(share: float) -> tuple[list[torch.Tensor], ...]:
        """Gradients of the encoder and of the world model from the fit alone."""
        model = make_model(language, world_gradient=share, observation_classes=classes).train()
        outputs = model(batch.tokens, batch.state_positions, pairs=pairs)
        added, _ = bisimulation_loss(outputs, batch, pairs, classes, BisimulationWeights())
        added.backward()
        assert learners(model) == {"world", *ENCODER}
        parts = (model.representation, model.world)
        return tuple([p.grad for p in part.parameters()] for part in parts)

    (encoder, world), (less, same) = learn(1.0), learn(0.25)
    torch.testing.assert_close(less, [0.25 * gradient for gradient in encoder])
    torch.testing.assert_close(same, world)


def test_where_the_loss_is_only_measured_the_encoder_has_no_share(language: Language) -> None:
    task: Any = SimpleNamespace(language=language, observation_classes=7, frame_shape=None)
    members = Members({"wordle": task})
    for weight, fit, share in ((0.0, 0.5, 0.0), (0.1, 0.5, 0.5), (0.1, 0.0, 0.0)):
        run = configure("wordle", algo="bc", bisim=weight, bisim_fit=fit)
        assert config_for(members, run).world_gradient == share


def test_the_inverse_reads_a_history_and_the_next(
    language: Language, make_model: MakeModel, batch: Batch, pairs: Pairs
) -> None:
    model = make_model(language, heads=HEADS["with inverse"])
    with torch.no_grad():
        output = model(batch.tokens, batch.state_positions, pairs=pairs)
        for i in range(len(pairs.partner)):
            e, k = int(pairs.episode[i]), int(pairs.state[i])
            if batch.has_next[e, k]:
                both = torch.cat([output.representation[e, k], output.representation[e, k + 1]])
                torch.testing.assert_close(output.inverse[i], model.inverse(both))
