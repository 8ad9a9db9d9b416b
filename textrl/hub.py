"""The Hugging Face Hub: open a repository, push files as one commit, fetch them, explain errors.

The token is left to huggingface_hub, which reads it from where `hf auth login` or HF_TOKEN put it;
here it is neither kept nor printed.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, snapshot_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    disable_progress_bars,
    validate_repo_id,
)

from textrl.errors import UserError, first_line

Kind = Literal["model", "dataset"]
AS_GOOD_AS_EMPTY = {".gitattributes", "README.md", "LICENSE"}
"""What the Hub itself puts into a repository that somebody makes on its pages."""
LOG_IN = "run `hf auth login` or set HF_TOKEN to a token with write access (settings/tokens)"
REMEDIES = {
    401: f"the token is not valid: {LOG_IN}",
    403: "the token may not write there: choose a name USER/NAME of which USER is you or an"
    " organization that you write for, and a token with write access",
    404: "there is no such repository, or it is private and the token may not see it",
    409: "somebody else is changing it right now: try again",
    429: "too many requests: try again in some minutes",
}


def check_name(repo: str) -> None:
    """Refuse a name that the Hub would not take."""
    try:
        validate_repo_id(repo)
        is_valid = repo.count("/") == 1
    except HFValidationError:
        is_valid = False
    if not is_valid:
        raise UserError(
            f"{repo!r} is no name on the Hub: it must be USER/NAME, of letters, digits, - _ ."
        )


def open_repo(repo: str, kind: Kind, private: bool, marks: Sequence[str]) -> None:
    """Make sure that the repository is there and that we may write to it; create it if need be.

    marks: the files by which a repository of ours is known. One that holds something else is
    refused, an empty one is not.
    """
    check_name(repo)
    with told(f"cannot publish to {repo!r}"):
        api = _api()
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
        api = _api()
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


def fetch(name: str, kind: Kind, patterns: Sequence[str], revision: str | None = None) -> Path:
    """The file or folder of this name; if there is none, the Hub's files of these patterns.

    Those are downloaded once per commit into huggingface_hub's cache, which also serves when the
    Hub cannot be reached. revision: which commit; None = the newest.
    """
    if Path(name).exists():
        return Path(name)
    if not is_hub_name(name):
        raise UserError(f"{name!r} does not exist here and is no Hub id (USER/NAME) either")
    with told(f"{name!r} does not exist here and cannot be had from the Hub"):
        _api()
        return Path(
            snapshot_download(
                name, repo_type=kind, allow_patterns=list(patterns), revision=revision
            )
        )


def is_hub_name(name: str) -> bool:
    """Whether it could be the name of a repository."""
    try:
        check_name(name)
    except UserError:
        return False
    return True


@contextlib.contextmanager
def told(failure: str) -> Iterator[None]:
    """Tell whatever the Hub's client raises in one line: what failed, why, what to do."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # its own errors, its HTTP library's, Python's
        raise UserError(f"{failure}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Why the Hub's client failed and what helps, from the first error in the chain that tells."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, LocalTokenNotFoundError):
            return f"there is no Hugging Face token: {LOG_IN}"
        if isinstance(link, OfflineModeIsEnabled):
            return "HF_HUB_OFFLINE is set: unset it"
        if isinstance(link, RepositoryNotFoundError):
            return REMEDIES[404]
        if isinstance(link, HfHubHTTPError):
            return _reason_of_answer(link)
        # The second one quotes the header that it could not send: never print that.
        if isinstance(link, UnicodeEncodeError) or type(link).__name__ == "LocalProtocolError":
            return f"the token has characters that no token has: {LOG_IN}"
        if type(link).__module__.startswith("httpx"):
            return (
                f"no connection to {HfApi().endpoint} ({first_line(link)}):"
                " check the network and try again"
            )
        link = link.__cause__ or link.__context__
    return first_line(error)


def _reason_of_answer(error: HfHubHTTPError) -> str:
    """The Hub answered, but not what was hoped for."""
    status = error.response.status_code
    said = f" (it says: {error.server_message})" if error.server_message else ""
    if status >= 500:
        return f"the Hub is in trouble (status {status}): try again later{said}"
    return REMEDIES.get(status, f"the Hub refuses with status {status}") + said


def _api() -> HfApi:
    """The client, told to leave the talking to us; progress bars are for terminals."""
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        disable_progress_bars()
    return HfApi(library_name="textrl")


def _fits(name: str, patterns: Sequence[str]) -> bool:
    """Whether a path is of one of the patterns, whose * stays within one folder as glob's does."""
    return any(
        name.count("/") == pattern.count("/") and fnmatchcase(name, pattern) for pattern in patterns
    )
