"""Text that others have written, where it stands among ours."""

UNDER_MPS = (
    "MPS runs kernels of several jobs side by side there: a gate bounds how long others' work stays, not how much it "
    "slows a job, and GPU time is an estimate"
)
"""What gpud cannot promise of such a device."""
TURNS_UNDER_MPS = (
    "its policy gives it to one job at a time; but under MPS a kernel's error in one job, or its death, can end the "
    "others, and memory that leaves was never tried: end the MPS server, or apply another policy"
)
"""… while it has turns."""

WITHOUT_HOOK = "without hook: launches not gated, memory not moved"
"""Of a job that takes turns by gpud.acquire alone."""


def one_line(text: str) -> str:
    """As it may stand in a line of a log or of a screen: whatever would end the line, move the cursor or turn the
    direction of writing is written as an escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
