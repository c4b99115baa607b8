"""strobe measures whether vision models flicker: right on one frame, wrong on the next that looks the same."""
