//! A signature while its options are read: lists that grow, the sticky buffer in force, and what
//! later options need to know of earlier ones.

use crate::action::Action;
use crate::content::{BufferCondition, Content, ContentFlags};
use crate::diagnostic::{Checked, Refusal};
use crate::file::FileCondition;
use crate::integer::IntegerMatch;
use crate::lexer::Piece;
use crate::limits;
use crate::packet::{FlowTest, PacketCondition};
use crate::port::PortId;
use crate::post::{PostMatch, Target, Threshold};
use crate::signature::{BufferRef, FirewallPart, IpProtos, RuleHook, RuleNetwork};
use crate::transform::Transform;
use crate::{address::AddressId, signature::PacketBuffer};
use gabion_record::Direction;
use gabion_record::applayer::{Hook, Instances, ProtoId, TxCondition};
use std::borrow::Cow;
use std::sync::Arc;

/// The header as read.
#[derive(Clone, Debug)]
pub(crate) struct DraftHeader {
    pub(crate) action: Action,
    pub(crate) protos: IpProtos,
    pub(crate) network: RuleNetwork,
    pub(crate) pkthdr: bool,
    pub(crate) packets_only: bool,
    pub(crate) stream_only: bool,
    /// Name of the protocol as written, in lower case.
    pub(crate) proto_name: String,
    pub(crate) src: AddressId,
    pub(crate) dst: AddressId,
    pub(crate) src_ports: PortId,
    pub(crate) dst_ports: PortId,
    pub(crate) src_is_any: bool,
    pub(crate) dst_is_any: bool,
    pub(crate) src_ports_any: bool,
    pub(crate) dst_ports_any: bool,
    pub(crate) bidirectional: bool,
    pub(crate) transactional: bool,
    pub(crate) has_negated_address: bool,
}

/// A packet condition with its keyword, for reports and prefilters.
#[derive(Clone, Debug)]
pub(crate) struct DraftPacket {
    pub(crate) keyword: &'static str,
    pub(crate) condition: PacketCondition,
}

/// A buffer condition with its place among all options.
#[derive(Clone, Debug)]
pub(crate) struct DraftCondition {
    pub(crate) order: u32,
    pub(crate) condition: BufferCondition,
}

/// A naming of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct DraftBuffer {
    /// The buffer; `None`: one that this sensor does not have (the rule is inert).
    pub(crate) buffer: Option<BufferRef>,
    pub(crate) transforms: Vec<Transform>,
    /// Can't be continued by naming it again.
    pub(crate) is_multi: bool,
    /// Transforms began it, behind conditions of the same buffer.
    pub(crate) is_continued: bool,
    pub(crate) only_to_server: bool,
    pub(crate) only_to_client: bool,
    pub(crate) conditions: Vec<DraftCondition>,
    /// Registration order in the rule.
    pub(crate) from_modifier: bool,
}

/// Condition on a transaction.
#[derive(Clone, Debug)]
pub(crate) struct DraftTx {
    pub(crate) keyword: &'static str,
    pub(crate) test: DraftTxTest,
    pub(crate) hooks: Vec<(ProtoId, Hook)>,
    /// Buffers that the rule names before it.
    pub(crate) after: usize,
}

/// What it tests.
#[derive(Clone, Debug)]
pub(crate) enum DraftTxTest {
    Integer(IntegerMatch, Instances),
    Condition(Arc<dyn TxCondition>),
    Event(u16),
    State(IntegerMatch),
    Lua { script: u32, negated: bool },
}

/// Where the next content goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum List {
    /// No sticky buffer: the payload.
    #[default]
    NotSet,
    /// Index in [`Draft::buffers`].
    Buffer(usize),
    /// What `base64_decode` decoded.
    Base64,
}

/// Protocols that a keyword belongs to which no name of a rule header covers together: it doesn't bind the rule, but a
/// later keyword must be of one of them.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) protos: Vec<ProtoId>,
    /// They are those that carry files.
    pub(crate) is_files: bool,
}

