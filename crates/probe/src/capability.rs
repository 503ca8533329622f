//! Which capabilities this thread has, so that a refusal can name the one that is missing.

use std::fmt;

/// A capability that BPF needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Loads programs and makes maps.
    Bpf,
    /// Loads tracing programs.
    Perfmon,
    /// Loads and attaches programs for packets.
    NetAdmin,
    /// Real-time priorities.
    SysNice,
    /// Program statistics and, before Linux 5.8, everything.
    SysAdmin,
}

impl Capability {
    /// The number in `linux/capability.h`.
    const fn number(self) -> u32 {
        match self {
            Self::Bpf => 39,
            Self::Perfmon => 38,
            Self::NetAdmin => 12,
            Self::SysNice => 23,
            Self::SysAdmin => 21,
        }
    }

    /// Whether this thread has it, or CAP_SYS_ADMIN, which the kernel accepts for CAP_BPF and CAP_PERFMON.
    #[must_use]
    pub fn is_held(self) -> bool {
        let held = effective();
        let has = |c: Self| held >> c.number() & 1 == 1;
        has(self) || (matches!(self, Self::Bpf | Self::Perfmon) && has(Self::SysAdmin))
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bpf => "CAP_BPF",
            Self::Perfmon => "CAP_PERFMON",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::SysNice => "CAP_SYS_NICE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
        })
    }
}

/// The effective set; none where `/proc` can't be read.
fn effective() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    effective_of(&status)
}

/// The effective set of the text of `/proc/PID/status`.
fn effective_of(status: &str) -> u64 {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read() {
        assert_eq!(
            effective_of("Name:\tx\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n"),
            0x1ff_ffff_ffff
        );
        assert_eq!(effective_of("CapEff:\tz\n"), 0);
        assert_eq!(effective_of(""), 0);
    }
}
