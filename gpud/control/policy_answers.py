"""What the requests about policies are answered with."""

from attrs import frozen

from gpud.control import wire
from gpud.engine import report
from gpud.engine.loading import Rejected
from gpud.engine.reload import Reloader
from gpud.engine.service import Engine
from gpud.engine.set_views import file_views
from gpud.model.errors import UsageError

PolicyAsk = wire.AskReload | wire.AskRollback | wire.AskHistory | wire.AskShow | wire.AskDiff


@frozen(kw_only=True)
class PolicyAnswers:
    """Of a daemon with its reloader."""

    engine: Engine
    reloader: Reloader

    async def answer(self, ask: PolicyAsk) -> wire.Answer:
        match ask:
            case wire.AskReload():
                return wire.ReloadAnswer(reload=await self.reloader.reload("asked"))
            case wire.AskRollback():
                try:
                    return wire.ReloadAnswer(reload=await self.reloader.rollback(ask.number))
                except UsageError as error:
                    return wire.ErrorAnswer(code="unknown", text=str(error))
            case wire.AskHistory():
                return wire.HistoryAnswer(sets=self.reloader.history())
            case wire.AskShow():
                return self._show(ask.file)
            case wire.AskDiff():
                return await self._diff()

    def _show(self, file: str | None) -> wire.ShowAnswer | wire.ErrorAnswer:
        running = self.reloader.running
        files = running.files if running is not None else {}
        if file is not None and file not in files:
            known = ", ".join(files) or "none"
            return wire.ErrorAnswer(
                code="unknown", text=f"no file of the running set is called {file!r}; files: {known}"
            )
        return wire.ShowAnswer(
            set=self.reloader.view(),
            policies=report.policies(self.engine.state),
            files=file_views(running) if running is not None else (),
            text=files[file] if file is not None else None,
        )

    async def _diff(self) -> wire.DiffAnswer:
        digest = self.reloader.running.digest if self.reloader.running is not None else ""
        try:
            directory, plan = await self.reloader.diff()
        except Rejected as rejected:
            return wire.DiffAnswer(running=digest, directory="", rejected=self.reloader.rejected(rejected))
        return wire.DiffAnswer(running=digest, directory=directory, plan=plan)
