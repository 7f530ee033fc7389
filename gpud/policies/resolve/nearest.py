"""The name that was probably meant."""

from collections.abc import Iterable

_LONGEST = 60
"""Characters: nobody mistypes a longer name in a way that can be guessed."""
_MOST = 400
"""Names that are compared letter by letter: who has more gets a guess among the first."""


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The most similar name, if any is similar enough: up to a third of the letters off; the first of equals. Else one
    that the word shortens: `wait_p99` for `wait`, `memory_free` for `mem_free`."""
    if not word or len(word) > _LONGEST:
        return None
    best, most, longer = None, min(max(1, len(word) // 3), len(word) - 1), None
    left = _MOST
    for name in names:
        if longer is None and _shortens(word, name):
            longer = name
        if name == word or abs(len(name) - len(word)) > most:
            continue
        found = distance(word, name, most)
        if found <= most:
            best, most = name, found - 1
        left -= 1
        if not left:
            break
    return best or longer


def _shortens(word: str, name: str) -> bool:
    short, long = word.split("_"), name.split("_")
    pairs = zip(short, long, strict=False)
    return (
        name.isidentifier()
        and len(short) <= len(long)
        and all(b == a or (len(a) > 2 and b.startswith(a)) for a, b in pairs)
    )


def did_you_mean(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """As a help, or no help."""
    found = nearest(word, names)
    return (f"did you mean `{found}`?",) if found else ()


def distance(left: str, right: str, most: int = _LONGEST) -> int:
    """Letters added, left out, replaced, or swapped with their neighbour; case does not count. Any number above `most`
    for more than that."""
    left, right = left.casefold(), right.casefold()
    above: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, 1):
        above, before, row = row, above, [i]
        for j, other in enumerate(right, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most and min(above) > most:
            break
    return row[-1] if min(row) <= most else most + 1
