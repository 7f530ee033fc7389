"""Every code of a diagnostic: what it is called and whether it is a warning.

Each has a page in docs/errors/ and a golden file; a test holds that.
"""

from typing import NamedTuple


class Code(NamedTuple):
    """One kind of finding."""

    title: str
    warning: bool = False


CODES = {
    # 1xx syntax
    "GP101": Code("something stands where it cannot stand"),
    "GP102": Code("the file ends inside a block"),
    "GP103": Code("unknown unit, or a number without one"),
    "GP104": Code("a reserved word used as a name"),
    "GP105": Code("the version line is missing, or of another version"),
    "GP106": Code("the file is not text that can be read"),
    "GP107": Code("a text that is not closed on its line"),
    "GP108": Code("too long or too deep to read"),
    # 2xx names and types
    "GP201": Code("unknown name"),
    "GP202": Code("a value of the wrong type"),
    "GP203": Code("a required setting or argument is missing"),
    "GP204": Code("unknown setting, block or argument"),
    "GP205": Code("a name defined twice"),
    "GP206": Code("a value that is out of range"),
    "GP207": Code("a time, a day or a date that does not exist"),
    "GP208": Code("unknown time zone"),
    "GP209": Code("a function where it cannot be used, or used wrongly"),
    # 3xx conflicts and reachability
    "GP301": Code("two rules may set one knob at the same time"),
    "GP302": Code("a class that can never have a member"),
    "GP303": Code("one setting or knob set twice in one block"),
    "GP304": Code("a rule that can never hold, or always does"),
    "GP305": Code("more than one block of a kind"),
    "GP306": Code("`share` outside the policy that arbitrates"),
    "GP307": Code("a guard that cannot tighten"),
    "GP308": Code("`share` in a guard"),
    "GP309": Code("a class that is missing in `order`, or is there twice"),
    "GP310": Code("one device is claimed twice"),
    "GP311": Code("more than one site file"),
    "GP312": Code("a device that is absent", warning=True),
    "GP313": Code("a device prefix that fits more than one device"),
    "GP314": Code("policies that run nowhere", warning=True),
    "GP315": Code("turns on a device that is used through MPS"),
    # 4xx phase and effect
    "GP401": Code("read at the wrong time"),
    "GP402": Code("a signal set, or a knob read"),
    "GP403": Code("a knob or setting without effect here"),
    "GP404": Code("not enforced by this version"),
    "GP405": Code("not possible in a rule about one tenant"),
    # 5xx precision, sums, cost
    "GP501": Code("finer than can be kept"),
    "GP502": Code("fixed shares promise more than the device"),
    "GP503": Code("a tick would cost too much"),
    "GP504": Code("too many classes, rules or levels"),
    # 6xx plugins
    "GP601": Code("a plugin that is missing, or not used by this file"),
    "GP602": Code("a plugin whose declaration is wrong"),
    # 7xx tests
    "GP701": Code("a test that cannot be run"),
    "GP702": Code("an expectation that does not hold"),
    "GP703": Code("a test that did not finish", warning=True),
    # 9xx lints
    "GP901": Code("a guard without `until`", warning=True),
    "GP902": Code("a class matched on a label that anybody may claim", warning=True),
    "GP903": Code("hours that leave a gap or overlap", warning=True),
    "GP904": Code("hours without a time zone", warning=True),
    "GP905": Code("something defined and never used", warning=True),
    "GP906": Code("the way back lies within the rule's own effect", warning=True),
    "GP907": Code("a controller whose baseline forgets by age", warning=True),
}
