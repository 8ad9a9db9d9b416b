"""What the network is asked besides its heads, where histories are compared."""

from typing import Any

import torch
from torch import Tensor

from textrl.bisimulation.pairs import Pairs, throw
from textrl.losses.outputs import TextRLOutput, action_scores


def ask_world(
    model: Any,
    output: TextRLOutput,
    history: tuple[Any, ...],
    pairs: Pairs,
    member: int,
) -> None:
    """Add what the slow encoder and the world model say of the pairs' histories.

    model: a TextRLModel, whose encoder takes the history; member: of its tasks.
    """
    at, layout = (pairs.episode, pairs.state), model.config.layouts[member]
    embeddings = model.output_embeddings.detach() if model.config.lm else None
    world = model.world[member]
    with torch.no_grad():
        target_phi, _ = model.encode(*history, slow=True)
        chosen = pairs.actions
        if not pairs.from_data:
            chosen = choose(output, pairs, layout.beta, layout.acts_by)
        imagined = world(target_phi[at], chosen, embeddings)
        output.imagined_reward, output.imagined_dynamics = imagined
    output.target_representation = target_phi
    assert output.representation is not None
    # The models learn from phi as it is; how much of that phi feels is the config's choice.
    phi = output.representation[at]
    phi = phi.detach() + model.config.world_gradient * (phi - phi.detach())
    predicted = world(phi, pairs.actions, embeddings)
    output.predicted_reward, output.predicted_dynamics = predicted
    if "inverse" in model.config.heads:
        phi = output.representation
        following = (pairs.state + 1).clamp_max(phi.shape[1] - 1)
        both = torch.cat([phi[at], phi[pairs.episode, following]], dim=-1)
        output.inverse = model.of_tokens(model.inverse, both)[..., layout.action_numbers]


def choose(output: TextRLOutput, pairs: Pairs, beta: float, acts_by: tuple[str, ...]) -> Tensor:
    """A token of the current policy at each of the pairs' histories, (n,)."""
    at = (pairs.episode, pairs.state)
    here = TextRLOutput(
        policy=None if output.policy is None else output.policy[at],
        target_q=None if output.target_q is None else output.target_q[:, *at],
        v=None if output.v is None else output.v[at],
    )
    scores = action_scores(here, pairs.legal, beta, acts_by)
    return throw(pairs.dice, scores.softmax(dim=-1))
