//! What a compiled signature consists of: its engines and conditions, as an engine evaluates them, and
//! what it does when it matches. The names come from many files of this crate; here they stand in one place.

pub use crate::address::{AddressId, AddressSet};
pub use crate::content::{
    Asn1, Base64Decode, BufferCondition, ByteExtract, ByteJump, ByteMath, ByteOp, ByteOrder,
    ByteTest, Capture, CaptureTarget, Content, ContentFlags, DatarepTest, DatasetCommand,
    DatasetTest, EntropyOp, EntropyTest, IsDataAt, JumpFrom, MathOp, Operand, Pcre, PcreOptions,
    TextBase,
};
pub use crate::file::{FileCondition, HashKind, HashList};
pub use crate::integer::IntegerMatch;
pub use crate::names::Names;
pub use crate::packet::{
    AppProtocolMode, AppProtocolTest, BitsOp, ChecksumOf, FlowSide, FlowTest, FlowbitsTest,
    FlowintOp, FlowintTest, FlowintValue, FragBitsTest, FragOffsetOp, GeoIpTest, HostbitsTest,
    HostbitsTrack, IpOption, IpProtoOp, IpReputationTest, L3Proto, PacketCondition, PacketFacts,
    ReputationSide, ReputationTest, RpcTest, StreamSide, TcpFlagsTest, TcpPhases, VariableTest,
    VlanLayer, XbitsTest, XbitsTrack,
};
pub use crate::port::{PortId, PortSet};
pub use crate::post::{
    BitCommand, ConfigAction, ConfigKind, ConfigScope, ConfigSubsystem, FilestoreDirection,
    FilestoreScope, FlowintCommand, PostMatch, Reference, Suppression, Tag, TagMetric, TagScope,
    Target, Threshold, ThresholdKind, ThresholdTrack,
};
pub use crate::ruleset::{
    DatasetDef, DatasetFormat, DatasetType, FrameRef, ScriptFacts, ScriptRef,
};
pub use crate::signature::{
    ActionScope, BufferInspection, BufferRef, Engine, EngineRun, FastPattern, FirewallPart, Header,
    IpProtos, PacketBuffer, RuleHook, RuleNetwork, TxInspection, TxTest,
};
pub use crate::text::{Text, TextArena};
pub use crate::transform::{Base64Mode, ChainId, PcreOptionsKey, Transform};
