"""`use` lines."""

from gpud.policies import ast
from gpud.policies.plugins.declare import PluginError, Plugins
from gpud.policies.plugins.validate import wrong_declaration
from gpud.policies.resolve.findings import Findings


def check_uses(file: ast.File, plugins: Plugins, findings: Findings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Plugins that a file uses: those that are there, and those that are not, which are reported."""
    there: list[str] = []
    missing: list[str] = []
    seen: set[str] = set()
    for use in file.uses:
        name = use.plugin
        if name.text in seen:
            findings.add("GP205", name.span, f"`{name.text}` is used twice", helps=("leave one line out",))
            continue
        seen.add(name.text)
        if name.text not in plugins:
            helps = findings.did_you_mean(name.text, sorted(plugins)) or (
                f"install the package that has the plugin `{name.text}`",
            )
            findings.add("GP601", name.span, f"no plugin `{name.text}` is installed", helps=helps)
            missing.append(name.text)
        elif text := _unusable(name.text, plugins):
            message = f"plugin `{name.text}` cannot be used: {text}"
            findings.add("GP602", name.span, message, helps=("tell who wrote it, or leave this line out",))
            missing.append(name.text)
        else:
            there.append(name.text)
    return tuple(there), tuple(missing)


def _unusable(name: str, plugins: Plugins) -> str:
    """Why an installed plugin cannot be used; "" if it can."""
    try:
        plugin = plugins[name]
    except PluginError as error:
        return error.text
    return wrong_declaration(name, plugin)
