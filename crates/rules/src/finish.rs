//! From a draft to signatures: what only the whole rule decides.
//!
//! In this order: every buffer was used; directions agree; literals can match their buffers; packet
//! and stream keywords don't mix; type; flags; fast pattern; engines. The order is Suricata's,
//! since of several faults the first one is reported.

use crate::compiler::Compiler;
use crate::content::{BufferCondition, Operand};
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, DraftBuffer, DraftTxTest, List};
use crate::fast_pattern;
use crate::limits::BUFFERS_PER_RULE_MAX;
use crate::post::{PostMatch, Reference};
use crate::rule_type;
use crate::signature::{
    BufferInspection, BufferRef, Engine, EngineRun, Header, RuleHook, RuleType, Signature,
    SignatureFlags, TxInspection, TxTest,
};
use crate::text::Text;
use crate::validate;
use gabion_record::Direction;
use gabion_record::applayer::{Hook, ProtoId};
use std::sync::Arc;

/// Where a rule is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) raw: Text,
    pub(crate) file: u16,
    pub(crate) line: u32,
}

/// Compiles a draft: one signature, or two for `<>`.
pub(crate) fn finish(
    c: &mut Compiler<'_>,
    mut d: Draft<'_>,
    place: Place,
) -> Checked<Vec<Signature>> {
    let Some(sid) = d.sid else {
        let said = "Signature missing required value \"sid\".";
        return Err(Refusal::new("detect-parse", said).because("every rule needs `sid:N;`"));
    };
    drop_unused_transforms(&mut d);
    drop_unused_payload(&mut d);
    if d.buffers.len() > BUFFERS_PER_RULE_MAX {
        return Err(Refusal::silent("too many buffers"));
    }
    let directions = if d.inert.is_some() {
        let f = d.flow.unwrap_or_default();
        [!f.to_client, !f.to_server]
    } else {
        validate::unused_buffers(c, &d, sid)?;
        let directions = directions(c, &d, sid)?;
        validate::literals(c, &mut d, sid, directions)?;
        validate::combination(c, &d)?;
        validate::file_names(c, &d)?;
        directions
    };
    let kind = rule_type::decide(&d);
    let flags = rule_type::flags(c, &d, directions);
    let fast = if d.inert.is_some() { None } else { fast_pattern::select(c, &mut d) };
    let signature = build(c, d, place, Decided { sid, kind, flags, directions, fast })?;
    Ok(both_ways(signature))
}

/// Transforms at the end of a rule, behind the conditions of a buffer, are passed over (Suricata 8.0.7).
fn drop_unused_transforms(d: &mut Draft<'_>) {
    let List::Buffer(at) = d.list else { return };
    let Some((last, before)) = d.buffers.split_last() else { return };
    let is_unused = at == before.len() && last.conditions.is_empty() && last.is_continued;
    if is_unused {
        d.buffers.pop();
        d.list = List::NotSet;
    }
}

/// A payload list whose contents all moved elsewhere is none.
fn drop_unused_payload(d: &mut Draft<'_>) {
    let unused = |b: &DraftBuffer| b.buffer == Some(BufferRef::Payload) && b.conditions.is_empty();
    if let Some(at) = d.buffers.iter().position(unused) {
        d.buffers.remove(at);
        for p in &mut d.post {
            if let PostMatch::Replace { inspection, .. } = p
                && usize::from(*inspection) > at
            {
                *inspection -= 1;
            }
        }
    }
}

/// Whether something can be inspected to the server, to the client.
#[derive(Clone, Copy, Default)]
struct Sides {
    to_server: bool,
    to_client: bool,
}

/// Hooks of a buffer that this rule may use: of its protocols, in directions not excluded.
pub(crate) fn hooks_of(c: &Compiler<'_>, d: &Draft<'_>, b: &DraftBuffer) -> Vec<(ProtoId, Hook)> {
    let Some(BufferRef::App(id)) = b.buffer else { return Vec::new() };
    let Some(buffer) = c.catalog.buffer(id) else { return Vec::new() };
    let wanted = |p: ProtoId| d.apps.as_ref().is_none_or(|a| a.contains(&p));
    let side = |direction: Direction| match direction {
        Direction::ToServer => !b.only_to_client,
        Direction::ToClient => !b.only_to_server,
    };
    buffer.hooks.iter().filter(|(p, hook)| wanted(*p) && side(hook.direction)).copied().collect()
}

