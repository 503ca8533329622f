#!/usr/bin/env python3
# Log intake beside rsyslog and syslog-ng in the same run: messages stored per second of processor time.
"""Benchmark of log intake: stored messages per CPU second of the server, each server alone, same load.

  lab/log/bench.py [--count N] [--runs N] [--json FILE] [--smoke]

The peers store clear text, we seal. CPU is that of the whole server process by the kernel's account.
"""
import argparse, json, pathlib, re, statistics, subprocess, sys, time
import servers
from servers import Gabion, Rsyslog, SyslogNg, find, scratch, send, settled


def once(make, transports, count, text):
    with scratch() as place:
        place = pathlib.Path(place)
        server = make(place)
        ports = {t: server.ports[t] for t in transports}
        told = send(ports, "--count", str(count), *text)
        if isinstance(server, Gabion):
            done = server.stop()
        else:
            stored = settled(place / "out.log", told["sent"])
            done = server.stop()
            done.update(stored=stored, counted=0, bytes=(place / "out.log").stat().st_size)
        done.update(sent=told["sent"], wall=told["wall"])
        return done


def rsa_rate():
    """Private RSA-2048 operations a second of one core, by the machine's own OpenSSL."""
    try:
        said = subprocess.run(["openssl", "speed", "-seconds", "1", "rsa2048"], capture_output=True, text=True).stdout
        return float(re.search(r"rsa\s+2048 bits\s+\S+\s+\S+\s+([\d.]+)", said)[1])
    except (OSError, TypeError):
        return None


def envelopes(count):
    with scratch() as place:
        server = Gabion(pathlib.Path(place), "--slog-workers", "1", transports=("slog-udp",), slog=True)
        send(server.ports, "--count", str(count), "--slog-key", str(servers.SLOG / "comms_rsa.pub"))
        began, before = time.monotonic(), server.cpu()
        done = server.stop()
        return done["stored"], done["cpu"]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=500_000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--json")
    options.add_argument("--smoke", action="store_true")
    options = options.parse_args()
    if options.smoke:
        options.count, options.runs = 5_000, 1
    text = servers.CORPUS / "sealed/text/Linux_2k.log.zst"
    text = ["--text", str(text)] if text.exists() else []
    made = [("gabion", lambda p: Gabion(p))]
    if find("rsyslogd"):
        made += [("rsyslog", lambda p: Rsyslog(p)), ("rsyslog, tuned", lambda p: Rsyslog(p, tuned=True))]
    if find("syslog-ng"):
        made += [("syslog-ng", lambda p: SyslogNg(p))]
    results = []
    print("| load | server | stored/sent | server CPU | stored per CPU s | bytes a message | peak |\n|---|---|---|---|---|---|---|")
    for load, transports, count in (("TCP", ("tcp",), options.count), ("UDP + TCP", ("udp", "tcp"), options.count // 5)):
        for name, make in made:
            runs = [once(make, transports, count, text) for _ in range(options.runs)]
            best = sorted(runs, key=lambda r: r["cpu"])[len(runs) // 2]
            rate = best["stored"] / max(best["cpu"], 1e-9)
            results.append({"load": load, "server": name, "stored_per_cpu_s": rate, **{k: best[k] for k in ("stored", "sent", "counted", "cpu", "bytes", "peak_mib")}})
            print(f"| {load} | {name} | {best['stored']}/{best['sent']}{' + %d counted' % best['counted'] if best['counted'] else ''} | {best['cpu']:.2f} s | {rate:,.0f} | "
                  f"{best['bytes'] / max(best['stored'], 1):.1f} | {best['peak_mib']:.0f} MiB |", flush=True)
    if servers.SLOG.exists():
        stored, cpu = envelopes(max(options.count // 50, 200))
        machine = rsa_rate()
        rate = stored / max(cpu, 1e-9)
        results.append({"load": "slog envelopes", "server": "gabion", "stored_per_cpu_s": rate, "machine_rsa": machine, "stored": stored})
        part = f" = {100 * rate / machine:.0f} % of OpenSSL's RSA-2048 rate of {machine:,.0f}/s" if machine else ""
        print(f"| slog envelopes | gabion | {stored} | {cpu:.2f} s | {rate:,.0f}{part} | | |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    tcp = {r["server"]: r["stored_per_cpu_s"] for r in results if r["load"] == "TCP"}
    worse = [n for n, rate in tcp.items() if n != "gabion" and rate > tcp["gabion"]]
    if worse and not options.smoke:
        sys.exit(f"below {', '.join(worse)}")


main()
