"""Columns: which parts of neighbouring lines stand below each other."""

from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field

COMMENTS = 42
"""Column of the comments behind lines that are short enough."""
_LONG = 70
"""A line of more columns does not move the comments of its neighbours."""
_MOST = 30
"""Columns of padding; if it took more, neighbours stay as they are."""


@define
class Mark:
    """Where a line may be stretched."""

    key: str
    """Lines that stand below each other are aligned where their marks have the same key."""
    gap: int = 1
    """Spaces at the least."""


@define
class Line:
    """One line to be."""

    indent: int
    cells: list[str] = field(factory=lambda: [""])
    marks: list[Mark] = field(factory=list)
    """One between each two cells."""
    comment: str | None = None
    """Behind the cells, or alone in the line."""
    blank: bool = False
    """An empty line comes before it."""

    @property
    def alone(self) -> bool:
        """Nothing but a comment."""
        return self.cells == [""]


def aligned(lines: Sequence[Line]) -> str:
    """The text of all lines."""
    for run in _runs(lines):
        for number in range(max(len(line.marks) for line in run)):
            _stretch([line for line in run if len(line.marks) > number], number)
    texts = {id(line): _text(line) for line in lines}
    columns: dict[int, int] = {}
    for group in _groups(lines):
        behind = [len(texts[id(line)]) for line in group if line.comment is not None and not line.alone]
        column = max([COMMENTS, *(width + 2 for width in behind if width <= _LONG)])
        columns.update((id(line), column) for line in group)
    out: list[str] = []
    for line in lines:
        if line.blank and out:
            out.append("")
        text = texts[id(line)]
        if line.comment is not None:
            text = (
                " " * line.indent + line.comment if line.alone else f"{text:<{columns[id(line)] - 2}}  {line.comment}"
            )
        out.append(text)
    return "\n".join(out) + "\n"


def _text(line: Line) -> str:
    text = " " * line.indent + line.cells[0]
    for mark, cell in zip(line.marks, line.cells[1:], strict=True):
        text += " " * mark.gap + cell
    return text


def _runs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Neighbours whose first marks belong below each other; a comment between them does not part them."""
    run: list[Line] = []
    for line in lines:
        if line.alone and not line.blank:
            continue
        fits = bool(run) and not line.blank and bool(line.marks)
        if fits and run[0].indent == line.indent and run[0].marks[0].key == line.marks[0].key:
            run.append(line)
        else:
            if run:
                yield run
            run = [line] if line.marks else []
    if run:
        yield run


def _stretch(run: list[Line], number: int) -> None:
    """Makes mark `number` of all lines end in one column."""
    widths = []
    for line in run:
        width = len(line.cells[0])
        for mark, cell in zip(line.marks[:number], line.cells[1 : number + 1], strict=True):
            width += mark.gap + len(cell)
        widths.append(width)
    widest = max(widths)
    if widest - min(widths) <= _MOST:
        for line, width in zip(run, widths, strict=True):
            line.marks[number].gap += widest - width


def _groups(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lines without an empty one between them."""
    group: list[Line] = []
    for line in lines:
        if line.blank and group:
            yield group
            group = []
        group.append(line)
    if group:
        yield group