/// Whether the buffer has set the rule's direction.
fn sets_flow(c: &Compiler<'_>, b: &DraftBuffer) -> bool {
    let Some(BufferRef::App(id)) = b.buffer else { return false };
    c.catalog.buffer(id).is_some_and(|buffer| buffer.def.sets_flow.is_some())
}

fn sides<'h>(hooks: impl Iterator<Item = &'h (ProtoId, Hook)>) -> Sides {
    let mut s = Sides::default();
    for (_, hook) in hooks {
        match hook.direction {
            Direction::ToServer => s.to_server = true,
            Direction::ToClient => s.to_client = true,
        }
    }
    s
}

/// The directions in which the rule is inspected, from `flow`, buffers and hook together.
fn directions(c: &Compiler<'_>, d: &Draft<'_>, sid: u32) -> Checked<[bool; 2]> {
    let flow = d.flow.unwrap_or_default();
    let (mut to_server, mut to_client) = (!flow.to_client, !flow.to_server);
    let (mut server_only, mut client_only, mut ambiguous) = (false, false, false);
    let mut look = |s: Sides| match (s.to_server, s.to_client) {
        (true, true) => ambiguous = true,
        (true, false) => server_only = true,
        (false, true) => client_only = true,
        (false, false) => {}
    };
    for b in d.buffers.iter().filter(|b| !sets_flow(c, b)) {
        look(sides(hooks_of(c, d, b).iter()));
    }
    for tx in &d.tx {
        let wanted = |p: &ProtoId| d.apps.as_ref().is_none_or(|a| a.contains(p));
        look(sides(tx.hooks.iter().filter(|(p, _)| wanted(p))));
    }
    if !d.files.is_empty() {
        look(sides(file_hooks(c, d).iter()));
    }
    let refuse = |said: String| Err(Refusal::new("detect-parse", said));
    if let Some(RuleHook::App { direction, .. }) = d.hook {
        let is_server = direction == Direction::ToServer;
        if (is_server && client_only) || (!is_server && server_only) {
            return refuse(format!("rule {sid} mixes keywords with conflicting directions"));
        }
        server_only |= is_server;
        client_only |= !is_server;
    }
    if d.header.transactional {
        if !(server_only && client_only) {
            return refuse(format!("rule {sid} should use both directions, but does not"));
        }
        if ambiguous {
            return refuse(format!(
                "rule {sid} means to use both directions, cannot have keywords ambiguous about \
                 directions"
            ));
        }
        return Ok([true, true]);
    }
    if server_only && client_only {
        return refuse(format!(
            "rule {sid} mixes keywords with conflicting directions, a transactional rule with => \
             should be used"
        ));
    }
    if (server_only && !to_server) || (client_only && !to_client) {
        return refuse(format!("rule {sid} mixes keywords with conflicting directions"));
    }
    if server_only {
        to_client = false;
    }
    if client_only {
        to_server = false;
    }
    Ok([to_server, to_client])
}

/// What was decided about a rule as a whole before its signature is built.
struct Decided {
    sid: u32,
    kind: RuleType,
    flags: SignatureFlags,
    directions: [bool; 2],
    fast: Option<crate::signature::FastPattern>,
}

