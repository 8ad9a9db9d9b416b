"""Looking through conversations before anything is trained: what is wrong, what a row becomes."""

import os
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from tqdm import tqdm

from textrl.data.chat import Spelled, TextLanguage
from textrl.data.conversation import BadRow
from textrl.data.progress import progress_bar
from textrl.envs.text.index import PATIENCE, Index, OnBad, Summary, make_index
from textrl.envs.text.sources import open_source
from textrl.errors import UserError
from textrl.evaluation.report import table

FAULTS_SHOWN = 100
ROWS_SHOWN = 3
TOKENS_SHOWN = 400  # of a row
BLOCK_ROWS = 256
BOLD, PLAIN = "\033[1;32m", "\033[0m"


@dataclass
class Lengths:
    """What tokenizing every row shows."""

    rows: int = 0
    tokens: int = 0
    action_tokens: int = 0
    longest: int = 0
    cut: int = 0
    turns_cut: int = 0
    """Of the cut ones: where one turn and what it answers are too long by themselves."""

    def add(self, spelled: Spelled) -> None:
        """Take in a row."""
        self.rows += 1
        self.tokens += len(spelled.tokens)
        self.action_tokens += sum(spelled.is_action)
        self.longest = max(self.longest, len(spelled.tokens))
        self.cut += spelled.is_cut
        self.turns_cut += spelled.is_turn_cut


def check_conversations(
    name: str, language: TextLanguage | None, context: int, skips_bad: bool
) -> None:
    """Print every bad row, how the first ones become tokens, and a summary.

    language: None = the format alone is checked. Bad rows are an error unless they are skipped.
    """
    source = open_source(name)
    told = 0

    def tell(number: int, fault: BadRow) -> None:
        nonlocal told
        told += 1
        if told <= FAULTS_SHOWN:
            tqdm.write(f"{source.unit} {number}: {printable(str(fault))}")

    index = make_index(source, language, on_bad=tell)
    summary, lengths = index.summary, None
    if language is not None and summary.rows:
        lengths, untold = _measure(index, language, context, tell)
        summary.bad = dict((Counter(summary.bad) + untold).most_common())
        summary.rows -= untold.total()
    if told > FAULTS_SHOWN:
        print(f"... and {told - FAULTS_SHOWN:,} more bad rows")
    if language is not None and lengths is not None and lengths.rows:
        _show_first(index, language, context)
    print(f"\n{describe_summary(name, summary, lengths, context)}")
    if remark := index.remark():
        print(remark)
    if not summary.rows:
        raise UserError(f"{name!r} has no conversation to learn from")
    if summary.bad_rows and not skips_bad:
        raise UserError(
            f"{summary.bad_rows:,} rows of {name!r} are bad: fix them, or leave them out with"
            " --on-bad-rows skip"
        )


def _measure(
    index: Index, language: TextLanguage, context: int, tell: OnBad
) -> tuple[Lengths, Counter[str]]:
    """Tokenize every row."""
    lengths, bad = Lengths(), Counter[str]()
    bar = progress_bar(total=len(index), desc="tokenizing", unit="row", delay=PATIENCE, leave=False)
    with bar:
        for first in range(0, len(index), BLOCK_ROWS):
            rows = np.arange(first, min(first + BLOCK_ROWS, len(index)))
            for row, conversation in zip(rows.tolist(), index.read(rows), strict=True):
                try:
                    lengths.add(language.spell(conversation, context))
                except BadRow as fault:
                    bad[fault.kind] += 1
                    tell(int(index.entries["number"][row]), fault)
            bar.update(len(rows))
    return lengths, bad


