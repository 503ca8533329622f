# Makes scap files for experiments: a capture many times over, its beginning alone, and a million processes.
"""The format from its description: blocks of `type, length, body, length`; see `gabion_scap` for what they hold."""
import gzip, struct

EVENTS = {0x204: 2, 0x216: 2, 0x221: 2, 0x208: 6, 0x217: 6, 0x222: 6}
PROCEXIT, CLONE, EXECVE, OPENAT = 186, 223, 293, 307


def blocks(data):
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if length < 12 or at + length > len(data):
            raise ValueError(f"a block at {at} has {length} bytes")
        yield kind, at, length
        at += length


def read(path):
    """The bytes before the first event, the bytes of the events, and where each has its time."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    first, times = None, []
    for kind, at, length in blocks(data):
        if kind in EVENTS:
            first = at if first is None else first
            times.append(at + 8 + EVENTS[kind] - first)
        elif first is not None:
            return data[:first], bytearray(data[first:at]), times
    first = len(data) if first is None else first
    return data[:first], bytearray(data[first:]), times


def repeated(source, target, times_over):
    """Writes the events of a capture this many times, each time later; returns how many events that are."""
    head, events, places = read(source)
    at = [struct.unpack_from("<Q", events, place)[0] for place in places]
    # Some events have no time, as the probe gave them none.
    known = [time for time in at if 0 < time < 1 << 63]
    span = max(known) - min(known) + 1_000_000
    with open(target, "wb") as out:
        out.write(head)
        for n in range(times_over):
            for place, time in zip(places, at):
                if 0 < time < 1 << 63:
                    struct.pack_into("<Q", events, place, time + n * span)
            out.write(events)
    return len(places) * times_over


def beginning(source, target):
    """Writes what is before the first event: a run over it is start and end alone."""
    target.write_bytes(read(source)[0])


def block(kind, body):
    pad = -len(body) % 4
    length = 12 + len(body) + pad
    return struct.pack("<II", kind, length) + body + bytes(pad) + struct.pack("<I", length)


def event(time, tid, kind, parameters):
    lengths = b"".join(struct.pack("<H", len(p)) for p in parameters)
    values = b"".join(parameters)
    head = struct.pack("<QQIHI", time, tid, 26 + len(lengths) + len(values), kind, len(parameters))
    return block(0x216, struct.pack("<H", 0) + head + lengths + values)


def u32(n):
    return struct.pack("<I", n & 0xffffffff)


def u64(n):
    return struct.pack("<Q", n & 0xffffffffffffffff)


def text(t):
    return t.encode() + b"\0"


def process(kind, tid, parent, name, args=b""):
    """The parameters of a clone or execve, as its child or program sees them."""
    common = [u64(0), text(name), args, u64(tid), u64(tid), u64(parent), text("/"), u64(1024), u64(0), u64(0), u32(0), u32(0), u32(0), text(name),
              text("cpu=/")]
    if kind == CLONE:
        return [*common, u32(0), u32(0), u32(0), u64(tid), u64(tid), u64(0)]
    return [*common, text("HOME=/"), u32(0), u64(tid), u32(0), u32(0), u64(0), u64(0), u64(0), u64(1), u64(0), u64(0), u32(0), text(f"/bin/{name}"),
            u64(tid), u32(0), text(f"/bin/{name}")]


def model_of(tid, result, name, parent):
    """A clone event, and the places of the number 0x1122334455667788 in it."""
    number = u64(0x1122334455667788)
    made = bytearray(event(0, tid, CLONE, [u64(result), *process(CLONE, tid, parent, name)[1:]]))
    places, at = [], made.find(number)
    while at >= 0:
        places.append(at)
        at = made.find(number, at + 8)
    return made, places


def million(target, count):
    """A web server forks this many processes, none of which ends; then it starts a shell."""
    start, server, number = 1_700_000_000_000_000_000, 1000, 0x1122334455667788
    machine = struct.pack("<IQQ128sQQQQ", 4, 8 << 30, 4_194_304, b"made", start, 0, 0, 0)
    # As the kernel reports it: the caller's return, and that of the child.
    models = [model_of(server, number, "httpd", 1), model_of(number, 0, "httpd-worker", server)]
    with open(target, "wb") as out:
        out.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 2, -1)))
        out.write(block(0x201, machine))
        for kind in (CLONE, EXECVE):
            out.write(event(start, server, kind, process(kind, server, 1, "httpd")))
        for n in range(count):
            tid = u64(2000 + n)
            for made, places in models:
                struct.pack_into("<Q", made, 10, start + 1000 * (n + 1))
                for place in places:
                    made[place:place + 8] = tid
                out.write(made)
        end, shell = start + 1000 * (count + 2), 2000 + count
        out.write(event(end, shell, CLONE, process(CLONE, shell, server, "httpd")))
        out.write(event(end + 1000, shell, EXECVE, process(EXECVE, shell, server, "sh", text("-c") + text("id"))))
    return 2 * count + 4
