//! The counters that a network device keeps itself: what it received, and what it dropped before or after the throttle.

/// Packets of a device since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceCounters {
    pub(super) received: u64,
    /// Dropped for want of space, or because nothing wanted them.
    pub(super) dropped: u64,
}

impl DeviceCounters {
    /// Reads those of an interface of this thread's network namespace; zeros where there is none.
    pub(super) fn of_interface(interface: &str) -> DeviceCounters {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        parse(&text, interface).unwrap_or_default()
    }

    /// How much they grew.
    pub(super) fn since(&self, before: &DeviceCounters) -> DeviceCounters {
        DeviceCounters {
            received: self.received.saturating_sub(before.received),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }
}

/// A line of `/proc/net/dev`: bytes, packets, errors, drops, overruns of what was received.
fn parse(text: &str, interface: &str) -> Option<DeviceCounters> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, numbers) = { lines }.find(|(name, _)| name.trim() == interface)?;
    let mut columns = numbers.split_ascii_whitespace().map(|n| n.parse::<u64>().ok());
    let (_, received) = (columns.next()??, columns.next()??);
    let (_, dropped) = (columns.next()??, columns.next()??);
    let overruns = columns.next()??;
    Some(DeviceCounters { received, dropped: dropped.saturating_add(overruns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_an_interface_is_found() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs drop fifo frame\n    \
                    lo: 100 7 0 1 2 0 0 0 100 7 0 0 0 0 0 0\n  veth1:5 6 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
        assert_eq!(parse(text, "lo"), Some(DeviceCounters { received: 7, dropped: 3 }));
        assert_eq!(parse(text, "veth1").map(|c| c.received), Some(6));
        assert_eq!((parse(text, "veth"), parse("lo: 1 2", "lo")), (None, None));
        let (a, b) = (
            DeviceCounters { received: 9, dropped: 3 },
            DeviceCounters { received: 7, dropped: 1 },
        );
        assert_eq!(a.since(&b), DeviceCounters { received: 2, dropped: 2 });
        assert_eq!(DeviceCounters::of_interface("no such device"), DeviceCounters::default());
    }
}
