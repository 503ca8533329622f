//! Why an expression has no program of the kernel.

/// Why an expression has no program: the frames are filtered after they were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// No program is made for this kind of link.
    #[error("the link type has no programs")]
    Link,
    /// It has more instructions than the kernel takes.
    #[error("the program would be too long for the kernel")]
    TooLong,
    /// It asks for addresses of Ethernet at another link.
    #[error("the interface has no Ethernet addresses")]
    NoEthernet,
    /// It needs more memory for values than a program has.
    #[error("the expression is nested too deeply")]
    TooDeep,
    /// It asks for bytes before and after a tag that the kernel took out.
    #[error("bytes of the link layer lie around a tag")]
    AroundTag,
    /// It asks for bytes of the link layer at a place that is known only with the packet.
    #[error("bytes of the link layer are at a place that is computed")]
    ComputedPlace,
}
