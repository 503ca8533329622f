#!/usr/bin/env python3
# Compares log intake with rsyslog and syslog-ng in the same run: messages stored per second of processor time.
"""Benchmark of log intake: stored messages per CPU second of the server, each server alone, same load.

  lab/log/bench.py [--count N] [--runs N] [--json FILE] [--smoke]

rsyslog and syslog-ng store clear text, Gabion seals. CPU is that of the whole server process as the kernel counts it.
"""
import argparse, json, pathlib, re, subprocess, sys, time
import servers
from servers import Gabion, Rsyslog, SyslogNg, free_port, metrics, scratch, send, settled, starts


def once(make, transports, count, text):
    with scratch() as place:
        place = pathlib.Path(place)
        server = make(place)
        ports = {t: server.ports[t] for t in transports}
        report = send(ports, "--count", str(count), *text)
        if isinstance(server, Gabion):
            done = server.stop()
        else:
            stored = settled(place / "out.log", report["sent"])
            done = server.stop()
            done.update(stored=stored, counted=0, bytes=(place / "out.log").stat().st_size)
        done.update(sent=report["sent"], wall=report["wall"])
        return done


def rsa_rate():
    """Private RSA operations a second of one core with this key, of our cryptography alone and of OpenSSL."""
    ours = theirs = None
    key = servers.SLOG / "comms_rsa.slogpem"
    limit = servers.TARGET / "release/gabion-limit"
    if limit.exists():
        ours = float(re.search(r"[\d.]+", subprocess.run([limit, "--rsa", str(key)], capture_output=True, text=True).stdout)[0])
    try:
        output = subprocess.run(["openssl", "speed", "-seconds", "1", "rsa2048"], capture_output=True, text=True).stdout
        theirs = float(re.search(r"rsa\s+2048 bits\s+\S+\s+\S+\s+([\d.]+)", output)[1])
    except (OSError, TypeError):
        pass
    return ours, theirs


def envelopes(seconds, workers, clear):
    """Envelopes as fast as `workers` can open them, while clear lines are sent at a rate."""
    with scratch() as place:
        watched = free_port()
        options = ["--slog-workers", str(workers), "--metrics", f"127.0.0.1:{watched}"]
        server = Gabion(pathlib.Path(place), *options, transports=("udp", "tcp", "slog-udp"), slog=True)
        began = time.monotonic()
        public = str(servers.SLOG / "comms_rsa.pub")
        # More than can be opened: the queue is never empty, and messages that do not fit are counted.
        rate = str(int(6_000 * workers))
        argv = [servers.GABION, "send", "--json", "--seconds", str(seconds), "--slog-udp", f"127.0.0.1:{server.ports['slog-udp']}", "--slog-key", public, "--rate", rate]
        flood = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        each = clear // 2
        report = send({t: server.ports[t] for t in ("udp", "tcp")}, "--seconds", str(seconds), "--rate", str(each)) if clear else {"sent": 0, "wall": 0, "transports": []}
        sent = json.loads(flood.communicate()[0])["transports"][0]["sent"]
        spent = server.threads_cpu("envelopes")
        so_far = metrics(watched)['gabion_listen_envelopes_total{result="opened"}']
        done = server.stop()
        wall = time.monotonic() - began
        last = [l for l in done["output"].splitlines() if "received" in l][-1]
        opened = int(re.search(r"listen\.envelopes: \d+ received, (\d+) passed", last)[1])
        stored = sum(int(m) for m in re.findall(r"listen\.(?:udp|tcp)\.\d+: \d+ received, (\d+) passed", last))
        return {"opened": opened, "opened_a_worker_s": so_far / max(spent, 1e-9), "sent_envelopes": sent, "wall": wall, "clear_sent": report["sent"], "clear_stored": stored, "clear_offered": clear * seconds, "cpu": done["cpu"],
                "stored": done["stored"], "counted": done["counted"], "sent": sent + report["sent"], "exit": done["exit"], "peak_mib": done["peak_mib"], "bytes": done["bytes"]}


def envelope_rows(seconds, results):
    before, _ = rsa_rate()
    for what, workers, clear in (("slog envelopes alone, one worker", 1, 0), ("… with 100k clear lines/s", 1, 100_000), ("… with them, two workers", 2, 100_000)):
        r = envelopes(seconds, workers, clear)
        # The speed of the machine changes from minute to minute, so it is measured before and after each row.
        after, openssl = rsa_rate()
        machine, before = (before + after) / 2 if before and after else None, after
        openssl_rate = f" (OpenSSL: {openssl:,.0f})" if openssl else ""
        rate = r["opened"] / r["wall"]
        a_cpu_s = r["opened_a_worker_s"]
        part = f", {a_cpu_s:,.0f} a second of a worker's CPU = {100 * a_cpu_s / machine:.0f} % of RSA's {machine:,.0f}/s{openssl_rate}" if machine else ""
        kept = f"; clear: {100 * r['clear_stored'] / max(r['clear_offered'], 1):.1f} % of what was offered stored" if clear else ""
        exact = "exact" if r["sent"] == r["stored"] + r["counted"] else "NOT EXACT"
        results.append({"load": what, "server": "gabion", "opened_a_second": rate, "machine_rsa": machine, **r})
        print(f"| {what} | gabion | {r['stored']}/{r['sent']} + {r['counted']} counted ({exact}) | {r['cpu']:.2f} s | {rate:,.0f} opened/s{part}{kept} | {r['bytes'] / max(r['stored'], 1):.0f} | {r['peak_mib']:.0f} MiB |", flush=True)


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
    if starts("rsyslogd", Rsyslog):
        made += [("rsyslog", lambda p: Rsyslog(p)), ("rsyslog, tuned", lambda p: Rsyslog(p, tuned=True))]
    if starts("syslog-ng", SyslogNg):
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
        envelope_rows(1 if options.smoke else 8, results)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    by = {(r["load"], r["server"]): r for r in results}
    for (load, server), r in by.items():
        if server == "gabion" and r["sent"] != r["stored"] + r["counted"]:
            sys.exit(f"{load}: {r['sent']} were sent, {r['stored']} stored and {r['counted']} counted")
    tcp = {r["server"]: r["stored_per_cpu_s"] for r in results if r["load"] == "TCP"}
    worse = [n for n, rate in tcp.items() if n != "gabion" and rate > tcp["gabion"]]
    if worse and not options.smoke:
        sys.exit(f"below {', '.join(worse)}")


if __name__ == "__main__":
    main()
