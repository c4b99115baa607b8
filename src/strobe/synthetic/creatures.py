"""Six animals, each drawn from a few parts whose proportions vary."""

import numpy as np

from strobe.synthetic.painter import Look, Painter, Points, arc, ellipse, smooth, turned


def _eye(painter: Painter, look: Look, x: float, y: float, radius: float) -> None:
    painter.part(ellipse(x, y, radius, radius), look, colour=(0.97, 0.97, 0.95), shade=0.0, rim=0.0)
    painter.part(ellipse(x + 0.25 * radius, y, 0.55 * radius, 0.55 * radius), look, colour=(0.05, 0.05, 0.08), rim=0.0)


def _both(points: Points) -> tuple[Points, Points]:
    """The points and their mirror image across the vertical axis."""
    return points, points * (-1, 1)


def fish(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A fish from the side, facing right."""
    deep, tail = rng.uniform(0.38, 0.58), rng.uniform(0.3, 0.5)
    painter.part(
        smooth([(-0.45, 0), (-0.75, -tail), (-0.95, -tail - 0.05), (-0.82, 0), (-0.95, tail + 0.05), (-0.75, tail)]),
        look, texture="plain",
    )  # fmt: skip
    painter.part(smooth([(-0.3, -0.7 * deep), (-0.05, -deep - 0.28), (0.3, -deep - 0.1), (0.35, -0.6 * deep)]), look,
                 texture="plain", colour=look.second)  # fmt: skip
    painter.part(smooth([(-0.1, 0.7 * deep), (-0.15, deep + 0.22), (0.2, 0.8 * deep)]), look, colour=look.second)
    body = smooth([(-0.62, 0.0), (-0.25, -0.85 * deep), (0.3, -deep), (0.78, -0.4 * deep), (0.92, 0.02),
                   (0.78, 0.4 * deep), (0.3, deep), (-0.25, 0.85 * deep)])  # fmt: skip
    painter.part(body, look)
    painter.part(smooth([(0.12, 0.02), (-0.2, -0.04), (-0.32, 0.16), (-0.14, 0.26)]), look, colour=look.second)
    painter.line(arc(0.28, 0.0, 0.2, 0.8 * deep, -1.0, 1.0), look, width=0.035)
    painter.line(np.array([[0.9, 0.1], [0.74, 0.13]]), look, width=0.035)
    _eye(painter, look, 0.66, -0.35 * deep, 0.1)


def bird(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A perching bird from the side, facing right."""
    plump, tail = rng.uniform(0.36, 0.48), rng.uniform(0.75, 0.98)
    for x in (-0.02, 0.14):
        painter.line(np.array([[x, 0.3], [x + 0.03, 0.8], [x + 0.17, 0.82]]), look, width=0.05)
        painter.line(np.array([[x + 0.03, 0.8], [x - 0.09, 0.84]]), look, width=0.05)
    painter.part(np.array([[-0.35, 0.0], [-tail, 0.22], [-tail + 0.06, 0.42], [-0.25, 0.25]]), look, colour=look.second)
    painter.part(np.array([[0.62, -0.52], [0.98, -0.4], [0.62, -0.3]]), look, colour=(0.95, 0.65, 0.12), rim=0.2)
    painter.part(
        smooth([(-0.5, 0.08), (-0.2, -0.3), (0.15, -0.45), (0.3, -0.2), (0.45, 0.05), (0.3, plump), (0.0, plump + 0.08),
                (-0.32, 0.3)]),
        look, texture="plain",
    )  # fmt: skip
    painter.part(ellipse(0.42, -0.42, 0.27, 0.26), look, texture="plain")
    wing = smooth([(0.18, -0.12), (-0.15, -0.18), (-0.62, 0.16), (-0.3, 0.24), (0.1, 0.2)])
    painter.part(wing, look, texture=look.texture if look.texture != "plain" else "bands")
    painter.line(np.array([[-0.05, 0.12], [-0.4, 0.16]]), look, width=0.03)
    _eye(painter, look, 0.5, -0.47, 0.075)


def butterfly(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A butterfly from above, head up."""
    wide, low = rng.uniform(0.8, 0.96), rng.uniform(0.5, 0.75)
    hind = smooth([(0.05, 0.05), (0.45, 0.08), (0.68, 0.35), (0.5, low + 0.15), (0.22, 0.6)])
    fore = smooth([(0.04, 0.1), (0.06, -0.3), (0.5, -0.8), (wide, -0.78), (wide - 0.06, -0.3), (0.55, 0.08)])
    for wing in (hind, fore):
        for side in _both(wing):
            painter.part(side, look, rim=0.75)
    radius = rng.uniform(0.09, 0.15)
    for x, y, r in ((0.58, -0.5, radius), (0.4, 0.38, 0.8 * radius)):
        for sign in (-1, 1):
            painter.part(ellipse(sign * x, y, r, r), look, colour=look.dark, rim=0.0)
            painter.part(ellipse(sign * x, y, 0.45 * r, 0.45 * r), look, colour=(0.95, 0.95, 0.9), rim=0.0)
    for side in _both(np.array([[0.02, -0.38], [0.1, -0.66], [0.24, -0.86]])):
        painter.line(side, look, width=0.03)
    painter.part(ellipse(0, 0.05, 0.075, 0.5), look, colour=look.dark)
    painter.part(ellipse(0, -0.42, 0.085, 0.09), look, colour=look.dark)


def beetle(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A ladybird from above, head up."""
    wide = rng.uniform(0.55, 0.7)
    for y, reach in ((-0.3, 0.3), (0.05, 0.34), (0.4, 0.28)):
        bend = 0.12 if y > 0 else -0.12
        for leg in _both(np.array([[0.3, y], [wide + 0.5 * reach, y + bend], [wide + reach, y + 3 * bend]])):
            painter.line(leg, look, width=0.07)
    for feeler in _both(np.array([[0.1, -0.75], [0.22, -0.92], [0.34, -0.95]])):
        painter.line(feeler, look, width=0.04)
    painter.part(ellipse(0, -0.62, 0.3, 0.22), look, colour=look.dark)
    painter.part(ellipse(0, -0.42, 0.47, 0.27), look, colour=look.dark)
    for eye in (-0.22, 0.22):
        painter.part(ellipse(eye, -0.55, 0.09, 0.07), look, colour=(0.95, 0.95, 0.9), rim=0.0)
    painter.part(ellipse(0, 0.13, wide, 0.68), look)
    painter.line(np.array([[0.0, -0.5], [0.0, 0.8]]), look, width=0.04)


def turtle(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A turtle from above, head up."""
    long, skin = rng.uniform(0.56, 0.66), look.second
    painter.part(np.array([[-0.08, 0.5], [0.0, 0.95], [0.08, 0.5]]), look, colour=skin)
    for x, y, angle in ((0.5, -0.42, -0.7), (0.46, 0.46, 0.8)):
        for flipper in _both(ellipse(x, y, 0.36, 0.15, angle=angle)):
            painter.part(flipper, look, colour=skin)
    painter.part(ellipse(0, -0.72, 0.17, 0.24), look, colour=skin)
    for eye in (-0.1, 0.1):
        painter.part(ellipse(eye, -0.8, 0.045, 0.045), look, colour=(0.04, 0.04, 0.06), rim=0.0)
    painter.part(ellipse(0, 0.02, 0.54, long), look, colour=look.dark)
    painter.part(ellipse(0, 0.02, 0.49, long - 0.05), look)
    hexagon = turned(np.array([[np.cos(a), np.sin(a)] for a in np.linspace(0, 2 * np.pi, 7)]), 0.52)
    for scale in (0.2, 0.32):
        painter.line(hexagon * (scale, scale * 1.15) + np.array([0.0, 0.02]), look, width=0.035)
    for angle in np.linspace(0, 2 * np.pi, 7)[:-1] + 0.52:
        direction = np.array([np.cos(angle), 1.15 * np.sin(angle)])
        painter.line(np.stack([direction * 0.32, direction * 0.47]) + np.array([0.0, 0.02]), look, width=0.035)


def snail(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A snail from the side, facing right."""
    turns, flesh = rng.uniform(2.2, 3.2), look.second
    painter.part(
        smooth([(-0.95, 0.72), (-0.6, 0.5), (0.2, 0.46), (0.48, 0.2), (0.52, -0.12), (0.72, -0.2), (0.86, -0.02),
                (0.8, 0.4), (0.6, 0.72), (-0.2, 0.76)]),
        look, colour=flesh,
    )  # fmt: skip
    for x, lean in ((0.6, -0.06), (0.78, 0.1)):
        painter.line(np.array([[x, -0.1], [x + lean, -0.48]]), look, width=0.055, colour=flesh)
        painter.part(ellipse(x + lean, -0.52, 0.06, 0.06), look, colour=look.dark, rim=0.0)
    painter.part(ellipse(-0.18, 0.0, 0.6, 0.6), look, shade=0.5)
    around = np.linspace(0, 2 * np.pi * turns, 90)
    radius = 0.56 * (1 - around / around[-1]) ** 0.8
    spiral = np.stack([-0.18 + radius * np.cos(around + 0.8), radius * np.sin(around + 0.8)], axis=1)
    painter.line(spiral, look, width=0.06)
    painter.line(np.array([[0.78, 0.14], [0.68, 0.18]]), look, width=0.03)
