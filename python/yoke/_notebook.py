"""Progress of a run: a bar, curves and the verdict in a notebook, a line on a terminal."""
import html
import math
import sys
import time

from . import _native

WIDTH, HEIGHT = 320, 160
COLORS = {"train_loss": "#1f77b4", "test_loss": "#d62728", "test_accuracy": "#2ca02c",
          "validation_loss": "#ff7f0e"}
LABELS = {"train_loss": "training loss", "test_loss": "test loss", "test_accuracy": "test accuracy",
          "validation_loss": "validation loss"}


def in_notebook():
    """Whether Python runs in a Jupyter kernel. Does not import IPython."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def view(wanted, options):
    if wanted is None:
        wanted = in_notebook() or sys.stderr.isatty()
    if not wanted or options.get("quiet"):
        return NullView()
    return Notebook(options) if in_notebook() else Terminal()


class NullView:
    wanted = False

    def progress(self, p):
        pass

    def metrics(self, m):
        pass

    def close(self):
        pass

    def fail(self):
        pass

    def finish(self, run):
        pass


class Terminal(NullView):
    wanted = True

    def progress(self, p):
        print("\r\033[K" + p["text"], end="", file=sys.stderr, flush=True)

    def close(self):
        print("\r\033[K", end="", file=sys.stderr, flush=True)


class Notebook(NullView):
    wanted = True
    every = 0.25  # seconds

    def __init__(self, options):
        from IPython.display import HTML, display
        self.html = HTML
        self.epochs = float(options.get("epochs") or _native.option_default("epochs"))
        self.steps = float(options.get("steps") or 0)
        self.curves = {name: [] for name in ("step", *COLORS)}
        self.last, self.shown = None, 0.0
        self.handle = display(HTML(self.text()), display_id=True)

    def progress(self, p):
        self.last = p
        self.show()

    def metrics(self, m):
        for name, values in self.curves.items():
            values.append(m[name])
        self.show()

    def show(self):
        if time.monotonic() - self.shown >= self.every:
            self.shown = time.monotonic()
            self.handle.update(self.html(self.text()))

    def done(self):
        """The fraction of training that is done; None if it is not known."""
        if not self.last:
            return 0.0
        part = self.last["step"] / self.steps if self.steps else self.last["epoch"] / self.epochs
        return None if math.isnan(part) else min(max(part, 0.0), 1.0)

    def text(self):
        words = html.escape(self.last["text"]) if self.last else "starting"
        done = self.done()
        value = "" if done is None else f' value="{done:.4f}"'
        return f'<progress{value} style="width:320px"></progress> <code>{words}</code>' + plots(self.curves)

    def finish(self, run):
        self.handle.update(self.html(html_of_run(run)))

    def fail(self):
        """Replaces the progress bar; the traceback has the error."""
        self.handle.update(self.html("<code>failed</code>" + plots(self.curves)))


def html_of_run(run):
    s = run.summary
    words = []
    if s.get("state") and s["state"] != "done":
        words.append(html.escape(str(s["state"])) + (": " + html.escape(s["error"]) if s.get("error") else ""))
    if s.get("steps") is not None and s.get("seconds") is not None:
        words.append(f"{s['steps']:,} steps in {s['seconds']:.2f} s")
    for name, label in LABELS.items():
        if s.get(name) is not None:
            words.append(f"{label} {s[name]:.4f}")
    text = f"<div><b>{html.escape(str(s.get('model')))}</b>: {', '.join(words)}</div>"
    if run.verdict:
        text += f"<div>{html.escape(run.verdict)}</div>"
    if run.directory:
        text += f"<div><code>{html.escape(run.directory)}</code></div>"
    return text + plots({name: list(run.curves[name]) for name in ("step", *COLORS)})


def plots(curves):
    return plot(curves, ("train_loss", "test_loss", "validation_loss")) + plot(curves, ("test_accuracy",))


def plot(curves, names):
    """One SVG of some curves over the steps; "" with fewer than two points."""
    series = {name: [(x, y) for x, y in zip(curves["step"], curves[name]) if not math.isnan(y)] for name in names}
    points = [p for s in series.values() for p in s]
    if max((len(s) for s in series.values()), default=0) < 2:
        return ""
    x0, x1 = min(x for x, _ in points), max(x for x, _ in points)
    y0, y1 = min(y for _, y in points), max(y for _, y in points)
    left, bottom, top = 45, HEIGHT - 20, 20

    def at(x, y):
        return (f"{left + (x - x0) / ((x1 - x0) or 1) * (WIDTH - left - 5):.1f},"
                f"{bottom - (y - y0) / ((y1 - y0) or 1) * (bottom - top):.1f}")

    svg = [f'<svg width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="10" '
           f'xmlns="http://www.w3.org/2000/svg">',
           f'<path d="M{left},{top}V{bottom}H{WIDTH - 5}" fill="none" stroke="#888"/>',
           f'<text x="2" y="{bottom}" fill="#888">{y0:.4g}</text><text x="2" y="{top + 8}" fill="#888">{y1:.4g}</text>',
           f'<text x="{WIDTH - 5}" y="{HEIGHT - 5}" text-anchor="end" fill="#888">step {x1:,.0f}</text>']
    for i, (name, s) in enumerate(series.items()):
        if s:
            svg.append(f'<polyline points="{" ".join(at(*p) for p in s)}" fill="none" stroke="{COLORS[name]}"/>'
                       f'<text x="{left + 5 + 90 * i}" y="12" fill="{COLORS[name]}">{LABELS[name]}</text>')
    return "".join(svg) + "</svg>"
