//! A sample of packet heads counts for the cause of its incident, whenever it is over.

use gabion_guard::{Action, Cause, CpuSample, Heads, PacketHead, Sample, Settings, State, step};
use std::net::{IpAddr, Ipv4Addr};

/// Heads of a flood that is one flow.
fn one_flow() -> Heads {
    let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let head = PacketHead {
        at_ns: 0,
        source: address(1),
        destination: address(2),
        ports: (1024, 9),
        length: 60,
        protocol: 17,
    };
    Heads::from_packets(&[head; 4096], &[])
}

/// The cause that is named first in an incident whose heads come at its nth period.
fn named(heads_at: u64) -> Option<Cause> {
    let mut state = State::new(Settings::enforce(30));
    (0..250).find_map(|n| {
        let cpu = CpuSample {
            covered_us: 8000,
            rx_us: Some(6000),
            packets: Some(3000),
            ..CpuSample::default()
        };
        let heads = (n == heads_at).then(one_flow);
        let sample = Sample { cpus: vec![cpu], heads, ..Sample::at(n * 8) };
        let (_, actions, _) = step(&sample, &mut state);
        actions.into_iter().find_map(|action| match action {
            Action::Name(cause, _) => Some(cause),
            _ => None,
        })
    })
}

/// One flow that is followed fills the sample in 40 ms; one that is not, leaves it to its end after 1.2 s.
#[test]
fn heads_count_from_the_first_period_to_the_last_before_the_cause_is_named() {
    for heads_at in [4, 5, 10, 60, 64, 70, 150] {
        assert_eq!(named(heads_at), Some(Cause::OneLargeFlow), "period {heads_at}");
    }
    assert_eq!(named(1000), Some(Cause::TooManyPackets), "without heads");
}
