"""Six inanimate objects, each drawn from a few parts whose proportions vary."""

import numpy as np

from strobe.synthetic.painter import Look, Painter, arc, ellipse, smooth

_GLASS = (0.72, 0.86, 0.93)
_WOOD = (0.5, 0.33, 0.18)


def car(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A car from the side, facing right."""
    roof, bonnet = rng.uniform(-0.62, -0.45), rng.uniform(0.45, 0.6)
    painter.part(
        smooth([(-0.72, -0.02), (-0.5, roof), (-0.05, roof - 0.06), (0.25, roof + 0.04), (bonnet, 0.0), (0.3, 0.12),
                (-0.5, 0.12)]),
        look, texture="plain",
    )  # fmt: skip
    painter.part(
        smooth([(-0.95, 0.1), (-0.9, -0.08), (-0.3, -0.12), (0.4, -0.1), (0.88, 0.02), (0.96, 0.2), (0.95, 0.42),
                (0.3, 0.47), (-0.6, 0.47), (-0.93, 0.4)]),
        look,
    )  # fmt: skip
    glass = roof + 0.11
    painter.part(np.array([[-0.5, -0.1], [-0.36, glass], [-0.1, glass - 0.03], [-0.1, -0.1]]), look, colour=_GLASS,
                 rim=0.15)  # fmt: skip
    painter.part(np.array([[0.0, -0.1], [0.0, glass - 0.03], [0.2, glass + 0.02], [0.4, -0.1]]), look, colour=_GLASS,
                 rim=0.15)  # fmt: skip
    painter.part(ellipse(0.88, 0.14, 0.07, 0.07), look, colour=(0.99, 0.93, 0.6), rim=0.0)
    painter.part(ellipse(-0.91, 0.14, 0.05, 0.06), look, colour=(0.85, 0.12, 0.1), rim=0.0)
    painter.line(np.array([[-0.05, -0.05], [-0.05, 0.4]]), look, width=0.025)
    for x in (-0.52, 0.55):
        painter.part(ellipse(x, 0.47, 0.23, 0.23), look, colour=(0.07, 0.07, 0.08), rim=0.3)
        painter.part(ellipse(x, 0.47, 0.11, 0.11), look, colour=(0.75, 0.76, 0.78), rim=0.3)


def boat(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A sailing boat from the side."""
    lean, top = rng.uniform(-0.05, 0.1), rng.uniform(-0.95, -0.85)
    painter.line(np.array([[0.0, 0.45], [lean, top]]), look, width=0.05, colour=_WOOD)
    painter.part(
        smooth([(0.05 + lean, top + 0.06), (0.25, -0.5), (0.62, 0.0), (0.7, 0.24), (0.3, 0.3), (0.06, 0.28)]), look
    )
    painter.part(np.array([[-0.05 + lean, top + 0.14], [-0.05, 0.28], [-0.55, 0.26]]), look, colour=look.second)
    painter.part(np.array([[lean, top], [lean - 0.26, top + 0.05], [lean, top + 0.12]]), look,
                 colour=(0.85, 0.15, 0.12), rim=0.0)  # fmt: skip
    hull = smooth([(-0.92, 0.4), (-0.5, 0.43), (0.4, 0.43), (0.96, 0.36), (0.78, 0.68), (0.45, 0.86), (-0.4, 0.86),
                   (-0.76, 0.7)])  # fmt: skip
    painter.part(hull, look, colour=look.main)
    painter.line(np.array([[-0.8, 0.56], [0.82, 0.54]]), look, width=0.06, colour=(0.95, 0.95, 0.92))


def mug(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A mug with its handle on the right."""
    wide, taper = rng.uniform(0.48, 0.6), rng.uniform(0.0, 0.12)
    painter.line(arc(wide - 0.05, 0.05, 0.4, 0.38, -1.5, 1.5), look, width=0.15, colour=look.main)
    body = np.array([[-wide, -0.6], *arc(0, 0.66, wide - taper, 0.16, np.pi, 0.0).tolist(), [wide, -0.6]])
    painter.part(body, look, rim=0.5)
    painter.part(ellipse(0, -0.6, wide, 0.17), look, colour=look.main, rim=0.2)
    painter.part(ellipse(0, -0.58, wide - 0.09, 0.115), look, colour=(0.24, 0.14, 0.08), rim=0.0)
    for x in (-0.15, 0.12):
        painter.line(np.array([[x, -0.76], [x + 0.05, -0.84], [x - 0.02, -0.95]]), look, width=0.03,
                     colour=(0.9, 0.9, 0.92))  # fmt: skip


def mushroom(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A mushroom."""
    wide, thick = rng.uniform(0.75, 0.94), rng.uniform(0.17, 0.28)
    pale = (0.93, 0.89, 0.8)
    painter.part(smooth([(-thick, 0.0), (thick, 0.0), (thick + 0.03, 0.5), (thick + 0.12, 0.88), (0.0, 0.93),
                         (-thick - 0.12, 0.88), (-thick - 0.03, 0.5)]), look, colour=pale)  # fmt: skip
    painter.part(ellipse(0, 0.06, 0.86 * wide, 0.15), look, colour=(0.7, 0.62, 0.5))
    for x in np.linspace(-0.6, 0.6, 7):
        painter.line(np.array([[x * wide, 0.07], [0.55 * x * wide, 0.17]]), look, width=0.02)
    cap = np.concatenate([arc(0, 0.05, wide, 0.92, np.pi, 2 * np.pi), arc(0, 0.05, wide, 0.1, 0.0, np.pi)])
    painter.part(cap, look)
    painter.line(np.array([[-thick, 0.35], [0.0, 0.42], [thick, 0.35]]), look, width=0.07, colour=pale)


def rocket(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A rocket, nose up."""
    wide, flame = rng.uniform(0.26, 0.36), rng.uniform(0.82, 0.98)
    painter.part(smooth([(-0.17, 0.55), (0.17, 0.55), (0.13, 0.75), (0.0, flame), (-0.13, 0.75)]), look,
                 colour=(0.98, 0.6, 0.1), rim=0.0)  # fmt: skip
    painter.part(smooth([(-0.08, 0.55), (0.08, 0.55), (0.0, flame - 0.16)]), look, colour=(1.0, 0.93, 0.5), rim=0.0)
    for sign in (-1, 1):
        fin = np.array([[sign * (wide - 0.08), 0.1], [sign * (wide + 0.3), 0.48], [sign * (wide + 0.28), 0.7],
                        [sign * (wide - 0.12), 0.5]])  # fmt: skip
        painter.part(fin, look, colour=look.second)
    painter.part(smooth([(0.0, -0.97), (0.62 * wide, -0.6), (wide, -0.1), (0.8 * wide, 0.58), (-0.8 * wide, 0.58),
                         (-wide, -0.1), (-0.62 * wide, -0.6)]), look)  # fmt: skip
    painter.part(smooth([(0.0, -0.97), (0.34 * wide, -0.78), (0.62 * wide, -0.56), (0.0, -0.5), (-0.62 * wide, -0.56),
                         (-0.34 * wide, -0.78)]), look, colour=look.second)  # fmt: skip
    painter.part(ellipse(0, -0.18, 0.19, 0.19), look, colour=look.dark, rim=0.0)
    painter.part(ellipse(0, -0.18, 0.14, 0.14), look, colour=_GLASS, rim=0.2)


def balloon(painter: Painter, look: Look, rng: np.random.Generator) -> None:
    """A hot-air balloon."""
    wide = rng.uniform(0.56, 0.68)
    for x in (-1, 1):
        painter.line(np.array([[x * 0.34, 0.25], [x * 0.15, 0.7]]), look, width=0.03)
        painter.line(np.array([[x * 0.12, 0.32], [x * 0.06, 0.7]]), look, width=0.03)
    painter.part(smooth([(0.0, -0.96), (0.75 * wide, -0.76), (wide, -0.32), (0.72 * wide, 0.1), (0.24, 0.42),
                         (-0.24, 0.42), (-0.72 * wide, 0.1), (-wide, -0.32), (-0.75 * wide, -0.76)]), look)  # fmt: skip
    for share in (-0.5, 0.5):
        seam = arc(0, -0.3, share * wide, 0.68, -np.pi / 2, np.pi / 2)
        painter.line(seam, look, width=0.025)
    painter.part(np.array([[-0.2, 0.66], [0.2, 0.66], [0.16, 0.95], [-0.16, 0.95]]), look, colour=_WOOD)
    painter.line(np.array([[-0.2, 0.67], [0.2, 0.67]]), look, width=0.05, colour=(0.3, 0.19, 0.1))
