#!/usr/bin/env python3
"""Times the example service with Fangorn and with ONNX Runtime: answers a second, and the median and the 99th percentile
of their times, from 1 to 1024 clients on this machine.

Both engines answer behind the same server (the folder service), with the same ONNX file and one row a request. wrk sends
the requests. The runs of both take turns, and each figure is the median of the rounds.

Example:
  cargo build --release --manifest-path service/Cargo.toml --features onnxruntime
  ORT_DYLIB_PATH=venv/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.32.0 \\
    benches/service/run.py service/target/release/fangorn-service model.onnx --columns 28
"""

import argparse
import json
import random
import re
import statistics
import subprocess
import tempfile
import urllib.request

UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * UNITS[unit]


def serve(program, model, port, threads, more):
    command = [program, model, f"--listen=127.0.0.1:{port}", f"--threads={threads}", *more]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = server.stderr.readline()
    if "listens" not in line:
        raise SystemExit(line + server.stderr.read())
    return server


def load(port, clients, seconds, script, threads):
    command = ["wrk", f"-t{min(threads, clients)}", f"-c{clients}", f"-d{seconds}s", "--latency", "-s", script]
    text = subprocess.run([*command, f"http://127.0.0.1:{port}/predict"], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(text)
    found = dict(re.findall(r"^\s+(50|99)%\s+(\S+)$", text, re.M))
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
    return rate, milliseconds(found["50"]), milliseconds(found["99"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="fangorn-service, built with the feature onnxruntime")
    parser.add_argument("model", help="an ONNX file of a forest")
    parser.add_argument("--columns", type=int, required=True, help="columns of the model")
    parser.add_argument("--clients", default="1,4,16,64,256,1024", help="numbers of clients (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads that answer (%(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="seconds of a run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print an object of JSON a line")
    arguments = parser.parse_args()

    random.seed(1)
    bodies = [json.dumps({"rows": [[round(random.gauss(0, 1), 4) for _ in range(arguments.columns)]]}) for _ in range(64)]
    engines = {"fangorn": [], "onnxruntime": ["--onnxruntime"]}
    servers = {}
    try:
        for port, (name, more) in enumerate(engines.items(), 18080):
            servers[name] = (serve(arguments.program, arguments.model, port, arguments.threads, more), port)
        answers = {}
        for name, (_, port) in servers.items():
            answers[name] = []
            for body in bodies:
                headers = {"content-type": "application/json"}
                request = urllib.request.Request(f"http://127.0.0.1:{port}/predict", body.encode(), headers)
                answers[name].append(json.load(urllib.request.urlopen(request))["values"][0])
        for ours, other in zip(answers["fangorn"], answers["onnxruntime"]):
            if max(abs(a - b) for a, b in zip(ours, other, strict=True)) > 1e-4:
                raise SystemExit(f"the engines differ: {ours} and {other}")
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            quoted = ",\n".join(f"'{body}'" for body in bodies)
            script.write(
                f"local bodies = {{{quoted}}}\nlocal next = 0\nwrk.method = 'POST'\n"
                "wrk.headers['content-type'] = 'application/json'\n"
                "request = function()\n  next = next % #bodies + 1\n  return wrk.format(nil, nil, nil, bodies[next])\nend\n"
            )
            script.flush()
            if not arguments.json:
                print("clients      engine   answers/s   median ms   99th percentile ms")
            for clients in map(int, arguments.clients.split(",")):
                found = {name: [] for name in engines}
                for name, (_, port) in servers.items():
                    load(port, clients, 1, script.name, arguments.threads)
                for _ in range(arguments.rounds):
                    for name, (_, port) in servers.items():
                        found[name].append(load(port, clients, arguments.seconds, script.name, arguments.threads))
                for name, runs in found.items():
                    rate, median, last = (statistics.median(column) for column in zip(*runs))
                    if arguments.json:
                        line = {"clients": clients, "engine": name, "per_second": rate, "p50_ms": median, "p99_ms": last}
                        print(json.dumps(line), flush=True)
                    else:
                        print(f"{clients:>7} {name:>11} {rate:>11.0f} {median:>11.3f} {last:>20.3f}", flush=True)
    finally:
        for server, _ in servers.values():
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
