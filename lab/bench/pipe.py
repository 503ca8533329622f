"""Measures how long an alert takes from a pipe: packets are written one by one, as `tcpdump -U -w -` does, a
rule matches each tenth of them, and the file of alerts is watched.

    pipe.py GABION [SECONDS] [--behavior] [--workers N]

Prints the median, the 99th percentile and the maximum of the time from writing a packet until
its alert is in fast.log, at 100 packets a second.
"""

import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

A_SECOND = 100


def sum16(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(number, payload):
    """A UDP datagram in Ethernet, from a port of its own."""
    udp = struct.pack("!HHHH", 1024 + number % 60000, 9999, 8 + len(payload), 0) + payload
    ends = socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2")
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + ends
    ip = ip[:10] + struct.pack("!H", sum16(ip)) + ip[12:]
    return bytes(12) + b"\x08\x00" + ip + udp


def main():
    gabion, *rest = sys.argv[1:]
    seconds = float(rest.pop(0)) if rest and rest[0][0] != "-" else 30
    with tempfile.TemporaryDirectory() as folder:
        rules = os.path.join(folder, "pipe.rules")
        with open(rules, "w", encoding="ascii") as file:
            file.write('alert udp any any -> any 9999 (msg:"marked"; content:"marked"; sid:1;)\n')
        out = os.path.join(folder, "out")
        command = [gabion, "read", "-q", "-", "-S", rules, "-l", out, *rest]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        written, seen, is_over = [], [], threading.Event()

        def watch():
            """Records when each line of the file of alerts came."""
            path, held = os.path.join(out, "fast.log"), 0
            while not is_over.is_set():
                try:
                    with open(path, "rb") as file:
                        file.seek(held)
                        text = file.read()
                except FileNotFoundError:
                    text = b""
                held += len(text)
                seen.extend([time.monotonic()] * text.count(b"\n"))
                time.sleep(0.002)

        watcher = threading.Thread(target=watch)
        watcher.start()
        pipe = child.stdin
        pipe.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        pipe.flush()
        time.sleep(1)
        begin = time.monotonic()
        for number in range(int(seconds * A_SECOND)):
            time.sleep(max(0, begin + number / A_SECOND - time.monotonic()))
            is_marked = number % 10 == 0
            data, now = frame(number, b"marked" if is_marked else b"plain"), time.time()
            head = struct.pack("<IIII", int(now), int(now % 1 * 1e6), len(data), len(data))
            pipe.write(head + data)
            pipe.flush()
            if is_marked:
                written.append(time.monotonic())
        time.sleep(2)
        before_end = len(seen)
        pipe.close()
        code = child.wait()
        is_over.set()
        watcher.join()
        took = sorted(at - then for then, at in zip(written, seen))
        print(f"{len(written)} alerts expected, {before_end} seen while the pipe was open, exit code {code}")
        if took:
            median, p99 = took[len(took) // 2], took[min(len(took) - 1, len(took) * 99 // 100)]
            print(f"median {median * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, most {took[-1] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
