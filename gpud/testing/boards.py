"""Sets of policies for tests of the daemon's parts, from texts."""

from collections.abc import Mapping, Sequence

from gpud.engine.board import Board, build_board
from gpud.policies.check import check_policy
from gpud.policies.diagnostics import Diagnostic, has_errors
from gpud.policies.library import from_texts
from gpud.policies.placement import DeviceFacts
from gpud.policies.plugins.declare import Plugins
from gpud.policies.render import human
from gpud.policies.site import place

NO_PLUGINS: Plugins = {}


def board_from_texts(
    texts: Mapping[str, str],
    default: str | None = None,
    devices: Sequence[tuple[int, str]] = (),
    plugins: Plugins = NO_PLUGINS,
) -> Board:
    """Files by name → what runs. `default`: what applies to every device, `preempt-mix(quiet = 1ms)`; None: as the
    `apply` lines say. `devices`: (PCI index, UUID text). Whether this version enforces all of it is not looked at.

    Raises ValueError with all that is wrong.
    """
    library = from_texts(texts)
    placement, found = place(library, [DeviceFacts(*device) for device in devices], plugins, default)
    checked = [diagnostic for one in placement.applied for diagnostic in check_policy(one.policy, plugins)]
    everything: list[Diagnostic] = [*library.diagnostics, *found, *checked]
    if has_errors(everything):
        raise ValueError(human(everything))
    return build_board(placement, library.digest, plugins)
