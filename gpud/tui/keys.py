"""Every key, once: the screens bind them, the line at the bottom and the help name them."""

from attrs import frozen


@frozen
class Key:
    """One key, or several that do the same."""

    keys: str
    """As Textual names them, with commas."""
    action: str
    shown: str
    """As people write it."""
    short: str
    """In the line at the bottom; "": only in the help."""
    help: str
    changes: bool = False
    """It changes something of the node: gone with --readonly."""


EVERYWHERE = (
    Key("1", "tab(0)", "1", "", "jobs"),
    Key("2", "tab(1)", "2", "", "timeline: who had which device"),
    Key("3", "tab(2)", "3", "", "policies: what runs, what was refused, what a reload would do"),
    Key("4", "tab(3)", "4", "", "journal: all decisions"),
    Key("question_mark,f1", "help", "?", "help", "this help"),
    Key("f", "freeze", "f", "", "the screen stands still; again: it goes on"),
    Key("left_square_bracket", "past(1)", "[", "past", "a second back in time; ] ahead"),
    Key("right_square_bracket", "past(-1)", "]", "", "a second ahead"),
    Key("left_curly_bracket", "past(60)", "{", "", "a minute back in time; } ahead"),
    Key("right_curly_bracket", "past(-60)", "}", "", "a minute ahead"),
    Key("g", "focus_device", "g", "", "one device only: the next one; after the last, all"),
    Key("T", "look", "T", "", "dark, light, without colour"),
    Key("escape", "leave", "Esc", "", "back to now; then: no filter, no tags"),
    Key("q,ctrl+c", "quit", "q", "quit", "quit"),
)
JOBS = (
    Key("slash", "filter", "/", "filter", "show only some jobs"),
    Key("greater_than_sign", "sort_beside(1)", ">", "sort", "sort by the column to the right; < to the left"),
    Key("less_than_sign", "sort_beside(-1)", "<", "", "sort by the column to the left"),
    Key("o", "sort_by", "o", "", "choose the column to sort by, of all"),
    Key("r", "turn", "r", "", "sort the other way round"),
    Key("enter", "detail", "Enter", "detail", "all of the job under the cursor; again: away"),
    Key("w", "why", "w", "why", "what holds for the job, and the policy's line that says so"),
    Key("p", "pause", "p", "pause", "pause the job; resume it", changes=True),
    Key("s", "set", "s", "set", "class, memory, compute of the job", changes=True),
    Key("e", "evict", "e", "evict", "take the device from the job", changes=True),
    Key("k", "kill", "k", "kill", "send a signal to the job's processes", changes=True),
    Key("space", "tag", "Space", "tag", "tag the job: keys act on all tagged ones"),
    Key("u", "untag", "u", "", "no tags"),
    Key("t", "tree", "t", "tree", "processes below their jobs"),
    Key("c", "classes", "c", "classes", "classes: their share and how long they wait"),
    Key("x", "trace", "x", "", "show the job's trace id, and copy it"),
)
TIMELINE = (
    Key("left", "earlier(1)", "← →", "move", "the cursor, in time"),
    Key("right", "earlier(-1)", "→", "", "later"),
    Key("shift+left,pageup", "earlier(20)", "PgUp PgDn", "", "by twenty cells"),
    Key("shift+right,pagedown", "earlier(-20)", "PgDn", "", "by twenty cells"),
    Key("up", "device(-1)", "↑ ↓", "device", "the device"),
    Key("down", "device(1)", "↓", "", "the device below"),
    Key("plus,equals_sign", "zoom(-1)", "+", "zoom", "less time; - more"),
    Key("minus", "zoom(1)", "-", "", "more time"),
    Key("end", "now", "End", "now", "back to now"),
)
POLICY = (
    Key("d", "diff", "d", "dry run", "what a reload would do"),
    Key("h", "history", "h", "history", "sets that ran"),
    Key("l", "reload", "l", "load", "read the policies again", changes=True),
    Key("b", "rollback", "b", "roll back", "run the last good set again", changes=True),
)
JOURNAL = (Key("slash", "filter", "/", "filter", "only decisions that hold a text"),)
OF_TAB = (JOBS, TIMELINE, POLICY, JOURNAL)
TITLES = ("jobs", "timeline", "policy", "journal")
