//! What a script can read while it runs.

use crate::datasets::Datasets;
use crate::flow_state::{FlowVars, NetFlow};
use crate::view::PacketView;
use gabion_flow::Flow;
use gabion_proto::files::File;
use gabion_proto::{Inspect, Parser, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::{Catalog, ProtoId};
use gabion_rules::compiled::ScriptRef;
use gabion_rules::{Ruleset, Signature};

/// The current flow: rules may change its variables, outputs only read them.
pub(crate) enum FlowAt<'a> {
    Read(&'a Flow<NetFlow>),
    Write(&'a mut Flow<NetFlow>),
}

/// Everything a library function may look at. What is missing is `None`.
#[derive(Default)]
pub(crate) struct Scene<'a> {
    pub(crate) packet: Option<&'a PacketView<'a>>,
    pub(crate) flow: Option<FlowAt<'a>>,
    /// The flow's parser, wherever it is stored at the moment.
    pub(crate) parser: Option<&'a dyn Parser>,
    pub(crate) tx: Option<&'a dyn Transaction>,
    pub(crate) file: Option<(&'a File, u64)>,
    pub(crate) set: Option<&'a Ruleset>,
    pub(crate) rule: Option<&'a Signature>,
    pub(crate) script: Option<&'a ScriptRef>,
    /// Byte variables of the rule.
    pub(crate) byte_variables: &'a [u64],
    pub(crate) datasets: Option<&'a Datasets>,
    pub(crate) catalog: Option<&'a Catalog>,
}

impl<'a> Scene<'a> {
    /// The flow's protocol.
    pub(crate) fn proto(&self) -> ProtoId {
        self.flow().map_or(ProtoId::UNKNOWN, |f| f.ext.app.proto)
    }

    /// The flow.
    pub(crate) fn flow(&self) -> Option<&Flow<NetFlow>> {
        match &self.flow {
            Some(FlowAt::Read(f)) => Some(f),
            Some(FlowAt::Write(f)) => Some(f),
            None => None,
        }
    }

    /// The flow's variables, where they may be changed.
    pub(crate) fn variables(&mut self) -> Option<&mut FlowVars> {
        match &mut self.flow {
            Some(FlowAt::Write(f)) => Some(&mut f.ext.vars),
            Some(FlowAt::Read(_)) | None => None,
        }
    }

    /// EVE name of the flow's protocol.
    pub(crate) fn proto_name(&self) -> &'static str {
        match (self.catalog, self.proto()) {
            (_, ProtoId::UNKNOWN) | (None, _) => "unknown",
            (Some(c), p) => c.eve_name(p),
        }
    }

    /// The transaction, or the flow's latest: of protocols whose libraries look at the flow.
    pub(crate) fn latest_tx(&self) -> Option<&'a dyn Transaction> {
        let latest = |p: &'a dyn Parser| p.tx(p.next_tx_id().checked_sub(1)?);
        self.tx.or_else(|| self.parser.and_then(latest))
    }

    /// An instance of a transaction's buffer, by its keyword.
    pub(crate) fn buffer(
        &self,
        keyword: &str,
        direction: Direction,
        index: usize,
    ) -> Option<&'a [u8]> {
        let (catalog, tx) = (self.catalog?, self.tx?);
        let def = catalog.buffer(catalog.buffer_by_keyword(keyword)?)?;
        let proto = self.proto();
        let (_, hook) = def.hooks.iter().find(|(p, h)| *p == proto && h.direction == direction)?;
        let how = Inspect { inspected: 0, at_end: true, inline: false };
        tx.buffer(hook.local, direction, index, how).map(|b| b.data)
    }
}