fn build(c: &mut Compiler<'_>, d: Draft<'_>, place: Place, decided: Decided) -> Checked<Signature> {
    let Decided { sid, kind, mut flags, directions, fast } = decided;
    let engines =
        if d.inert.is_some() { Arc::default() } else { engines(c, &d, directions, fast)? };
    let engines = c.share_engines(engines);
    let prefilter = rule_type::prefilter(c, &d, fast.is_some());
    if fast.is_some() || prefilter.is_some() {
        flags.set(SignatureFlags::PREFILTER);
    }
    if prefilter.is_some() {
        flags.set(SignatureFlags::PREFILTER_KEYWORD);
    }
    let msg = match &d.msg {
        None => None,
        Some((piece, None)) => Some(c.text(*piece)),
        Some((_, Some(unescaped))) => {
            let pushed = c.set.texts.push(unescaped);
            Some(pushed.ok_or_else(|| Refusal::silent("all rules together are too long"))?)
        }
    };
    let references = d
        .references
        .iter()
        .map(|(system, text)| Reference { system: c.text(*system), text: c.text(*text) })
        .collect();
    let metadata = d.metadata.iter().map(|p| c.text(*p)).collect();
    let priority = d.priority.or(d.class_priority).unwrap_or(3);
    let inspections = inspections(c, &d, directions);
    let firewall = d.firewall.map(|mut f| {
        f.order = place.line;
        Box::new(f)
    });
    let h = d.header;
    let header = Header {
        protos: h.protos,
        network: h.network,
        apps: d.apps.clone().unwrap_or_default().into(),
        pkthdr: h.pkthdr,
        packets_only: h.packets_only,
        stream_only: h.stream_only,
        src: h.src,
        src_ports: h.src_ports,
        dst: h.dst,
        dst_ports: h.dst_ports,
        bidirectional: h.bidirectional,
        swapped: false,
        transactional: h.transactional,
        flow: d.flow.unwrap_or_default(),
    };
    let mut tx: Vec<TxInspection> = d.tx.into_iter().map(tx_inspection).collect();
    if !d.files.is_empty() {
        tx.push(TxInspection { keyword: "files", test: TxTest::Files(d.files.into()) });
    }
    if needs_hook_engine(d.hook, &engines) {
        tx.push(TxInspection { keyword: "hook", test: TxTest::Reached });
    }
    let packet = c.share_packet_conditions(d.packet.into_iter().map(|p| p.condition).collect());
    Ok(Signature {
        index: 0,
        gid: d.gid,
        sid,
        rev: d.rev.unwrap_or(0),
        action: h.action,
        kind,
        flags,
        priority,
        class: d.class,
        file: place.file,
        line: place.line,
        raw: place.raw,
        msg,
        references,
        metadata,
        header,
        hook: d.hook,
        firewall,
        packet,
        buffers: inspections,
        base64_data: d.base64.into_iter().map(|x| x.condition).collect(),
        tx: tx.into(),
        engines,
        fast_pattern: fast,
        prefilter,
        post_match: d.post.into(),
        threshold: d.threshold,
        detection_filter: d.detection_filter,
        rate_filter: None,
        suppressions: Box::default(),
        target: d.target,
        byte_variables: u8::try_from(d.byte_variables.len()).unwrap_or(u8::MAX),
        inert: d.inert,
    })
}

fn needs_hook_engine(hook: Option<RuleHook>, engines: &[Engine]) -> bool {
    matches!(hook, Some(RuleHook::App { .. })) && engines.iter().any(|e| e.is_hook)
}

fn tx_inspection(tx: crate::draft::DraftTx) -> TxInspection {
    let test = match tx.test {
        DraftTxTest::Integer(m, which) => TxTest::Integer(m, which),
        DraftTxTest::Condition(made) => TxTest::Condition(made),
        DraftTxTest::Event(code) => TxTest::Event(code),
        DraftTxTest::State(m) => TxTest::State(m),
        DraftTxTest::Lua { script, negated } => TxTest::Lua { script, negated },
    };
    TxInspection { keyword: tx.keyword, test }
}

fn inspections(
    c: &mut Compiler<'_>,
    d: &Draft<'_>,
    directions: [bool; 2],
) -> Arc<[BufferInspection]> {
    let mut out: Vec<BufferInspection> = Vec::with_capacity(d.buffers.len());
    for b in &d.buffers {
        let Some(buffer) = b.buffer else { continue };
        let chain = c.chain(&b.transforms);
        let same = |x: &&BufferInspection| x.buffer == buffer && x.chain == chain;
        let instance = u8::try_from(out.iter().filter(same).count()).unwrap_or(u8::MAX);
        let (mut to_server, mut to_client) = (directions[0], directions[1]);
        if matches!(buffer, BufferRef::App(_)) {
            let s = sides(hooks_of(c, d, b).iter());
            to_server &= s.to_server;
            to_client &= s.to_client;
        }
        let mut conditions: Box<[_]> = b.conditions.iter().map(|x| x.condition.clone()).collect();
        leave_room(&mut conditions);
        let directions = [to_server, to_client];
        out.push(BufferInspection { buffer, chain, instance, directions, conditions });
    }
    out.into()
}

