//! The instruments of the guard on this kernel: time and runs are counted in the bucket and on the CPU where they happen.

#![allow(clippy::disallowed_methods, reason = "the kernel's events come by the clock")]

use gabion_kernel_tests::live;
use gabion_probe::softirq::{BUCKET_NS, Instruments, VECTORS, epoch_at};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

const NEEDED: &[&str] = &["programs", "btf", "softirq"];

/// The epoch of now.
fn epoch_now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    epoch_at(now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1_000)
}

#[test]
fn timers_and_packets_are_found_in_buckets() {
    let Some(_guard) = live("timers_and_packets_are_found_in_buckets", NEEDED) else { return };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let instruments = Instruments::attach(cpus).expect("the features are here");
    assert!(instruments.absent().is_empty());
    let first = epoch_now();
    let deadline = Instant::now() + Duration::from_secs(5);
    let (mut timers, mut packets) = (0, 0);
    // Packets over the loopback interface are NET_RX of this CPU.
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is here");
    let to = receiver.local_addr().expect("bound");
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is here");
    while (timers == 0 || packets == 0) && Instant::now() < deadline {
        for _ in 0..64 {
            sender.send_to(&[1; 32], to).expect("loopback takes packets");
        }
        std::thread::sleep(Duration::from_nanos(2 * BUCKET_NS));
        (timers, packets) = (0, 0);
        for epoch in first..epoch_now() {
            for cpu in 0..cpus {
                let Some(bucket) = instruments.bucket(cpu, epoch) else { continue };
                assert_eq!(bucket.epoch, epoch);
                for (vector, name) in VECTORS.iter().enumerate() {
                    assert!(u64::from(bucket.time_ns[vector]) <= BUCKET_NS, "{name}: {bucket:?}");
                }
                assert!(bucket.rx_ksoftirqd_ns <= bucket.time_ns[3]);
                timers += bucket.runs[1];
                packets += bucket.packets;
            }
        }
    }
    assert!(timers > 0, "no timer softirq was seen");
    assert!(packets > 0, "no packet was seen");
    let devices = instruments.devices().expect("the map is here");
    assert!(devices.iter().any(|d| d.packets > 0), "{devices:?}");
}

#[test]
fn detail_can_be_left_out() {
    let Some(_guard) = live("detail_can_be_left_out", NEEDED) else { return };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let instruments = Instruments::attach(cpus).expect("the features are here");
    for cpu in 0..cpus {
        instruments.set_detail(cpu, false);
    }
    let runs = |i: &Instruments| (0..cpus).map(|cpu| i.runs(cpu)).fold(0, u32::wrapping_add);
    let (before, first) = (runs(&instruments), epoch_now());
    let deadline = Instant::now() + Duration::from_secs(5);
    while runs(&instruments) == before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_ne!(runs(&instruments), before, "runs are counted without detail too");
    for epoch in first + 1..epoch_now() {
        for cpu in 0..cpus {
            let Some(bucket) = instruments.bucket(cpu, epoch) else { continue };
            assert_eq!(bucket.runs[1], 0, "a timer was measured although detail is off");
        }
    }
}
