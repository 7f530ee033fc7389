"""A small writer of SVG: elements with attributes, escaped; nothing more."""

from xml.sax.saxutils import escape, quoteattr

Value = str | float | int


class Svg:
    """One drawing, built from top to bottom."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="system-ui, sans-serif" font-size="13">'
        )
        self._parts = [f"<title>{escape(title)}</title>"]
        self.rect(0, 0, width, height, fill="#ffffff")

    def element(self, name: str, **attributes: Value) -> None:
        """An empty element; `_` in attribute names stands for `-`."""
        self._parts.append(f"<{name}{_attributes(attributes)}/>")

    def rect(self, x: float, y: float, width: float, height: float, **attributes: Value) -> None:
        """A rectangle."""
        self.element("rect", x=x, y=y, width=width, height=height, **attributes)

    def line(self, x1: float, y1: float, x2: float, y2: float, **attributes: Value) -> None:
        """A straight line."""
        self.element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)

    def dot(self, x: float, y: float, radius: float, **attributes: Value) -> None:
        """A circle."""
        self.element("circle", cx=x, cy=y, r=radius, **attributes)

    def path(self, points: list[tuple[float, float]], **attributes: Value) -> None:
        """A polyline."""
        self.element("polyline", points=" ".join(f"{_number(x)},{_number(y)}" for x, y in points), **attributes)

    def text(self, x: float, y: float, words: str, **attributes: Value) -> None:
        """One line of text, its baseline at y."""
        attributes.setdefault("fill", "#1f2328")
        self._parts.append(f"<text{_attributes({'x': x, 'y': y, **attributes})}>{escape(words)}</text>")

    def render(self) -> str:
        """The whole document."""
        return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', self._head, *self._parts, "</svg>", ""])


def _attributes(attributes: dict[str, Value]) -> str:
    return "".join(f" {name.replace('_', '-')}={quoteattr(_value(value))}" for name, value in attributes.items())


def _value(value: Value) -> str:
    return value if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
