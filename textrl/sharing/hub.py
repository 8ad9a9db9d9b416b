"""Publishing on the Hugging Face Hub: open a repository, push files as one commit."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete

from textrl.config.hub_names import check_name
from textrl.data.download import LOG_IN, Kind, hub_client, told
from textrl.errors import UserError

AS_GOOD_AS_EMPTY = {".gitattributes", "README.md", "LICENSE"}
"""What the Hub itself puts into a repository that somebody makes on its pages."""


def open_repo(repo: str, kind: Kind, private: bool, marks: Sequence[str]) -> None:
    """Make sure that the repository is there and that we may write to it; create it if need be.

    marks: the files by which a repository of ours is known. One that holds something else is
    refused, an empty one is not.
    """
    check_name(repo)
    with told(f"cannot publish to {repo!r}"):
        api = hub_client()
        user = api.whoami()
        if user.get("auth", {}).get("accessToken", {}).get("role") == "read":
            raise UserError(f"cannot publish to {repo!r}: the token can only read: {LOG_IN}")
        own = {each["name"].lower() for each in [user, *user.get("orgs", [])]}
        # With exist_ok the client takes any repository that can be seen for one to write to.
        is_own = repo.split("/")[0].lower() in own
        api.create_repo(repo, repo_type=kind, private=private or None, exist_ok=is_own)
        info: Any = api.repo_info(repo, repo_type=kind)
    files = {each.rfilename for each in info.siblings or []}
    if files - AS_GOOD_AS_EMPTY and not files >= set(marks):
        raise UserError(
            f"the {kind} repository {repo!r} holds something else ({min(files - AS_GOOD_AS_EMPTY)},"
            " ...): choose another name, or empty it on the Hub first"
        )
    if private and not info.private:
        raise UserError(
            f"{repo!r} exists and is public: make it private in its settings on the Hub,"
            " choose another name, or leave --private out"
        )


def push(
    folder: Path,
    repo: str,
    kind: Kind,
    patterns: Sequence[str],
    message: str,
    without: Sequence[str] = (),
) -> str:
    """Make the repository's files of these patterns those of the folder; give its address.

    without: files to take for absent, here and there.
    It is one commit: whoever downloads meanwhile gets the old files or the new ones, never some of
    each. What an earlier attempt has sent already is not sent again.
    """
    files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    names = {path.relative_to(folder).as_posix(): path for path in files}
    names = {name: path for name, path in names.items() if name not in without}
    with told(f"cannot publish to {repo!r}"):
        api = hub_client()
        info: Any = api.repo_info(repo, repo_type=kind)
        there = [each.rfilename for each in info.siblings or []]
        api.create_commit(
            repo,
            [
                *(
                    CommitOperationDelete(name)
                    for name in there
                    if name not in names and _fits(name, patterns)
                ),
                *(CommitOperationAdd(name, path) for name, path in names.items()),
            ],
            commit_message=message,
            repo_type=kind,
        )
    return f"{api.endpoint}/{'datasets/' if kind == 'dataset' else ''}{repo}"


def _fits(name: str, patterns: Sequence[str]) -> bool:
    """Whether a path is of one of the patterns, whose * stays within one folder as glob's does."""
    return any(
        name.count("/") == pattern.count("/") and fnmatchcase(name, pattern) for pattern in patterns
    )
