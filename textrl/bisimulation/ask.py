"""What the network is asked besides its heads, where histories are compared."""

from typing import Any

import torch
from torch import Tensor

from textrl.bisimulation.pairs import Pairs, throw
from textrl.losses.outputs import TextRLOutput, action_scores


def ask_world(
    model: Any,
    output: TextRLOutput,
    history: Any,
    pairs: Pairs,
    member: int,
    of_all: bool,
) -> None:
    """Add what the slow encoder and the world model say of the pairs' histories.

    model: a TextRLModel, whose encoder takes the history; member: of its tasks. of_all: whether
    somebody else needs what the slow encoder says of the other histories.
    """
    at, layout = (pairs.episode, pairs.state), model.config.layouts[member]
    embeddings = model.output_embeddings.detach() if model.config.lm else None
    world = model.world[member]
    assert output.representation is not None
    with torch.no_grad():
        states = output.representation.shape[:2]
        is_read = None if of_all else read_by(pairs, states, has_classes=world.classes > 0)
        target_phi = model.encode(history, slow=True, is_read=is_read)
        chosen = pairs.actions
        if not pairs.from_data:
            chosen = choose(output, pairs, layout.beta, layout.acts_by)
        imagined = world(target_phi[at], chosen, embeddings)
        output.imagined_reward, output.imagined_dynamics = imagined
    output.target_representation = target_phi
    # The models learn from phi as it is; how much of that phi feels is the config's choice.
    phi = output.representation[at]
    shared = phi.detach() + model.config.world_gradient * (phi - phi.detach())
    predicted = world(shared, pairs.actions, embeddings)
    output.predicted_reward, output.predicted_dynamics = predicted
    if "inverse" in model.config.heads:
        following = (pairs.state + 1).clamp_max(states[1] - 1)
        both = torch.cat([phi, output.representation[pairs.episode, following]], dim=-1)
        output.inverse = model.of_tokens(model.inverse, both)[..., layout.action_numbers]


def read_by(pairs: Pairs, shape: torch.Size, has_classes: bool) -> Tensor:
    """(batch, states), True at the histories whose z the loss needs.

    Where observations have no classes, the next history's z is what is predicted.
    """
    is_read = torch.zeros(shape, dtype=torch.bool, device=pairs.state.device)
    is_read[:1, :1] = True  # where there are no pairs: somebody has to be read
    is_read[pairs.episode, pairs.state] = True
    if not has_classes:
        is_read[pairs.episode, (pairs.state + 1).clamp_max(shape[1] - 1)] = True
    return is_read


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