def _show_first(index: Index, language: TextLanguage, context: int) -> None:
    print("\nwhat the first rows become: >>>the agent's tokens, |between| them<<< (reward)")
    rows = np.arange(min(ROWS_SHOWN, len(index)))
    for row, conversation in zip(rows.tolist(), index.read(rows), strict=True):
        try:
            spelled = language.spell(conversation, context)
        except BadRow:
            continue
        cut = ""
        if spelled.is_cut:
            cut = f", {spelled.messages_cut} messages cut"
            cut += ", and within a message" if spelled.is_turn_cut else ""
        end = "cut off" if spelled.truncated else "ended"
        weight = "" if conversation.weight == 1 else f", weight {conversation.weight:g}"
        print(
            f"\n{index.source.unit} {index.entries['number'][row]}: {len(spelled.tokens)} tokens,"
            f" {sum(spelled.is_action)} the agent's, {end}{weight}{cut}"
        )
        print(show(spelled, language))


def show(spelled: Spelled, language: TextLanguage) -> str:
    """The tokens as text, those of the agent marked, by signs and where possible by colour."""
    is_bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    tokenizer: Any = language.tokenizer()
    parts = []
    columns = list(zip(spelled.tokens, spelled.is_action, spelled.reward, strict=True))
    for is_action, group in groupby(columns[:TOKENS_SHOWN], key=lambda column: column[1]):
        run = list(group)
        ids = [token for token, _, _ in run]
        if not is_action:
            parts.append(printable(tokenizer.decode(ids)))
            continue
        text = "|".join(map(printable, split_text(ids, language)))
        reward = sum(reward for _, _, reward in run)
        parts.append(f">>>{BOLD if is_bold else ''}{text}{PLAIN if is_bold else ''}<<<")
        parts.append(f" ({reward:+g})" if reward else "")
    if len(columns) > TOKENS_SHOWN:
        parts.append(f" ... ({len(columns) - TOKENS_SHOWN} more tokens)")
    return "    " + "".join(parts).rstrip("\n").replace("\n", "\n    ")


def split_text(ids: list[int], language: TextLanguage) -> list[str]:
    """What each token adds to the text; one that ends within a character waits for the rest."""
    tokenizer: Any = language.tokenizer()
    parts, done = [], ""
    for end in range(1, len(ids) + 1):
        text: str = tokenizer.decode(ids[:end])
        if not text.endswith("\ufffd") or end == len(ids):
            parts.append(text[len(done) :])
            done = text
    return parts


def printable(text: str) -> str:
    """Without the characters by which a text could take over a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def describe_summary(name: str, summary: Summary, lengths: Lengths | None, context: int) -> str:
    """For people."""
    lines = [
        f"{name}: {summary.rows:,} conversations, {summary.messages:,} messages,"
        f" {summary.turns:,} turns of the agent",
        f"{summary.truncated:,} were cut off, {summary.weighted:,} have a weight of their own",
    ]
    if summary.rewarded_turns:
        lines.insert(
            1,
            f"rewards: {summary.rewarded_turns:,} turns earned one, and a turn from"
            f" {summary.lowest_reward:g} to {summary.highest_reward:g}",
        )
    elif summary.rows:
        lines.append("without any reward there is nothing to learn from but imitation: --algo bc")
    if lengths is not None and lengths.rows:
        lines.append(
            f"tokens: {lengths.tokens:,}, {lengths.tokens / lengths.rows:,.0f} a conversation, at"
            f" most {lengths.longest:,}; {lengths.action_tokens:,} are the agent's"
        )
        lines.append(
            f"longer than --context {context}: {lengths.cut:,} conversations lose their beginning,"
            f" {lengths.turns_cut:,} of them part of a message"
        )
    if summary.returns:
        rows = [
            [printable(who), f"{count:,}", f"{total / count:.3f}"]
            for who, (count, total) in sorted(summary.returns.items())
        ]
        lines += ["", table(["behaviour", "conversations", "mean return"], rows)]
    if summary.bad:
        rows = [[kind, f"{count:,}"] for kind, count in summary.bad.items()]
        lines += ["", table(["bad rows", "how many"], rows)]
    return "\n".join(lines)
