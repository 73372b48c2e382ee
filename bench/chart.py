"""A chart as SVG: axes with marks at round values, points, lines and words."""

import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 64, 20, 20, 48
INK, OURS, THEIRS = "#222", "#0b62a4", "#c4501b"


def ticks(low, high, step):
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


class Chart:
    """`x` and `y`: (low, high, step) of an axis, whose marks `x_words` and `y_words` write."""

    def __init__(self, x, y, x_words, y_words):
        self.axes = x, y
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
        for value in ticks(*y):
            self.parts.append(f'<path d="M{LEFT} {self.y(value):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
            self.text(LEFT - 8, self.y(value) + 4, y_words(value), "end")
        for value in ticks(*x):
            self.text(self.x(value), HEIGHT - BOTTOM + 20, x_words(value))

    def x(self, value):
        low, high, _ = self.axes[0]
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high, _ = self.axes[1]
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def titles(self, below, above):
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, below)
        self.text(LEFT, TOP - 6, above, "start")

    def text(self, x, y, words, anchor="middle", fill=INK, size=None):
        font = f' font-size="{size}"' if size else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{font}>{words}</text>')

    def line(self, points, fill, dashed=False, width=1):
        places = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        thick = f' stroke-width="{width}"' if width != 1 else ""
        self.parts.append(f'<polyline points="{places}" fill="none" stroke="{fill}"{dashes}{thick}/>')

    def band(self, low, high, fill):
        """All of `y` between two values of `x`, pale."""
        self.parts.append(f'<rect x="{self.x(low):.1f}" y="{TOP}" width="{self.x(high) - self.x(low):.1f}" '
                          f'height="{HEIGHT - TOP - BOTTOM}" fill="{fill}" opacity="0.08"/>')

    def circle(self, x, y, fill):
        self.parts.append(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="4" fill="{fill}"/>')

    def square(self, x, y, fill):
        self.parts.append(f'<rect x="{self.x(x) - 4:.1f}" y="{self.y(y) - 4:.1f}" width="8" height="8" fill="{fill}"/>')

    def legend(self, entries):
        for i, (words, fill) in enumerate(entries):
            self.text(WIDTH - RIGHT - 6, TOP + 18 + 18 * i, words, "end", fill)

    def svg(self):
        return "\n".join([*self.parts, "</svg>\n"])
