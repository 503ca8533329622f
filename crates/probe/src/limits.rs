//! The limits of the probe, each with its reason.

use gabion_record::limits;

/// Bytes of a verifier's log that a message shows: its last lines hold the reason, the rest repeats the program.
pub const VERIFIER_LINES_SHOWN: usize = 2;

/// Least bytes of a ring: a record of a program's start with long arguments, environment and paths must fit.
pub const RING_BYTES_MIN: usize = 1 << 17;

/// Least bytes of a ring that only one CPU writes, if a configuration has CPUs share a ring: the calls of a busy CPU in a
/// tenth of a second.
pub const RING_BYTES_OF_ONE_CPU: usize = 4 << 20;

/// Bytes that are taken from one ring before the next one has its turn, so that a busy CPU does not keep records of
/// others from being seen.
pub const BATCH_BYTES: usize = 1 << 20;

/// Bytes of a ring that are read before the kernel learns that their space is free again: many records, so that the line
/// of the cache with the reader's position seldom moves, and a small part of a ring.
pub const RING_SHARE_BYTES: usize = 1 << 16;

/// Nanoseconds before the moment of reading from which rings may still have records: a program in the kernel that the
/// scheduler interrupted between taking the time and writing its record is rarely away for longer. Later records are
/// passed on out of order and counted.
pub const ORDER_SLACK_NS: u64 = 2_000_000;

/// Bytes of an answer about one interface: the kernel sends up to some KiB.
pub const NETLINK_ANSWER_BYTES: usize = 65_536;

/// Answers that are read to one question by netlink: the kernel sends one for each device, several in a message.
pub const NETLINK_ANSWERS_MAX: usize = 4096;

limits! { "probe";
    /// CPUs that the arrays of the instruments have space for; those above are not measured, which is reported once.
    pub const CPUS_MEASURED: usize = 1024,
        Counts("CPUs above it, in one line");

    /// Most bytes of data that a record keeps of a read or write; more would not fit into the part of the scratch memory that
    /// the verifier can bound.
    pub const SNAPLEN: u32 = 4095,
        Counts("the rest of the data; `evt.buflen` has its length");

    /// Bytes of one ring's records that wait for older ones of other rings; more stay in the ring, where the kernel sheds and
    /// counts what no longer fits. Usually they wait for milliseconds.
    pub const HELD_BYTES_PER_RING: usize = 4 * BATCH_BYTES,
        Counts("what no longer fits into the ring, by class");

    /// Bytes of records of one ring that wait while what existed before the first event is read: some seconds of a busy host.
    pub const HELD_AT_START_BYTES_PER_RING: usize = 64 << 20,
        Counts("what no longer fits into the ring, by class");

    /// Prefixes of the throttle's allow-list: more would be a routing table, and each costs two look-ups in a tree.
    pub const ALLOWED_ADDRESSES_MAX: usize = 4096,
        Refuses("the list of addresses that are never dropped");

    /// Ports of the throttle's allow-list.
    pub const ALLOWED_PORTS_MAX: usize = 1024,
        Refuses("the list of ports that are never dropped");

    /// Bytes that are read of a file in `/proc`: arguments and environments of events are cut at 4 KiB, tables of sockets may
    /// be long.
    pub const PROC_FILE_BYTES: u64 = 4 << 20,
        Spares("the rest of the file is not read");

    /// Threads that are read from `/proc` at the start: Falco's limit of threads.
    pub const PROC_THREADS_MAX: u64 = 262_144,
        Counts("further threads, as left out");

    /// Descriptors that are read of one process at the start.
    pub const PROC_FDS_MAX: usize = 65_536,
        Counts("further descriptors, as left out");

    /// Heads of packets that one sample may have, 48 bytes each in the kernel's memory; as in `bpf/heads.bpf.c`.
    pub const HEADS_MAX: usize = 16_384,
        Spares("the sample ends before its time");

    /// CPUs whose time one throttle may watch; as in `bpf/throttle.h`. Packets that are steered use a few.
    pub const VICTIMS_MAX: usize = 16,
        Counts("further CPUs, in one line");

    /// Values of a record that the kernel writes without a look at their kinds; as in `bpf/syscalls.h`. Most calls have no
    /// more.
    pub(crate) const FIXED_MAX: usize = 8,
        Spares("the record is written value by value");
}
