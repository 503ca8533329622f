//! Conditions on the bytes of a buffer, and what is done with the bytes before.

pub use crate::content::{
    Asn1, Base64Decode, BufferCondition, ByteExtract, ByteJump, ByteMath, ByteOp, ByteOrder,
    ByteTest, Capture, CaptureTarget, Content, ContentFlags, DatarepTest, DatasetCommand,
    DatasetTest, EntropyOp, EntropyTest, IsDataAt, JumpFrom, MathOp, Operand, Pcre, PcreOptions,
    TextBase,
};
pub use crate::file::{FileCondition, HashKind, HashList};
pub use crate::integer::IntegerMatch;
pub use crate::transform::{Base64Mode, ChainId, PcreOptionsKey, Transform};
