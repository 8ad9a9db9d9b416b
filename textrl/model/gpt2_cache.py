"""Keys and values of what GPT-2 has read, written in place."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


class GPT2Cache:
    """A history for each episode, and behind it what each candidate that goes on from it has read.

    So a history is there once, and candidates that take each other's place move nothing: masks tell
    who may see what. Room is taken in large pieces, of which most is written later.
    """

    def __init__(self, room: int = 64) -> None:
        """room: how many tokens to have room for at first."""
        self._room = room
        self._layers: list[Tensor] = []  # each (2, episodes, heads, room, head width)
        self._history = 0  # tokens that every candidate of an episode sees
        self._steps = 0  # tokens that each candidate has read since
        # (episodes, candidates, tokens behind the history): True where one sees it; None: nobody
        # has branched off.
        self._sees: Tensor | None = None
        # Of what is being read now:
        self._at = slice(0, 0)
        self._mask: Tensor | None = None

    def get_seq_length(self) -> int:
        """How many tokens each row has read."""
        return self._history + self._steps

    def branch(self, parents: Tensor) -> None:
        """From now on there are len(parents) rows, of which row i goes on from row parents[i].

        Each episode has as many of them as the others, side by side, and they come from its own.
        """
        if self._sees is None:
            episodes = self._layers[0].shape[1]
            shape = (episodes, len(parents) // episodes, 0)
            self._sees = torch.zeros(shape, dtype=torch.bool, device=parents.device)
        else:
            episodes = len(self._sees)
            self._sees = self._sees.flatten(0, 1)[parents].view(
                episodes, len(parents) // episodes, -1
            )

    def settle(self, rows: Tensor) -> None:
        """Go on with one row of each episode, (episodes,)."""
        if self._sees is None:
            return
        if self._steps:
            seen = self._sees.flatten(0, 1)[rows].nonzero()[:, 1].view(len(rows), self._steps)
            for layer in self._layers:
                index = (self._history + seen)[None, :, None, :, None]
                wide = index.expand(*layer.shape[:3], -1, layer.shape[4])
                into = slice(self._history, self._history + self._steps)
                layer[:, :, :, into] = layer.gather(3, wide)
        self._history += self._steps
        self._steps, self._sees = 0, None

    def batch_select_indices(self, indices: Tensor) -> None:
        """Go on with these episodes only, as transformers' caches do; between actions."""
        for number, layer in enumerate(self._layers):
            kept = layer.new_empty((2, len(indices), *layer.shape[2:]))
            until = slice(0, self._history)
            kept[:, :, :, until] = layer[:, :, :, until].index_select(1, indices)
            self._layers[number] = kept

    def expect(self, rows: int, time: int) -> None:
        """So much is read next, by every layer."""
        if self._sees is None:
            self._at = slice(self._history, self._history + time)
            self._mask = None
            if time > 1 and self._history:
                since = torch.ones(time, self._history + time, dtype=torch.bool)
                self._mask = since.tril(self._history)
            self._history += time
            return
        if time != 1:
            raise ValueError(f"candidates read one token at a time, not {time}")
        episodes, candidates, behind = self._sees.shape
        first = self._history + behind
        self._at = slice(first, first + candidates)
        own = torch.eye(candidates, dtype=torch.bool, device=self._sees.device)
        self._sees = torch.cat([self._sees, own.expand(episodes, -1, -1)], dim=2)
        history = self._sees.new_ones((episodes, candidates, self._history))
        self._mask = torch.cat([history, self._sees], dim=2)[:, None]
        self._steps += 1

    def attend(self, layer: int, read: Tensor) -> Tensor:
        """What the rows' heads take from all that they have read: (rows, heads, time, head width).

        read: (3, rows, heads, time, head width), queries, keys and values of what is new.
        """
        rows = read.shape[1]
        if self._sees is not None:  # an episode's candidates are queries of one history
            episodes, candidates, _ = self._sees.shape
            read = read.squeeze(3).unflatten(1, (episodes, candidates)).transpose(2, 3)
        query, new = read[0], read[1:]
        held = self._hold(layer, new)
        keys, values = held[:, :, :, : self._at.stop]
        mask = self._mask if self._mask is None else self._mask.to(query.device)
        is_causal = mask is None and query.shape[2] > 1
        attended = scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, is_causal=is_causal
        )
        if self._sees is None:
            return attended
        return attended.transpose(1, 2).reshape(rows, -1, 1, attended.shape[-1])

    def _hold(self, layer: int, new: Tensor) -> Tensor:
        """The layer's keys and values, the new ones in their place."""
        _, episodes, heads, _, width = new.shape
        while self._room < self._at.stop:
            self._room *= 2
        if layer == len(self._layers):
            self._layers.append(new.new_empty((2, episodes, heads, self._room, width)))
        held = self._layers[layer]
        if held.shape[3] < self._room:
            larger = held.new_empty((2, episodes, heads, self._room, width))
            larger[:, :, :, : held.shape[3]] = held
            held = self._layers[layer] = larger
        held[:, :, :, self._at] = new
        return held
