"""Enrols variants of llama.cpp as references, then identifies each of them again, blind, with other noise.

    python run.py --lastbit target/release/lastbit --gguf MODEL.gguf

Prints a Markdown table: what was named for each variant, in how many requests. Needs `xllamacpp` in the Python that runs it. A line "same class"
names variants that no probe separated: that is an answer, not a failure.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
# KV cache, fused attention. What is known to be equal (fused: f16 and f32 caches) must come out as one class.
VARIANTS = [("f16", "on"), ("f32", "on"), ("q8_0", "on"), ("f16", "off"), ("f32", "off")]


class Server:
    """A variant, for as long as a `with` block lasts."""

    def __init__(self, gguf, kv, flash):
        self.command = [sys.executable, HERE / "llama_server.py", gguf, "--kv", kv, "--flash", flash]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return self.process.stdout.readline().strip()

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lastbit", required=True)
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--probes", default="8")
    parser.add_argument("--tokens", default="8")
    parser.add_argument("--probe-seed", default="20261130")
    parser.add_argument("--batches", default="1,2,4")
    args = parser.parse_args()

    def lastbit(*words, codes=(0,)):
        done = subprocess.run([args.lastbit, "fingerprint", *words, "--json"], capture_output=True, text=True)
        if done.returncode not in codes:
            sys.exit(f"{words}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout)

    probes = ["--probes", args.probes, "--tokens", args.tokens, "--probe-seed", args.probe_seed]
    with tempfile.TemporaryDirectory() as library:
        for kv, flash in VARIANTS:
            stack = f"format=kv:{kv},engine=llama.cpp,version=xllamacpp,backend=flash-{flash},hardware=cpu"
            with Server(args.gguf, kv, flash) as url:
                lastbit("enroll", url, "--library", library, "--stack", stack, "--batches", args.batches, *probes)
        print("| variant | named | requests |\n|---|---|---:|")
        for kv, flash in VARIANTS:
            with Server(args.gguf, kv, flash) as url:
                report = lastbit("identify", url, "--library", library, codes=(0, 2))
            print(f"| KV {kv}, fused attention {flash} | {report['verdict']} | {report['cost']['requests']} |", flush=True)
        classes = next(s for s in report["sections"] if s["title"] == "classes")
        for finding in classes["findings"]:
            print(f"\n{finding['about']}: {finding['says']}")


if __name__ == "__main__":
    main()
