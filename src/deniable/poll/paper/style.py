"""The frame and the style of what is printed: black on white, on A4 and on Letter."""

from __future__ import annotations

from deniable.poll.paper.words import escaped

__all__ = ["page"]

_STYLE = """
@page { margin: 14mm 16mm; }
:root { color-scheme: light; --ink: #17191c; --ink-2: #44484e; --line: #d9d9d4; }
*, *::before, *::after { box-sizing: border-box; }
body { margin: 0; background: #dcdcd7; color: var(--ink); print-color-adjust: exact;
  -webkit-print-color-adjust: exact; font: 11pt/1.45 "Segoe UI", Roboto, "Noto Sans", Cantarell,
  "Liberation Sans", Arial, system-ui, sans-serif; }
h1, h2, p, ol, ul, table { margin: 0; padding: 0; }
b, th { font-weight: 600; }
ol, ul { list-style-position: inside; }
.mono { font-family: Menlo, "Liberation Mono", Consolas, monospace; font-size: 8.5pt;
  overflow-wrap: anywhere; }
.sheet { background: #fff; max-width: 210mm; margin: 8mm auto; padding: 14mm 16mm;
  overflow-wrap: break-word; }
@media (max-width: 500px) { .sheet { padding: 6mm 5mm; } .poster .coin { display: none; }
  .poster .code { flex: 1; width: auto; }
  .poster h1, .poster h1.long { font-size: 26pt; } .kit table { font-size: 8.5pt; }
  .kit tbody th { width: auto; } .ticks, .sign { grid-template-columns: 1fr; } }
@media print { body { background: #fff; }
  .sheet { margin: 0; padding: 0; max-width: none; break-after: page; }
  .sheet:last-child { break-after: auto; } }
.kit > header { display: flex; justify-content: space-between; gap: 6mm; align-items: baseline;
  border-bottom: 0.5mm solid var(--ink); padding-bottom: 2.5mm; margin-bottom: 5mm; }
.kit h1 { font-size: 14pt; font-weight: 600; }
.kit header span, .note { font-size: 9pt; color: var(--ink-2); }
.kit h2 { font-size: 11.5pt; font-weight: 600; margin: 4.5mm 0 1.5mm; break-after: avoid; }
.kit p + p { margin-top: 1.8mm; }
.box { border: 0.4mm solid var(--ink); border-radius: 2mm; padding: 3.5mm 5mm; margin-bottom: 4mm;
  break-inside: avoid; }
.box b.big { display: block; font-size: 17pt; line-height: 1.25; }
svg { display: block; max-width: 100%; }
.odds { width: 120mm; margin-top: 3mm; } .odds .on { fill: #17191c; }
.odds .off { fill: #fff; stroke: #878a8f; stroke-width: 0.8; } svg text { font-size: 12.5px; }
.odds text { font-size: 10px; }
.flow { width: 100%; margin: 2mm 0 4mm; } .flow rect { fill: #fff; stroke: #17191c; }
.flow .a { stroke: #17191c; stroke-width: 1.4; } .flow .b { font-weight: 600; }
.kit table { width: 100%; border-collapse: collapse; font-size: 9.5pt; line-height: 1.4; }
.kit th, .kit td { text-align: start; vertical-align: top; padding: 1.6mm 3mm 1.6mm 0; }
.kit td, .kit tbody th { overflow-wrap: anywhere; }
.kit tr { break-inside: avoid; }
.kit tr + tr, .kit tbody tr { border-top: 0.25mm solid var(--line); }
.kit tbody th { width: 38mm; }
.card { border: 0.3mm solid var(--ink); border-radius: 3mm; padding: 5mm 7mm; margin-bottom: 5mm;
  break-inside: avoid; } .card.grey { background: #ecece8; }
.card header { display: flex; justify-content: space-between; } .card header b { font-size: 16pt; }
.card li { margin-top: 2mm; } .card .say { border: 0.25mm solid #878a8f; border-radius: 1.5mm;
  background: #fff; padding: 1.6mm 3mm; margin: 1.5mm 0; }
.ticks { display: grid; grid-template-columns: 1fr 1fr; gap: 3mm 5mm; margin: 4mm 0 3mm; }
.ticks span { display: grid; grid-template-columns: 7mm 1fr; gap: 3mm; align-items: center;
  font-weight: 600; border: 0.4mm solid var(--ink); border-radius: 2mm; padding: 2.5mm 3mm;
  background: #fff; }
.ticks i { width: 7mm; height: 7mm; border: 0.4mm solid var(--ink); border-radius: 1mm; }
.sign { display: grid; grid-template-columns: 1fr 1fr; gap: 12mm; margin-top: 16mm; }
.sign span { border-top: 0.3mm solid var(--ink); padding-top: 1.5mm; font-size: 9pt; }
.draft { border: 0.5mm dashed var(--ink); padding: 2mm 4mm; margin-bottom: 4mm; font-weight: 600; }
.poster { overflow: hidden; }
.poster .asker { font-size: 16pt; color: var(--ink-2); } .poster .asker b { color: var(--ink); }
.poster h1 { font-size: 52pt; line-height: 1.06; font-weight: 600; letter-spacing: -0.02em;
  margin-top: 4mm; max-width: 165mm; text-wrap: balance; }
.poster h1.long { font-size: 30pt; line-height: 1.12; }
.poster .why { font-size: 17pt; line-height: 1.35; color: var(--ink-2); margin-top: 5mm;
  max-width: 150mm; }
.poster .row { display: flex; gap: 12mm; align-items: center; margin-top: 7mm; overflow: hidden; }
.poster .coin { flex: none; width: 84mm; max-width: none; }
.poster .code { flex: none; width: 80mm; border: 0.5mm solid var(--ink); border-radius: 4mm;
  overflow: hidden; } .poster .qr { width: 100%; }
.poster .scan { font-size: 14pt; margin-top: 4mm; }
.poster .sure { font-size: 27pt; font-weight: 600; line-height: 1.15; margin-top: 8mm; }
.poster .odds { width: auto; font-size: 13.5pt; line-height: 1.35; color: var(--ink-2);
  margin-top: 2mm; max-width: 172mm; }
.poster .foot { border-top: 0.25mm solid var(--line); margin-top: 6mm; padding-top: 3mm;
  font-size: 9.5pt; color: var(--ink-2); }
"""


def page(title: str, body: str) -> str:
    """A whole document without script, which loads nothing."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta'
        ' name="viewport" content="width=device-width, initial-scale=1">\n<meta'
        ' http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src'
        f" 'unsafe-inline'\">\n<title>{escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
