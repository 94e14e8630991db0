"""
A look at the parts, as a notebook would have it: what each level of the head leaves, a governor's states along a reply, a table's drafts. Writes look.svg
where matplotlib is installed (pip install './python[plot]'); prints the numbers in any case.

    python python/examples/look.py [--small] [--output look.svg]
"""
import argparse
import tempfile

import numpy as np

import wane

# %% A head: rows left by each level, for rows that are more and more sure


def levels(small):
    """For each share of a known direction in the hidden row: rows left after level 1, after level 2, computed."""
    rng = np.random.default_rng(3)
    vocab_size, d = (4000, 64) if small else (50000, 256)
    weights = rng.standard_normal((vocab_size, d), dtype=np.float32)
    size = np.float32(3) / np.sqrt(1 + np.arange(d, dtype=np.float32) / 4)
    sample = rng.standard_normal((1000, d), dtype=np.float32) * size
    found = []
    with wane.Head(weights, sample=sample) as head:
        for sure in np.linspace(0, 3, 7):
            before, rows = head.work, 10 if small else 40
            aim = weights[rng.integers(vocab_size, size=rows)] * size
            head.topk(sample[:rows] + np.float32(sure) * aim / 4)
            after = head.work
            found.append((sure, *((getattr(after, name) - getattr(before, name)) / rows for name in ("survivors1", "survivors2", "rescored"))))
    return np.array(found), vocab_size


# %% A governor: entropy along a reply, and the state that each token is drawn in


def states(small):
    rng = np.random.default_rng(4)
    profile = wane.Profile(model="0" * 32, signal="entropy", sign=-1, peak=-1.0, low=-4.5)
    found = []
    with wane.Governor(profile) as governor:
        for i in range(40 if small else 120):
            heat = 4 + 3 * np.sin(i / 9) + rng.normal()
            row = (max(heat, 0.5) * rng.gumbel(size=3000)).astype(np.float32)
            steer = governor.see(row)
            found.append((wane.signals(row).entropy, steer.state))
            governor.take(int(row.argmax()))
    return found


# %% A table: recorded replies, and how sure it is of what follows


def drafts(small):
    origin = wane.Origin("0" * 32, "1" * 32, 1000)
    with tempfile.TemporaryDirectory() as folder:
        with wane.Tracer(folder + "/traces", origin) as tracer:
            for n in range(6 if small else 20):
                with tracer.request([1, 2, 3], seed=n) as traced:
                    for i in range(20):
                        row = np.zeros(1000, np.float32)
                        token = 100 + i + (500 if i > 8 + n % 12 else 0)  # replies part one after another
                        row[token] = 15
                        traced.token(token, row)
                    traced.end()
        wane.Table.build([folder + "/traces"], folder + "/table", min_stability=-1.0, min_share=0.0)
        with wane.Table(folder + "/table") as table:
            context, found = wane.Context([1, 2, 3]), []
            for i in range(9):
                draft = table.draft(context, 16)
                found.append((i, len(draft), float(np.prod(draft.chances[:4])) if len(draft) else 0.0))
                context.add(100 + i)
    return found


# %% All of it on one page


def plot(output, head, vocab_size, reply, table):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    for column, label in ((1, "after level 1"), (2, "after level 2"), (3, "computed")):
        axes[0].semilogy(head[:, 0], np.maximum(head[:, column], 0.1), marker="o", label=label)
    axes[0].axhline(vocab_size, color="grey", linestyle=":", label="the whole product")
    axes[0].set(title="Head: rows left", xlabel="how much the best token stands out", ylabel="rows")
    axes[0].legend(fontsize=8)
    colours = {"normal": "tab:grey", "locked": "tab:green", "explore": "tab:orange", "protect": "tab:red"}
    axes[1].plot([e for e, _ in reply], color="lightgrey", zorder=0)
    for state, colour in colours.items():
        at = [i for i, (_, s) in enumerate(reply) if s == state]
        axes[1].scatter(at, [reply[i][0] for i in at], s=12, color=colour, label=state)
    axes[1].set(title="Governor: states along a reply", xlabel="token", ylabel="entropy, nats")
    axes[1].legend(fontsize=8)
    axes[2].bar([i for i, _, _ in table], [n for _, n, _ in table], color="tab:blue")
    axes[2].set(title="Table: tokens drafted", xlabel="tokens into the reply", ylabel="tokens")
    figure.savefig(output)


def main():
    parser = argparse.ArgumentParser(description="How the parts of wane look at work")
    parser.add_argument("--small", action="store_true", help="less of it, for a test")
    parser.add_argument("--output", default="look.svg")
    options = parser.parse_args()
    head, vocab_size = levels(options.small)
    reply, table = states(options.small), drafts(options.small)
    print("stands out   level 1   level 2  computed")
    for sure, *left in head:
        print(f"{sure:10.1f}" + "".join(f"{n:10.1f}" for n in left))
    print("states:", {state: sum(s == state for _, s in reply) for state in ("normal", "locked", "explore", "protect")})
    print("drafts:", ", ".join(f"{n} tokens" for _, n, _ in table))
    try:
        plot(options.output, head, vocab_size, reply, table)
        print("written:", options.output)
    except ImportError:
        print("no matplotlib: pip install './python[plot]' for the picture")


if __name__ == "__main__":
    main()
