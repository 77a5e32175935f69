"""Serves a GGUF file with llama.cpp's own HTTP server until it is ended, for `lastbit fingerprint`.

Needs the Python package `xllamacpp` (2026.10 was used). Prints the base address, then nothing more.
"""

import argparse
import sys
import time

import xllamacpp as llama


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--kv", choices=["f32", "f16", "q8_0"], default="f16", help="format of the KV cache")
    parser.add_argument("--flash", choices=["on", "off"], default="on", help="fused attention")
    parser.add_argument("--parallel", type=int, default=4, help="requests in a batch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=8192)
    return parser.parse_args()


def main():
    args = parse()
    kinds = {
        "f32": llama.ggml_type.GGML_TYPE_F32,
        "f16": llama.ggml_type.GGML_TYPE_F16,
        "q8_0": llama.ggml_type.GGML_TYPE_Q8_0,
    }
    flash = llama.llama_flash_attn_type
    params = llama.CommonParams()
    params.model.path = args.model
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.n_ctx = args.context
    params.n_parallel = args.parallel
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = args.threads
    params.cache_type_k = params.cache_type_v = kinds[args.kv]
    params.flash_attn_type = flash.LLAMA_FLASH_ATTN_TYPE_ENABLED if args.flash == "on" else flash.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = llama.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