impl Choice {
    /// Refuses a rule that is bound to a protocol of that name, which is none of these.
    pub(crate) fn refuse(&self, name: &str) -> Refusal {
        if self.is_files {
            let said = format!("protocol {name} doesn't support file matching");
            return Refusal::new("detect-parse", said);
        }
        Refusal::silent("the rule is bound to another protocol than an earlier keyword")
    }
}

/// The signature so far. Texts are slices of the rule.
#[derive(Debug)]
pub(crate) struct Draft<'t> {
    pub(crate) rule: &'t str,
    pub(crate) header: DraftHeader,
    pub(crate) hook: Option<RuleHook>,
    pub(crate) firewall: Option<FirewallPart>,
    pub(crate) gid: u32,
    pub(crate) sid: Option<u32>,
    pub(crate) rev: Option<u32>,
    pub(crate) msg: Option<(Piece<'t>, Option<Cow<'t, str>>)>,
    pub(crate) class: Option<u16>,
    pub(crate) priority: Option<u32>,
    pub(crate) class_priority: Option<u32>,
    pub(crate) references: Vec<(Piece<'t>, Piece<'t>)>,
    pub(crate) metadata: Vec<Piece<'t>>,
    pub(crate) target: Option<Target>,
    pub(crate) flow: Option<FlowTest>,
    pub(crate) packet: Vec<DraftPacket>,
    pub(crate) buffers: Vec<DraftBuffer>,
    pub(crate) base64: Vec<DraftCondition>,
    pub(crate) files: Vec<FileCondition>,
    /// The only direction whose files count.
    pub(crate) files_side: Option<Direction>,
    pub(crate) tx: Vec<DraftTx>,
    pub(crate) post: Vec<PostMatch>,
    pub(crate) threshold: Option<Threshold>,
    pub(crate) detection_filter: Option<Threshold>,
    pub(crate) list: List,
    /// A transform may follow: the sticky buffer was named and has no content yet.
    pub(crate) transforms_allowed: bool,
    /// The protocol that has the very name of the header, when the name stands for others too:
    /// every keyword must be one of it.
    pub(crate) primary: Option<ProtoId>,
    /// Protocols that the header and the keywords agree on; `None`: any.
    pub(crate) apps: Option<Vec<ProtoId>>,
    /// What keywords of several protocols ask for, until another one binds the rule.
    pub(crate) choices: Vec<Choice>,
    /// Names of byte variables, and whether the payload defines them.
    pub(crate) byte_variables: Vec<(&'t str, bool)>,
    pub(crate) noalert: bool,
    pub(crate) alert_keyword: bool,
    pub(crate) bypass: bool,
    pub(crate) prefilter: Option<usize>,
    pub(crate) needs_packet: bool,
    /// A keyword made it a rule on the application layer without binding it to a protocol.
    pub(crate) is_app_layer: bool,
    pub(crate) inert: Option<&'static str>,
    /// The last condition read is one on the packet.
    pub(crate) last_was_packet: bool,
    pub(crate) order: u32,
}

impl<'t> Draft<'t> {
    /// The rule's id, looked up in its text when it was not read yet.
    pub(crate) fn sid_ahead(&self) -> u32 {
        let ahead = || {
            let options = crate::lexer::split(self.rule).options;
            crate::lexer::options(options).flatten().find_map(|o| {
                let is_sid = o.keyword.text.eq_ignore_ascii_case("sid");
                o.value.filter(|_| is_sid)?.text.parse().ok()
            })
        };
        self.sid.or_else(ahead).unwrap_or(0)
    }

    /// Adds a condition on the packet.
    pub(crate) fn push_packet(&mut self, keyword: &'static str, condition: PacketCondition) {
        self.packet.push(DraftPacket { keyword, condition });
        self.last_was_packet = true;
    }

    /// Index of the payload's inspection, made when it is not there.
    pub(crate) fn payload(&mut self) -> usize {
        self.buffer_index(BufferRef::Payload, false)
    }

