//! Why an interface can't be watched or throttled, and what to do.

use gabion_probe::limits::VICTIMS_MAX;

/// Why an interface can't be watched or throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardRefusal {
    /// It is not there.
    #[error("there is no such interface: ip link lists them")]
    NoInterface,
    /// It was there when the throttle was attached.
    #[error("the interface was removed, and the throttle with it")]
    Removed,
    /// Another program detached the throttle.
    #[error("the kernel has detached the throttle: start the guard again")]
    Detached,
    /// The default route goes over it, and nobody said that it may be throttled nevertheless.
    #[error(
        "the default route goes over it, and a mistake would cut this host off: add --even-default-route"
    )]
    DefaultRoute,
    /// A CPU that was named is not online.
    #[error("--cpu {0}: this CPU is not online")]
    OfflineCpu(u16),
    /// More CPUs were named than one throttle watches.
    #[error("name {VICTIMS_MAX} CPUs with --cpu at the most")]
    TooManyCpus,
    /// Devices of another network namespace are shown, so that none can be changed.
    #[error(
        "/sys shows another network namespace, so --also has nothing to change: start the guard with ip netns exec, or \
         with CAP_SYS_ADMIN"
    )]
    OtherNamespace,
    /// This network namespace has no such setting.
    #[error("--also dev-weight: only the first network namespace has net.core.dev_weight")]
    NoDevWeight,
    /// No CPU is to be kept free, or none is left for the packets.
    #[error("--also rps: name with --cpu the CPUs to keep free, and leave at least one out")]
    NoCpuForPackets,
    /// The interface has one queue only.
    #[error("--also rps: the interface has no queue whose packets can be steered")]
    NoQueue,
}
