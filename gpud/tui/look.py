"""Roles of text → styles. Colour says something or is not there; without colour, weight and brackets say the same."""

import os
from collections.abc import Mapping

from attrs import frozen
from rich.style import Style

JOB_COLOURS = 6
"""Kinds of spans in a timeline."""


@frozen(kw_only=True)
class Look:
    """Styles of one kind of terminal."""

    name: str
    """Of Textual's theme too: `gpud-dark` …"""
    base: Style
    """Of all text; with the background, so that it does not hang on the terminal's."""
    styles: Mapping[str, Style]

    def style(self, role: str) -> Style:
        return self.styles.get(role, _NONE)


_NONE = Style.null()


def _styles(**texts: str) -> dict[str, Style]:
    return {name: Style.parse(text) for name, text in texts.items()}


def _look(name: str, base: str, jobs: tuple[str, ...], **texts: str) -> Look:
    spans = {f"job{at}": text for at, text in enumerate(jobs)}
    return Look(name=name, base=Style.parse(base), styles=_styles(**texts, **spans))


DARK = _look(
    "gpud-dark",
    "#d5dde6 on #0e141b",
    jobs=(
        "#0b1117 on #6cb6ff", "#0b1117 on #e3b341", "#0b1117 on #57ab5a", "#0b1117 on #dcbdfb", "#0b1117 on #f69d50",
        "#0b1117 on #76e3ea",
    ),
    dim="#7f8b99", rule="#35414e", title="bold #9fb0c3", head="bold #9fb0c3", key="bold #6cb6ff",
    good="#6bc46d", warn="#e3b341", bad="bold #ff7b72", note="#8fb8f6", bar="#6cb6ff", held="#4a5f78", track="#2b3642",
    strong="bold #ffffff", brand="bold #0b1117 on #6cb6ff", cursor="on #233447", tagged="bold #dcbdfb",
    past="bold #0b1117 on #dcbdfb", lost="bold #0b1117 on #ff7b72", remark="#0b1117 on #9fb0c3", mark="bold #ffffff",
)  # fmt: skip
LIGHT = _look(
    "gpud-light",
    "#1f2328 on #fbfcfd",
    jobs=(
        "#ffffff on #0969da", "#ffffff on #8a5a00", "#ffffff on #1a7f37", "#ffffff on #8250df", "#ffffff on #bc4c00",
        "#ffffff on #0a6d74",
    ),
    dim="#6a737d", rule="#d0d7de", title="bold #44505c", head="bold #44505c", key="bold #0959b5",
    good="#1a7f37", warn="#8a5a00", bad="bold #c4242c", note="#3a5fb0", bar="#0969da", held="#a9bfd8", track="#dfe5eb",
    strong="bold #000000", brand="bold #ffffff on #0969da", cursor="on #dbeafe", tagged="bold #8250df",
    past="bold #ffffff on #8250df", lost="bold #ffffff on #c4242c", remark="#ffffff on #57606a", mark="bold #000000",
)  # fmt: skip
NONE = _look(
    "gpud-none",
    "",
    jobs=("reverse", "reverse dim", "reverse bold", "reverse underline", "reverse italic", "reverse dim underline"),
    dim="dim", rule="dim", title="bold", head="bold", key="bold", warn="bold", bad="bold underline", track="dim",
    held="dim", strong="bold", brand="reverse bold", cursor="reverse", tagged="bold", past="reverse bold",
    lost="reverse bold", remark="reverse", mark="bold", note="italic",
)  # fmt: skip
LOOKS = {"dark": DARK, "light": LIGHT, "none": NONE}


def choose_look(wanted: str, environment: Mapping[str, str] = os.environ) -> Look:
    """`auto`: light where the terminal says that its background is, else dark. NO_COLOR, or a terminal that has none:
    without colour."""
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return NONE
    if wanted in LOOKS:
        return LOOKS[wanted]
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background in ("7", "15") else DARK