    /// Index of the inspection that contents go to now; `None` in `base64_data`.
    pub(crate) fn current(&mut self) -> Option<usize> {
        match self.list {
            List::NotSet => Some(self.payload()),
            List::Buffer(at) => Some(at),
            List::Base64 => None,
        }
    }

    /// The buffer in force, when a sticky one is.
    pub(crate) fn sticky(&self) -> Option<&DraftBuffer> {
        match self.list {
            List::Buffer(at) => self.buffers.get(at),
            List::NotSet | List::Base64 => None,
        }
    }

    /// Adds a condition to the list in force.
    pub(crate) fn push(&mut self, condition: BufferCondition) -> Checked<()> {
        self.order += 1;
        let entry = DraftCondition { order: self.order, condition };
        self.transforms_allowed = false;
        self.last_was_packet = false;
        let list = match self.current() {
            Some(at) => match self.buffers.get_mut(at) {
                Some(buffer) => &mut buffer.conditions,
                None => return Err(Refusal::silent("no such buffer")),
            },
            None => &mut self.base64,
        };
        if list.len() >= limits::CONDITIONS_PER_BUFFER_MAX {
            return Err(Refusal::silent("too many conditions on one buffer"));
        }
        list.push(entry);
        Ok(())
    }

    /// The list a relative keyword belongs to: the one in force, or without a sticky buffer that of
    /// the match before it, which a legacy modifier may have moved.
    pub(crate) fn relative_list(&self) -> List {
        if self.list != List::NotSet {
            return self.list;
        }
        let mut best: Option<(u32, List)> = None;
        let mut look = |conditions: &[DraftCondition], list: List| {
            let last = conditions.iter().rfind(|x| x.condition.moves_position());
            if let Some(x) = last
                && best.is_none_or(|(order, _)| x.order > order)
            {
                best = Some((x.order, list));
            }
        };
        for (n, b) in self.buffers.iter().enumerate() {
            look(&b.conditions, List::Buffer(n));
        }
        look(&self.base64, List::Base64);
        best.map_or(List::NotSet, |(_, list)| list)
    }

    /// Adds a condition to the list that a relative keyword belongs to, and marks the match before
    /// it as one that something depends on.
    pub(crate) fn push_relative(&mut self, condition: BufferCondition) -> Checked<()> {
        let list = self.relative_list();
        let before = std::mem::replace(&mut self.list, list);
        let last = self.conditions().iter_mut().rfind(|x| x.condition.moves_position());
        match last.map(|x| &mut x.condition) {
            Some(BufferCondition::Content(content)) => {
                content.flags.set(crate::content::ContentFlags::RELATIVE_NEXT);
            }
            Some(BufferCondition::Pcre(p)) => p.relative_next = true,
            // arithmetic in between: it stays where it is, whatever the content before it matched
            _ => {}
        }
        let pushed = self.push(condition);
        self.list = before;
        pushed
    }

    /// An inspection of that buffer without transforms, continued when it is there.
    pub(crate) fn buffer_index(&mut self, buffer: BufferRef, is_multi: bool) -> usize {
        let same = |b: &DraftBuffer| b.buffer == Some(buffer) && b.transforms.is_empty();
        if !is_multi && let Some(at) = self.buffers.iter().position(same) {
            return at;
        }
        self.buffers.push(DraftBuffer {
            buffer: Some(buffer),
            transforms: Vec::new(),
            is_multi,
            is_continued: false,
            only_to_server: false,
            only_to_client: false,
            conditions: Vec::new(),
            from_modifier: false,
        });
        self.buffers.len() - 1
    }

    /// The list of conditions in force.
    pub(crate) fn conditions(&mut self) -> &mut Vec<DraftCondition> {
        match self.current() {
            Some(at) if at < self.buffers.len() => &mut self.buffers[at].conditions,
            _ => &mut self.base64,
        }
    }

