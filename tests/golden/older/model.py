import numpy as np


def make():
    def scores(images):
        out = np.zeros((len(images), 2))
        for row, image in enumerate(images):
            out[row, int(np.asarray(image, dtype=float).mean() * 37) % 2] = 1.0
        return out

    return scores, ["tench", "goldfish"]
