"""Files by name: from a folder here, or from the Hugging Face Hub; and why that failed, in a line.

The token is left to huggingface_hub, which reads it from where `hf auth login` or HF_TOKEN put it;
here it is neither kept nor printed.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

from textrl.config.hub_names import is_hub_name
from textrl.errors import UserError, first_line

Kind = Literal["model", "dataset"]
LOG_IN = "run `hf auth login` or set HF_TOKEN to a token with write access (settings/tokens)"
REMEDIES = {
    401: f"the token is not valid: {LOG_IN}",
    403: "the token may not write there: choose a name USER/NAME of which USER is you or an"
    " organization that you write for, and a token with write access",
    404: "there is no such repository, or it is private and the token may not see it",
    409: "somebody else is changing it right now: try again",
    429: "too many requests: try again in some minutes",
}


def fetch(name: str, kind: Kind, patterns: Sequence[str], revision: str | None = None) -> Path:
    """The file or folder of this name; if there is none, the Hub's files of these patterns.

    Those are downloaded once per commit into huggingface_hub's cache, which also serves when the
    Hub cannot be reached. revision: which commit; None = the newest.
    """
    if Path(name).exists():
        return Path(name)
    if not is_hub_name(name):
        raise UserError(f"{name!r} does not exist here, and is not a Hub id (USER/NAME) either")
    with told(f"{name!r} does not exist here, and cannot be loaded from the Hub"):
        hub_client()
        return Path(
            snapshot_download(
                name, repo_type=kind, allow_patterns=list(patterns), revision=revision
            )
        )


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


def hub_client() -> HfApi:
    """The client, told to leave the talking to us; progress bars are for terminals."""
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        disable_progress_bars()
    return HfApi(library_name="textrl")
