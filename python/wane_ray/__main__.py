"""python3 -m wane_ray: what `wane table build --ray ADDRESS` runs, with the options of `wane table build`."""
import argparse
import os
import shutil
import signal
import sys

from .drive import Cluster, Options, RayBuildError, build

# Options of the last merge that are handed on as they are: with a value, and without.
VALUES = ("depth min-stability min-share min-seen follow max-entries output report sweep model backends config").split()
SWITCHES = "phrases stamp partial json offline".split()
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text):
    number = text[:-1] if text[-1:] in UNITS else text
    if not number.isdigit() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no size: a number of bytes, or with K, M or G")
    return int(number) * UNITS.get(text[-1:], 1)


def count_of(text):
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is no number")
    return int(text)


def parser():
    p = argparse.ArgumentParser(prog="python3 -m wane_ray", description="Build a table of traces on a Ray cluster.", allow_abbrev=False)
    p.add_argument("traces", nargs="*", metavar="TRACE", help="a trace, a folder of them, or an fsspec address of either")
    p.add_argument("--log-file", action="append", default=[], metavar="TRACE", help="the same")
    p.add_argument("--ray", required=True, metavar="ADDRESS", help="auto: the cluster that is there; local: one of this machine; or HOST:PORT")
    p.add_argument("--ray-work", metavar="PLACE", help="where parts are kept: a shared folder, or an fsspec address; default: OUTPUT.parts")
    p.add_argument("--ray-shard", type=size_of, default=1 << 30, metavar="BYTES", help="traces of one task (1G)")
    p.add_argument("--ray-tasks", type=count_of, default=0, metavar="N", help="tasks at once; 0: twice the cluster's cores")
    p.add_argument("--ray-fan-in", type=count_of, default=0, metavar="N", help="parts of one merge; 0: 16 with --samples, else 256")
    p.add_argument("--wane", default=shutil.which("wane") or "wane", help="the program, here and on the nodes")
    for name in ("window", "samples", "vocab-size"):
        p.add_argument(f"--{name}", type=count_of, metavar="N")
    p.add_argument("--memory", type=size_of, default=512 << 20, metavar="BYTES")
    p.add_argument("--temporary", metavar="FOLDER")
    for name in VALUES:
        p.add_argument(f"--{name}", metavar="VALUE")
    for name in SWITCHES:
        p.add_argument(f"--{name}", action="store_true")
    return p


def merge_words(args):
    words = [f"--{name}={getattr(args, name.replace('-', '_'))}" for name in VALUES if getattr(args, name.replace("-", "_")) is not None]
    words += [f"--{name}" for name in SWITCHES if getattr(args, name)]
    return words + ([f"--vocab-size={args.vocab_size}"] if args.vocab_size else [])


def main(argv):
    p = parser()
    args = p.parse_intermixed_args(argv)
    traces = args.log_file + args.traces
    if not traces:
        p.error("there are no traces: --log-file FILE, or a folder of them")
    if not args.ray_work and not args.output:
        p.error("without --output, --ray-work says where parts are kept")
    if not os.access(args.wane, os.X_OK):
        p.error(f"there is no program {args.wane}: --wane says where it is")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cluster = None
    try:
        options = Options(traces, args.ray_work or f"{args.output}.parts", args.wane,
                          {"window": args.window, "samples": args.samples, "vocab-size": args.vocab_size}, merge_words(args),
                          shard=args.ray_shard, tasks=args.ray_tasks, fan_in=args.ray_fan_in, memory=args.memory, temporary=args.temporary)
        cluster = Cluster(args.ray)
        return build(options, cluster)[0]
    except RayBuildError as why:
        print(f"wane: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("wane: interrupted; the parts that are done stay, and the same command goes on from there", file=sys.stderr)
        return 130
    finally:
        if cluster is not None:
            cluster.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
