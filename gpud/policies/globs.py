"""`~`: a text against a pattern in which `*` is any run of characters and `?` is one; all else is itself."""


def fits(text: str, glob: str) -> bool:
    """Time: length of one times length of the other, at most."""
    at = star = 0
    behind = None  # the last `*`, and how much of the text it has taken
    for _ in range((len(text) + 1) * (len(glob) + 1)):
        if at == len(text):
            return glob[star:].strip("*") == ""
        if star < len(glob) and glob[star] == "*":
            star += 1
            behind = (at, star)
        elif star < len(glob) and glob[star] in ("?", text[at]):
            at, star = at + 1, star + 1
        elif behind is None:
            return False
        else:
            at, star = behind[0] + 1, behind[1]
            behind = (at, star)
    raise AssertionError("each step moves on")


def covers(wide: str, narrow: str) -> bool:
    """Does every text that fits `narrow` surely fit `wide`? (False: perhaps not.)"""
    if wide == narrow:
        return True
    # A character that `wide` does not name can only fall to one of its stars, and so can whatever stands in its place.
    return "?" not in wide and fits(narrow.replace("*", "\0").replace("?", "\0"), wide.replace("\0", ""))
