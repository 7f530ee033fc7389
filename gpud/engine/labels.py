"""What `gpud run` may say of a job: the forms of labels. (What policies read from them: label_values.py.) Pure."""

import re

from gpud.model.errors import Refused

LONGEST = 253
"""Characters of a label's key or value, and of a name."""
_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")


def check_label(key: str, value: str) -> None:
    """Raises Refused with the right form."""
    if len(key) > LONGEST or len(value) > LONGEST:
        raise Refused(f"the label {key[:40]!r} is longer than {LONGEST} characters; write a shorter one")
    if not _KEY.fullmatch(key):
        raise Refused(
            f"the label {key!r} has no key that a policy can name: letters, digits and . _ - / between two of the "
            "first; write --label tier=online"
        )
    if not value.isprintable() or '"' in value:
        raise Refused(
            f"the label {key!r} has the value {value!r}, which no policy can name; write printable characters other "
            'than "'
        )