/// A content with `distance` behind a negated one without a place of its own is looked for as if the negated one
/// had stood at the start of the buffer, as in Suricata.
fn leave_room(conditions: &mut [BufferCondition]) {
    let mut room = None;
    for condition in conditions {
        if matches!(condition, BufferCondition::Base64Decode(_))
            || matches!(condition, BufferCondition::Pcre(p) if p.relative)
        {
            continue;
        }
        let BufferCondition::Content(c) = condition else {
            room = None;
            continue;
        };
        let before: Option<i32> = room.take();
        if c.is_negated() {
            let has_place = c.is_relative() || c.offset.is_some() || c.depth.is_some();
            room = i32::try_from(c.bytes.len()).ok().filter(|_| !has_place);
        } else if let (Some(before), Some(Operand::Number(distance)), None) =
            (before, c.distance, c.offset)
        {
            c.offset = Some(Operand::Number(before.saturating_add(distance).max(0)));
        }
    }
}

/// The engines: those with the fast pattern first, the rest by progress.
fn engines(
    c: &Compiler<'_>,
    d: &Draft<'_>,
    directions: [bool; 2],
    fast: Option<crate::signature::FastPattern>,
) -> Checked<Arc<[Engine]>> {
    let mut first: Vec<Engine> = Vec::new();
    let mut rest: Vec<Engine> = Vec::new();
    let allowed = |direction: Direction| directions[direction.index()];
    for (n, b) in d.buffers.iter().enumerate() {
        let is_fast = fast.is_some_and(|f| usize::from(f.inspection) == n)
            || fast.is_some_and(|f| shares_fast_pattern(d, usize::from(f.inspection), n));
        for (proto, hook) in hooks_of(c, d, b) {
            if !allowed(hook.direction) {
                continue;
            }
            check_hook(d, proto, &hook)?;
            let engine = Engine {
                proto,
                direction: hook.direction,
                progress: hook.progress,
                local: hook.local,
                run: EngineRun::Buffer(u16::try_from(n).unwrap_or(u16::MAX)),
                is_fast_pattern: is_fast,
                is_hook: false,
            };
            if is_fast {
                first.insert(0, engine);
            } else {
                rest.push(engine);
            }
        }
    }
    for (n, tx) in d.tx.iter().enumerate() {
        for (proto, hook) in &tx.hooks {
            let wanted = d.apps.as_ref().is_none_or(|a| a.contains(proto));
            if !wanted || !allowed(hook.direction) {
                continue;
            }
            rest.push(tx_engine(*proto, hook.direction, hook.progress, hook.local, n));
        }
    }
    if !d.files.is_empty() {
        rest.extend(file_engines(c, d, directions));
    }
    // in a rule on transactions the payload is one more step of their inspection
    let is_tx_rule = !first.is_empty() || !rest.is_empty();
    if is_tx_rule
        && let Some(n) = d.buffers.iter().position(|b| b.buffer == Some(BufferRef::Payload))
    {
        let is_fast = fast.is_some_and(|f| usize::from(f.inspection) == n);
        for direction in Direction::BOTH.into_iter().filter(|x| allowed(*x)) {
            let engine = Engine {
                proto: ProtoId::UNKNOWN,
                direction,
                progress: 0,
                local: 0,
                run: EngineRun::Buffer(u16::try_from(n).unwrap_or(u16::MAX)),
                is_fast_pattern: is_fast,
                is_hook: false,
            };
            if is_fast { first.insert(0, engine) } else { rest.push(engine) }
        }
    }
    if let Some(RuleHook::App { proto, direction, progress, up_to }) = d.hook {
        let n = d.tx.len() + usize::from(!d.files.is_empty());
        let from = if up_to { 0 } else { progress };
        for state in from..=progress {
            let covered = first
                .iter()
                .chain(&rest)
                .any(|e| e.proto == proto && e.direction == direction && e.progress == state);
            if !covered {
                let engine = tx_engine(proto, direction, state, 0, n);
                rest.push(Engine { is_hook: true, ..engine });
            }
        }
    }
    let payload_last = |e: &Engine| e.proto == ProtoId::UNKNOWN && !is_event(d, e);
    // Those of one progress in the order of the rule, as Suricata's analysis shows them.
    let place = |e: &Engine| match e.run {
        EngineRun::Buffer(n) => 2 * usize::from(n) + 1,
        EngineRun::Tx(n) => d.tx.get(usize::from(n)).map_or(usize::MAX, |tx| 2 * tx.after),
    };
    rest.sort_by_key(|e| (payload_last(e), e.progress, place(e)));
    first.extend(rest);
    Ok(first.into())
}

