//! Who floods: packet heads of an incident are sampled once, for a bit more than a second.

use gabion_guard::{Heads, PacketHead};
use gabion_probe::heads::{self, Head};

/// How long a sample lasts at the most, in microseconds: it is over before the cause is named, 1.5 s after the begin.
const SAMPLE_US: u64 = 1_200_000;

/// What an incident says of its flows where no interface was named, or the kernel has no tcx links.
const NO_INTERFACE: &str = "flows not sampled: of no single interface, name one with --interface";
const NO_TCX: &str = "flows not sampled: no tcx link";

/// The sampler of an interface.
pub(super) struct HeadSampler {
    /// None where heads can't be sampled.
    sampler: Option<heads::HeadSampler>,
    state: Sampling,
    /// Why not, as an attribute of incidents.
    absent: &'static str,
}

/// Where the sampler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampling {
    /// There is no incident.
    Waits,
    /// A sample lasts until this time, in microseconds.
    Until(u64),
    /// This incident had its sample.
    Done,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Begin(u64),
    End,
    Nothing,
}

impl HeadSampler {
    /// Loads it for an interface. Where it can't be had, incidents have the reason in the place of attributes.
    pub(super) fn load(interface: Option<u32>, absent: &mut Vec<String>) -> HeadSampler {
        let mut all = HeadSampler { sampler: None, state: Sampling::Waits, absent: NO_INTERFACE };
        if let Some(interface) = interface {
            match heads::HeadSampler::load(interface) {
                Ok(sampler) => all.sampler = Some(sampler),
                Err(e) => {
                    absent.push(format!("packet heads: {e}"));
                    all.absent = NO_TCX;
                }
            }
        }
        all
    }

    /// Whether heads are sampled.
    pub(super) fn is_here(&self) -> bool {
        self.sampler.is_some()
    }

    /// Begins and ends samples. The sample that just ended, once in an incident.
    pub(super) fn follow_incident(
        &mut self,
        is_incident: bool,
        now_us: u64,
        say: &mut dyn FnMut(&str),
    ) -> Option<Heads> {
        let is_full = self.sampler.as_ref().is_some_and(heads::HeadSampler::is_full);
        let next = self.state.next(is_incident, now_us, is_full);
        let Some(sampler) = &mut self.sampler else {
            let attributes = vec![self.absent.to_owned()];
            let heads = || Heads { attributes, ..Heads::default() };
            return matches!(next, Next::Begin(_)).then(heads);
        };
        match next {
            Next::Begin(until_us) => {
                if let Err(e) = sampler.begin(until_us.saturating_mul(1000)) {
                    say(&format!("packet heads: {e}"));
                }
                None
            }
            Next::End => {
                let found = sampler.end();
                let of = |heads: &[Head]| heads.iter().map(head).collect::<Vec<_>>();
                Some(Heads::from_packets(&of(&found.of_all), &of(&found.of_flows)))
            }
            Next::Nothing => None,
        }
    }
}

impl Sampling {
    fn next(&mut self, is_incident: bool, now_us: u64, is_full: bool) -> Next {
        match *self {
            Sampling::Waits if is_incident => {
                let until_us = now_us.saturating_add(SAMPLE_US);
                *self = Sampling::Until(until_us);
                Next::Begin(until_us)
            }
            Sampling::Until(end) if now_us >= end || is_full || !is_incident => {
                *self = if is_incident { Sampling::Done } else { Sampling::Waits };
                Next::End
            }
            Sampling::Done if !is_incident => {
                *self = Sampling::Waits;
                Next::Nothing
            }
            _ => Next::Nothing,
        }
    }
}

fn head(head: &Head) -> PacketHead {
    PacketHead {
        at_ns: head.at_ns,
        source: head.source,
        destination: head.destination,
        ports: head.ports,
        length: head.length,
        protocol: head.protocol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incident_is_sampled_once_and_for_a_bounded_time() {
        let mut state = Sampling::Waits;
        assert_eq!(state.next(false, 0, false), Next::Nothing);
        assert_eq!(state.next(true, 10, false), Next::Begin(10 + SAMPLE_US));
        assert_eq!(state.next(true, 9 + SAMPLE_US, false), Next::Nothing);
        assert_eq!(state.next(true, 10 + SAMPLE_US, false), Next::End);
        assert_eq!(state.next(true, 99 + SAMPLE_US, false), Next::Nothing);
        assert_eq!(state.next(false, 100 + SAMPLE_US, false), Next::Nothing);
        assert_eq!(state.next(true, 0, false), Next::Begin(SAMPLE_US));
        assert_eq!(state.next(true, 1, true), Next::End);
        let mut short = Sampling::Until(SAMPLE_US);
        assert_eq!(short.next(false, 5, false), Next::End);
        assert_eq!(short, Sampling::Waits);
    }
}
