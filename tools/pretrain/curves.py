"""Draws run/curve.json as run/curve.svg: training loss over tokens, the long phase and the two decays."""

import json
from pathlib import Path

RUN = Path(__file__).parent / "run"
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 300, 48, 36
COLOURS = {"stable": "#4269d0", "few": "#3ca951", "many": "#ff725c"}


def main() -> None:
    rows = json.loads((RUN / "curve.json").read_text())
    end = max(row["tokens"] for row in rows if row["phase"] == "stable")
    offset = {"stable": 0, "few": end, "many": end}
    total, low, high = max(row["tokens"] + offset[row["phase"]] for row in rows), 0.5, 1.0
    x = lambda tokens: LEFT + tokens / total * (WIDTH - LEFT - 12)
    y = lambda loss: 12 + (high - min(loss, high)) / (high - low) * (HEIGHT - BOTTOM - 12)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for step in range(6):
        loss = low + (high - low) * step / 5
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 12}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#ddd"/><text x="{LEFT - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.2f}</text>')
    for millions in range(0, int(total / 1e6) + 1, 100):
        parts.append(f'<text x="{x(millions * 1e6):.1f}" y="{HEIGHT - 18}" text-anchor="middle">{millions}M</text>')
    for at, (phase, colour) in enumerate(COLOURS.items()):
        points = " ".join(f"{x(row['tokens'] + offset[phase]):.1f},{y(row['loss']):.1f}" for row in rows if row["phase"] == phase)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        label = {"stable": "constant rate", "few": "decay, few additions", "many": "decay, more additions"}[phase]
        parts.append(f'<rect x="{WIDTH - 190}" y="{24 + 16 * at}" width="12" height="4" fill="{colour}"/><text x="{WIDTH - 172}" y="{30 + 16 * at}">{label}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 4}" text-anchor="middle">training tokens</text><text x="{LEFT}" y="9">loss per token</text></svg>')
    (RUN / "curve.svg").write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
