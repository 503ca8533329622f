//! Conditions on packets and flows.

pub use crate::packet::{
    AppProtocolMode, AppProtocolTest, BitsOp, ChecksumOf, FlowSide, FlowTest, FlowbitsTest,
    FlowintOp, FlowintTest, FlowintValue, FragBitsTest, FragOffsetOp, GeoIpTest, HostbitsTest,
    HostbitsTrack, IpOption, IpProtoOp, IpReputationTest, L3Proto, PacketCondition, PacketFacts,
    ReputationSide, ReputationTest, RpcTest, StreamSide, TcpFlagsTest, TcpPhases, VariableTest,
    VlanLayer, XbitsTest, XbitsTrack,
};
