"""A chart as SVG, for the pictures that give their data: axes with marks at round values, series of points and lines, words."""

import dataclasses
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 64, 20, 20, 48
INK, OURS, THEIRS = "#222", "#0b62a4", "#c4501b"


def round_step(value):
    """Some eight of them make `value`."""
    ten = 10 ** math.floor(math.log10(value / 8))
    return next(ten * digit for digit in (1, 2, 5, 10) if 8 * ten * digit >= value)


def stairs(points):
    """A line that keeps the height of each point up to the next one."""
    corners = [corner for before, after in zip(points, points[1:]) for corner in (before, (after[0], before[1]))]
    return [*corners, *points[-1:]]


@dataclasses.dataclass
class Axis:
    """From `low` to `high`, with marks at multiples of `step`, which have the format `words`."""
    title: str
    low: float
    high: float
    step: float
    words: str

    @classmethod
    def from_zero(cls, title, values, words):
        high = 1.08 * max(values)
        return cls(title, 0, high, round_step(high), words)

    @classmethod
    def around(cls, title, values, step, words):
        """Ends in the middle between two marks, or at one."""
        low, high = math.floor(2 * min(values) / step), math.ceil(2 * max(values) / step)
        return cls(title, low * step / 2, max(high, low + 1) * step / 2, step, words)

    def ticks(self):
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        return [i * self.step for i in range(first, last + 1)]

    def share(self, value):
        return (value - self.low) / (self.high - self.low)


@dataclasses.dataclass
class Series:
    """`points`, pairs (x, y), and a line that need not go through all of them."""
    name: str
    fill: str
    mark: str  # "circle" or "square"
    points: list
    line: list = dataclasses.field(default_factory=list)
    dashed: bool = False
    width: float = 1


class Chart:
    def __init__(self, x, y, series):
        self.axes = x, y
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
        for value in y.ticks():
            self.row(self.y(value), "#ddd")
            self.text(LEFT - 8, self.y(value) + 4, f"{value:{y.words}}", "end")
        self.row(HEIGHT - BOTTOM, "#999")
        for value in x.ticks():
            self.text(self.x(value), HEIGHT - BOTTOM + 20, f"{value:{x.words}}")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x.title)
        self.text(LEFT, TOP - 6, y.title, "start")
        for each in series:
            self.line(each)
        for each in series:
            for point in each.points:
                self.point(*point, each)

    def x(self, value):
        return LEFT + self.axes[0].share(value) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - self.axes[1].share(value) * (HEIGHT - TOP - BOTTOM)

    def row(self, y, fill):
        self.parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{fill}"/>')

    def text(self, x, y, words, anchor="middle", fill=INK, more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{more}>{words}</text>')

    def line(self, series):
        if not series.line:
            return
        places = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in series.line)
        dashes = ' stroke-dasharray="4 3"' if series.dashed else ""
        self.parts.append(f'<polyline points="{places}" fill="none" stroke="{series.fill}" stroke-width="{series.width}"{dashes}/>')

    def point(self, x, y, series):
        x, y = self.x(x), self.y(y)
        shape = {"circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"', "square": f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"'}
        self.parts.append(f'{shape[series.mark]} fill="{series.fill}"/>')

    def label(self, point, words, shift, anchor="middle", fill=INK, size=13):
        """Beside a point, by `shift` in pixels; a pale border keeps it legible over lines."""
        border = f' font-size="{size}" stroke="white" stroke-width="3" paint-order="stroke"'
        self.text(self.x(point[0]) + shift[0], self.y(point[1]) + shift[1], words, anchor, fill, border)

    def band(self, low, high, fill):
        """All of `y` between two values of `x`, pale."""
        self.parts.append(f'<rect x="{self.x(low):.1f}" y="{TOP}" width="{self.x(high) - self.x(low):.1f}" '
                          f'height="{HEIGHT - TOP - BOTTOM}" fill="{fill}" opacity="0.08"/>')

    def legend(self, series):
        for i, each in enumerate(series):
            self.text(WIDTH - RIGHT - 6, TOP + 18 + 18 * i, each.name, "end", each.fill)

    def svg(self):
        return "\n".join([*self.parts, "</svg>\n"])