fn is_event(d: &Draft<'_>, e: &Engine) -> bool {
    match e.run {
        EngineRun::Tx(n) => d.tx.get(usize::from(n)).is_some(),
        EngineRun::Buffer(_) => false,
    }
}

fn tx_engine(proto: ProtoId, direction: Direction, progress: u8, local: u16, n: usize) -> Engine {
    Engine {
        proto,
        direction,
        progress,
        local,
        run: EngineRun::Tx(u16::try_from(n).unwrap_or(u16::MAX)),
        is_fast_pattern: false,
        is_hook: false,
    }
}

/// Several namings of a buffer with the same transforms count as holding the fast pattern: its
/// matcher runs on the buffer, whichever naming asked for it.
fn shares_fast_pattern(d: &Draft<'_>, holder: usize, other: usize) -> bool {
    match (d.buffers.get(holder), d.buffers.get(other)) {
        (Some(a), Some(b)) => {
            let sides = |b: &DraftBuffer| (b.only_to_server, b.only_to_client);
            a.buffer == b.buffer && a.transforms == b.transforms && sides(a) == sides(b)
        }
        _ => false,
    }
}

/// Files are examined where the protocol has its file buffers.
fn file_hooks(c: &Compiler<'_>, d: &Draft<'_>) -> Vec<(ProtoId, Hook)> {
    let files = c
        .catalog
        .buffer_by_keyword("file.name")
        .or_else(|| c.catalog.buffer_by_keyword("file.data"))
        .and_then(|id| c.catalog.buffer(id));
    let Some(files) = files else { return Vec::new() };
    let wanted = |p: &ProtoId| d.apps.as_ref().is_none_or(|a| a.contains(p));
    let is_side = |h: &Hook| d.files_side.is_none_or(|side| side == h.direction);
    files.hooks.iter().filter(|(p, h)| wanted(p) && is_side(h)).copied().collect()
}

fn file_engines(c: &Compiler<'_>, d: &Draft<'_>, directions: [bool; 2]) -> Vec<Engine> {
    file_hooks(c, d)
        .into_iter()
        .filter(|(_, h)| directions[h.direction.index()])
        .map(|(p, h)| tx_engine(p, h.direction, h.progress, h.local, d.tx.len()))
        .collect()
}

/// In a rule with a hook, buffers must be those of the hook's own state.
fn check_hook(d: &Draft<'_>, proto: ProtoId, hook: &Hook) -> Checked<()> {
    let Some(RuleHook::App { proto: of, direction, progress, .. }) = d.hook else {
        return Ok(());
    };
    let same = of == proto && direction == hook.direction;
    if !same || hook.progress == progress {
        return Ok(());
    }
    let said = format!("engine progress value {} doesn't match hook {progress}", hook.progress);
    Err(Refusal::new("detect-parse", said)
        .because("the buffer belongs to another state than the rule's hook"))
}

/// A rule with `<>` stands for two, the second with its sides swapped; not when both are alike.
fn both_ways(signature: Signature) -> Vec<Signature> {
    let h = &signature.header;
    let alike = h.src == h.dst && h.src_ports == h.dst_ports;
    if !h.bidirectional || alike {
        return vec![signature];
    }
    let mut other = signature.clone();
    std::mem::swap(&mut other.header.src, &mut other.header.dst);
    std::mem::swap(&mut other.header.src_ports, &mut other.header.dst_ports);
    other.header.swapped = true;
    swap_flag(&mut other.flags, SignatureFlags::SRC_ANY, SignatureFlags::DST_ANY);
    swap_flag(&mut other.flags, SignatureFlags::SP_ANY, SignatureFlags::DP_ANY);
    vec![signature, other]
}

fn swap_flag(flags: &mut SignatureFlags, a: SignatureFlags, b: SignatureFlags) {
    let (has_a, has_b) = (flags.has(a), flags.has(b));
    flags.clear(a);
    flags.clear(b);
    if has_a {
        flags.set(b);
    }
    if has_b {
        flags.set(a);
    }
}
