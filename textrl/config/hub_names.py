"""Names of repositories on the Hugging Face Hub."""

import re

from textrl.errors import UserError

# As huggingface_hub checks them: no double hyphens or dots, no .git.
PART = r"\w(?:[\w.-]{0,94}\w)?"
HUB_NAME = re.compile(rf"(?!.*(?:--|\.\.))(?!.*\.git$){PART}/{PART}", re.ASCII)


def is_hub_name(name: str) -> bool:
    """Whether it could be the name of a repository."""
    return HUB_NAME.fullmatch(name) is not None


def check_name(repo: str) -> None:
    """Refuse a name that the Hub would not take."""
    if not is_hub_name(repo):
        raise UserError(
            f"{repo!r} is not a valid name on the Hub: it must be USER/NAME, of letters, digits,"
            " - _ ."
        )
