//! What was lost on the way to a socket: by the interface, and by the kernel's queues of packets that wait for a
//! processor. A socket never hears of these frames, so they are no part of what was offered to it.

use std::fs;
use std::path::Path;

/// Frames that were lost before a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeforeSocket {
    /// By queues that were full, of all interfaces of this host together (`/proc/net/softnet_stat`, second column).
    pub backlog: u64,
    /// By the interface, its driver or the kernel (`rx_dropped`). The kernel counts frames here, too, of which no protocol of
    /// the host takes the ethertype, though a packet socket has received them, and those that queues dropped.
    pub dropped: u64,
    /// By the interface's own buffers (`rx_missed_errors`).
    pub missed: u64,
}

impl BeforeSocket {
    /// What the kernel counts of an interface now. What it does not count is 0.
    pub(super) fn of_interface(name: &str) -> BeforeSocket {
        let folder = Path::new("/sys/class/net").join(name).join("statistics");
        let number = |file: &str| read_text(&folder.join(file)).trim().parse().unwrap_or(0);
        BeforeSocket {
            backlog: backlog_drops(&read_text(Path::new("/proc/net/softnet_stat"))),
            dropped: number("rx_dropped"),
            missed: number("rx_missed_errors"),
        }
    }

    /// What was added since then. A new interface of the same name counts from zero.
    pub(super) fn since(&self, before: &BeforeSocket) -> BeforeSocket {
        let added = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        BeforeSocket {
            backlog: added(self.backlog, before.backlog),
            dropped: added(self.dropped, before.dropped),
            missed: added(self.missed, before.missed),
        }
    }

    /// All of an interface's own.
    pub fn of_interface_total(&self) -> u64 {
        self.dropped.saturating_add(self.missed)
    }
}

fn read_text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The second column of each processor's line, hexadecimal.
fn backlog_drops(text: &str) -> u64 {
    let columns = text.lines().filter_map(|line| line.split_whitespace().nth(1));
    columns.filter_map(|column| u64::from_str_radix(column, 16).ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_counted_on_all_processors_and_counters_that_begin_again_count_from_zero() {
        let text = "0000f1a2 0000000a 00000000 0\n00001000 00000010 00000002 0\nshort\n";
        assert_eq!(backlog_drops(text), 26);
        let before = BeforeSocket { backlog: 5, dropped: 100, missed: 7 };
        let now = BeforeSocket { backlog: 9, dropped: 3, missed: 7 };
        assert_eq!(now.since(&before), BeforeSocket { backlog: 4, dropped: 3, missed: 0 });
        assert_eq!(BeforeSocket::of_interface("no such name").of_interface_total(), 0);
    }
}
