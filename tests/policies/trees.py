"""Random syntax trees, and random spellings of a text: what the tests of parser and formatter draw from."""

import random
from collections.abc import Sequence

from hypothesis import strategies as st

from gpud.policies import ast
from gpud.policies.schema import RESERVED
from gpud.policies.syntax.tokens import END, scan

names = st.one_of(
    st.sampled_from(["a", "high", "low", "gpu", "max_inflight", "_x1", "share"]),
    st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name not in RESERVED),
).map(ast.Name)
strings = st.text(st.characters(exclude_characters='"\n\r\0', exclude_categories=("Cs",)), max_size=12).map(ast.String)
numbers = st.from_regex(r"[0-9][0-9_]{0,5}(\.[0-9]{1,3})?", fullmatch=True)
units = st.sampled_from(["", "ms", "s", "min", "%", "/s", "/ms", "GiB", "GiB/s", "GB", "x", "Foo/bar"])
quantities = st.builds(ast.Quantity, numbers, units)
refs = st.lists(names, min_size=1, max_size=3).map(lambda parts: ast.Ref(tuple(parts)))
leaves = st.one_of(quantities, strings, st.booleans().map(ast.Bool), st.just(ast.Unlimited()), refs)


def _wider(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    listing = st.lists(inner, max_size=3).map(lambda items: ast.Listing(tuple(items)))
    return st.one_of(
        st.builds(ast.Call, refs, _args(inner)),
        listing,
        inner.map(ast.Not),
        st.builds(ast.Logic, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(
            ast.Binary, st.sampled_from(["+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "~"]), inner, inner
        ),
        st.builds(ast.Binary, st.just("in"), inner, listing),
    )


def _args(values: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[tuple[ast.Arg, ...]]:
    return st.lists(st.builds(ast.Arg, st.none() | names, values), max_size=3).map(tuple)


exprs = st.recursive(leaves, _wider, max_leaves=12)
some_args = _args(exprs)
held = st.builds(ast.Held, exprs, st.none() | quantities)
bindings = st.builds(ast.Binding, refs, exprs)
lets = st.builds(ast.Let, names, exprs)
settings_ = st.builds(ast.Setting, names, exprs)
blocks = st.builds(ast.Block, names, st.none() | names, st.lists(settings_, max_size=4).map(tuple))
_per_value = refs | st.just(ast.Ref((ast.Name("class"),)))
_class_settings = st.one_of(settings_, st.builds(ast.Setting, st.just(ast.Name("per")), _per_value))
classes = st.builds(ast.Class, names, exprs, st.lists(_class_settings | blocks, max_size=3).map(tuple))


def _bodies(members: st.SearchStrategy[ast.BodyMember]) -> st.SearchStrategy[ast.Body]:
    return st.lists(members, max_size=3).map(lambda found: ast.Body(tuple(found)))


def _rules(bodies: st.SearchStrategy[ast.Body]) -> st.SearchStrategy[ast.BodyMember]:
    return st.one_of(
        st.builds(ast.When, held, st.none() | held, st.none() | strings, bodies, st.none() | bodies),
        st.builds(ast.During, names, st.none() | quantities, bodies, st.none() | bodies),
    )


members = st.recursive(st.one_of(bindings, lets), lambda inner: _rules(_bodies(inner)), max_leaves=6)
bodies = _bodies(members)
times = st.from_regex(r"[0-9]{1,2}:[0-9]{2}", fullmatch=True).map(ast.Time)
spans = st.one_of(
    st.builds(ast.HoursSpan, names, st.none() | names, st.none(), st.none()),
    st.builds(ast.HoursSpan, names, st.none() | names, times, times),
)
policies = st.builds(
    ast.Policy, strings,
    st.lists(
        st.one_of(
            strings.map(ast.Doc), strings.map(ast.Timezone), st.builds(ast.Param, names, exprs), lets,
            st.builds(ast.Hours, names, st.lists(spans, min_size=1, max_size=3).map(tuple)), classes, blocks, bindings,
            members, st.builds(ast.Guard, held, st.none() | held, st.none() | strings, bodies),
            st.builds(ast.Each, names, names, bodies),
        ),
        max_size=5,
    ).map(tuple),
)  # fmt: skip
applied = st.builds(ast.Applied, strings, some_args)
devices = st.tuples(st.integers(0, 15), st.integers(0, 15)).map(lambda pair: ast.DeviceRange(*pair))
targets = st.one_of(devices, strings.map(ast.DeviceUuid), st.just(ast.EveryDevice()))
applies = st.builds(
    ast.Apply,
    st.lists(applied, min_size=1, max_size=3).map(tuple),
    names,
    st.lists(targets, min_size=1, max_size=3).map(tuple),
)
runs = st.builds(ast.Run, exprs, st.none() | st.integers(0, 1000))
steps = st.one_of(
    applied.map(ast.UsePolicy), strings.map(ast.Clock), strings.map(ast.Replay),
    st.builds(ast.Simulate, names, some_args),
    st.builds(ast.Attach, names, st.lists(settings_, max_size=3).map(tuple)),
    st.builds(ast.Feed, refs, quantities, st.lists(runs, min_size=1, max_size=3).map(tuple)),
    st.builds(ast.At, quantities, st.one_of(exprs.map(ast.Expect), st.builds(ast.Poke, refs, exprs))),
    st.builds(ast.Always, quantities, quantities, exprs), st.builds(ast.Eventually, exprs, exprs),
)  # fmt: skip
tests = st.builds(ast.Test, strings, st.lists(steps, max_size=5).map(tuple))
files = st.builds(
    lambda uses, items: ast.File("1", tuple(ast.Use(name) for name in uses), tuple(items)),
    st.lists(names, max_size=2),
    st.lists(st.one_of(policies, applies, tests), min_size=1, max_size=3),
)


def respelt(text: str, seed: int) -> tuple[str, list[str]]:
    """The same tokens with other spaces, breaks and comments between them, and those comments in order."""
    chance = random.Random(seed)
    tokens = scan(text)
    out, comments = [], []
    breaks = chance.choice([0.02, 0.2, 0.6])
    for kind, start, end in zip(tokens.kinds, tokens.starts, tokens.ends, strict=True):
        if kind == END:
            break
        if chance.random() < breaks:
            for _ in range(chance.randrange(3)):
                comment = f"# {len(comments)} {chance.choice(['', 'why', 'é' * 30, 'x' * 90])}".rstrip()
                comments.append(comment)
                out.append(chance.choice([" ", "", "\n", "\n\n", "  \n\t"]) + comment + "\n")
            out.append(chance.choice(["\n", "\n\n\n", "   ", "\t"]))
        out.append(text[start:end] + chance.choice([" ", "  "]))
    return "".join(out), comments


def comments_of(text: str) -> Sequence[str]:
    return [text[start:end].rstrip() for start, end in scan(text).comments]
