"""A picture of a recording's last step: `python -m gpud.tui.screenshot RECORDING OUT.svg --size 120x36 --keys down`."""

import argparse
import asyncio
import re
from pathlib import Path

from gpud.tui.app import TopApp
from gpud.tui.ask import ReplayAsker
from gpud.tui.draw.view import View
from gpud.tui.feed import Step
from gpud.tui.inbox import Inbox
from gpud.tui.look import DARK
from gpud.tui.model import NodeModel
from gpud.tui.recording import Recording

_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def picture(recording: Recording, size: tuple[int, int], keys: list[str], until: int | None = None) -> str:
    """SVG that needs nothing from elsewhere: the reader's own monospaced font. `until`: so many steps are played."""
    inbox = Inbox()
    for number, feed in enumerate(recording.steps()):
        if until is not None and number >= until:
            break
        inbox.post(Step(feed))
    app = TopApp(inbox=inbox, asker=ReplayAsker(recording), view=View(NodeModel()), look=DARK)
    app.animation_level = "none"
    return asyncio.run(_picture(app, size, keys))


async def _picture(app: TopApp, size: tuple[int, int], keys: list[str]) -> str:
    async with app.run_test(size=size) as pilot:
        for key in keys:
            await app.workers.wait_for_complete()
            await pilot.press(key)
        await app.workers.wait_for_complete()
        await pilot.pause()
        return _FONT.sub("", app.export_screenshot())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", default="120x36", help="columns and lines")
    parser.add_argument("--keys", default="", help="pressed before, as Textual names them, with commas")
    parser.add_argument("--steps", type=int, help="only so many of them")
    options = parser.parse_args()
    columns, _, lines = options.size.partition("x")
    recording = Recording(options.recording)
    keys = [key for key in options.keys.split(",") if key]
    options.out.write_text(picture(recording, (int(columns), int(lines)), keys, options.steps))
    recording.close()


if __name__ == "__main__":
    main()