    /// The last content of the rule, whatever its buffer.
    pub(crate) fn last_content(&mut self) -> Option<&mut Content> {
        self.last_content_place()?.content_mut(self)
    }

    /// Where the last content is.
    pub(crate) fn last_content_place(&self) -> Option<Place> {
        let mut best: Option<(u32, Place)> = None;
        let mut look = |list: &[DraftCondition], buffer: Option<usize>| {
            let last =
                list.iter().rposition(|c| matches!(c.condition, BufferCondition::Content(_)));
            if let Some(at) = last
                && best.is_none_or(|(order, _)| list[at].order > order)
            {
                best = Some((list[at].order, Place { buffer, at }));
            }
        };
        for (n, b) in self.buffers.iter().enumerate() {
            look(&b.conditions, Some(n));
        }
        look(&self.base64, None);
        best.map(|(_, place)| place)
    }

    /// Number of a byte variable.
    pub(crate) fn byte_variable(&self, name: &str) -> Option<u8> {
        let at = self.byte_variables.iter().position(|(n, _)| *n == name)?;
        u8::try_from(at).ok()
    }

    /// The same for arithmetic, which in a sticky buffer does not see variables of the payload.
    pub(crate) fn visible_byte_variable(&self, name: &str) -> Option<u8> {
        let n = self.byte_variable(name)?;
        let of_payload = self.byte_variables.get(usize::from(n)).is_some_and(|(_, p)| *p);
        let in_buffer = self.sticky().is_some_and(|b| b.buffer != Some(BufferRef::Payload));
        (!of_payload || !in_buffer).then_some(n)
    }

    /// Whether any condition looks at that packet buffer.
    pub(crate) fn has_packet_buffer(&self) -> bool {
        self.buffers.iter().any(|b| matches!(b.buffer, Some(BufferRef::Packet(_))))
    }

    /// Whether some packet header is inspected that a reassembled stream does not have.
    pub(crate) fn has_header_buffer(&self) -> bool {
        self.buffers.iter().any(|b| match b.buffer {
            Some(BufferRef::Packet(p)) => {
                !matches!(p, PacketBuffer::IpSource | PacketBuffer::IpDestination)
            }
            _ => false,
        })
    }
}

/// Where a condition is: buffer (`None`: `base64_data`) and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) buffer: Option<usize>,
    pub(crate) at: usize,
}

impl Place {
    /// The list it is in.
    pub(crate) fn list<'d>(self, d: &'d mut Draft<'_>) -> Option<&'d mut Vec<DraftCondition>> {
        match self.buffer {
            Some(n) => d.buffers.get_mut(n).map(|b| &mut b.conditions),
            None => Some(&mut d.base64),
        }
    }

    /// The content there.
    pub(crate) fn content_mut<'d>(self, d: &'d mut Draft<'_>) -> Option<&'d mut Content> {
        let condition = &mut self.list(d)?.get_mut(self.at)?.condition;
        if let BufferCondition::Content(c) = condition { Some(c) } else { None }
    }
}

/// Marks the last content or expression of a list as one that the next relative keyword depends on.
pub(crate) fn mark_relative_next(list: &mut [DraftCondition]) -> bool {
    list.iter_mut().rev().any(|c| set_relative_next(&mut c.condition, true))
}

/// The last content or expression of a list has no relative keyword after it.
pub(crate) fn unmark_relative_next(list: &mut [DraftCondition]) {
    list.iter_mut().rev().any(|c| set_relative_next(&mut c.condition, false));
}

/// Notes at a content or an expression whether a relative keyword follows it; false for what is neither.
fn set_relative_next(condition: &mut BufferCondition, is_next: bool) -> bool {
    const FLAG: ContentFlags = ContentFlags::RELATIVE_NEXT;
    if let BufferCondition::Content(content) = condition {
        if is_next {
            content.flags.set(FLAG);
        } else {
            content.flags.clear(FLAG);
        }
        true
    } else if let BufferCondition::Pcre(p) = condition {
        p.relative_next = is_next;
        true
    } else {
        false
    }
}
