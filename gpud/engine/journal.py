"""What was: the rows of each second of the last hour, and what was decided. Bounded, in memory. Pure.

Everything is kept by the monotonic clock, and told by the present offset of Unix time: whoever sets the clock moves all
of the past with it, and never puts it out of order.
"""

from collections import deque
from collections.abc import Callable, Iterable
from heapq import merge
from itertools import chain

from attrs import frozen

from gpud.engine.decisions import Made
from gpud.engine.journal_blocks import RAW_BYTES, Block, Piece, frame
from gpud.engine.live import Rows
from gpud.model.live_views import Decision
from gpud.model.units import SECOND

STEP_NS = 1 * SECOND
BLOCK_NS = 60 * SECOND
LONGEST_NS = 3600 * SECOND
MOST_BYTES = 64 << 20
"""Of all blocks."""
MOST_DECISIONS = {"knob": 2048, "turns": 8192, "": 8192}
"""Those that come often may not push out the others."""
_TURNS = frozenset({"grant", "revoke", "back", "swap_out", "swap_in", "hold", "go", "oom"})
MaySee = Callable[[Made], bool]
_FOR_ALL = frozenset({"knob", "reload", "reject"})
"""Those that are about no job may be seen by everybody who may look at all."""


@frozen
class Numbered:
    number: int
    made: Made

    def told(self, offset: int) -> Decision:
        """`offset`: Unix time less the monotonic clock."""
        return self.made.decision(self.number, offset)


@frozen(kw_only=True)
class Found:
    """Of a question for decisions."""

    found: tuple[Numbered, ...]
    """Oldest first."""
    left_out: int
    """Older ones."""


def may_read(made: Made, uid: int) -> bool:
    """May somebody who sees only his own jobs read this?"""
    return made.kind in _FOR_ALL if made.job is None else made.uid == uid


class Journal:
    """One task owns it."""

    def __init__(self, now: int, *, most_bytes: int = MOST_BYTES) -> None:
        self._began_ns = now
        self._most_bytes = most_bytes
        self._blocks: deque[Block] = deque()
        self._last: Rows | None = None
        self._rings: dict[str, deque[Numbered]] = {name: deque(maxlen=most) for name, most in MOST_DECISIONS.items()}
        self._lost_ns: dict[str, int] = {}
        """Of the last one that was pushed out of each."""
        self.last_number = 0

    # ----------------------------------------------------------------------------------------------------- seconds

    def is_due(self, now: int) -> bool:
        """Has a second passed since the last step? (A look that comes a little early counts as the next second's.)"""
        return self._last is None or now - self._last.mono_ns >= STEP_NS * 9 // 10

    def keep(self, rows: Rows) -> None:
        """As they are now. Later than those before."""
        last = self._blocks[-1] if self._blocks else None
        if last is None or rows.mono_ns - last.first_ns >= BLOCK_NS or last.raw >= RAW_BYTES:
            if last is not None:
                last.close()
            last = Block(rows.mono_ns)
            self._blocks.append(last)
            last.add(frame(None, rows))
        else:
            last.add(frame(self._last, rows))
        self._last = rows
        self._drop(rows.mono_ns)

    def _drop(self, now: int) -> None:
        blocks = self._blocks
        total = self.bytes
        while len(blocks) > 1 and (total > self._most_bytes or blocks[1].first_ns < now - LONGEST_NS):
            total -= blocks.popleft().size

    @property
    def bytes(self) -> int:
        """That all steps take."""
        return sum(block.size for block in self._blocks)

    def past(self, at_ns: int) -> Piece | None:
        """Of the last step at or before then, monotonic; None: it does not go back so far."""
        for block in reversed(self._blocks):
            if block.first_ns <= at_ns:
                return block.piece(at_ns)
        return None

    @property
    def first_ns(self) -> int | None:
        """The oldest step, monotonic; None: there is none."""
        return self._blocks[0].first_ns if self._blocks else None

    # --------------------------------------------------------------------------------------------------- decisions

    def note(self, decisions: Iterable[Made]) -> list[Numbered]:
        """Returns them as they are kept."""
        noted: list[Numbered] = []
        for made in decisions:
            self.last_number += 1
            name = "knob" if made.kind == "knob" else "turns" if made.kind in _TURNS else ""
            ring = self._rings[name]
            if len(ring) == ring.maxlen:
                self._lost_ns[name] = ring[0].made.mono_ns
            noted.append(Numbered(self.last_number, made))
            ring.append(noted[-1])
        return noted

    @property
    def knows_ns(self) -> int:
        """From then on it has all decisions, monotonic."""
        return max((self._began_ns, *(lost + 1 for lost in self._lost_ns.values())))

    def since(self, number: int, most: int, most_knobs: int) -> list[Numbered]:
        """The newest ones after that number, oldest first; of knobs, which policies may turn all the time, so many at
        most."""
        found: list[list[Numbered]] = []
        for name, ring in self._rings.items():
            room = most_knobs if name == "knob" else most
            newest: list[Numbered] = []
            for one in reversed(ring):
                if one.number <= number or len(newest) >= room:
                    break
                newest.append(one)
            found.append(newest[::-1])
        return sorted(chain(*found), key=_number)[-most:]

    def find(
        self,
        since_ns: int,
        until_ns: int,
        *,
        job: int | None = None,
        device: int | None = None,
        most: int,
        may_see: MaySee | None = None,
    ) -> Found:
        """Those of a span of time, monotonic. `may_see`: what who asks may see; None: everything."""
        kept: list[Numbered] = []
        left_out = 0
        for one in merge(*map(reversed, self._rings.values()), key=_number, reverse=True):
            made = one.made
            if made.mono_ns > until_ns or job not in (None, made.job) or device not in (None, made.slot):
                continue
            if made.mono_ns < since_ns:
                break
            if may_see is not None and not may_see(made):
                continue
            if len(kept) < most:
                kept.append(one)
            else:
                left_out += 1
        return Found(found=tuple(kept[::-1]), left_out=left_out)


def _number(one: Numbered) -> int:
    return one.number
