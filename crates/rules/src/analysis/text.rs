//! `rules_analysis.txt` and `rules_fast_pattern.txt` in Suricata's words.

use super::{Report, app_proto_name, buffer_name};
use crate::content::{BufferCondition, Content, ContentFlags};
use crate::packet::PacketCondition;
use crate::signature::{BufferInspection, BufferRef, RuleType, Signature, SignatureFlags};
use gabion_record::IpProto;
use gabion_record::applayer::ProtoTable;
use std::fmt::Write;

/// The block on the fast pattern of one rule.
pub fn fast_pattern_report(r: &Report<'_>, s: &Signature) -> String {
    let mut out = String::with_capacity(1024);
    let _ = writeln!(out, "== Sid: {} ==\n{}", s.sid, r.set.text(s.raw));
    out.push_str("    Fast Pattern analysis:\n");
    let Some((buffer, content)) = s.fast_buffer().zip(s.fast_content()) else {
        match s.prefilter.and_then(|n| s.packet.get(usize::from(n))) {
            Some(p) => {
                let _ = writeln!(out, "        Prefilter on: {}\n", p.keyword());
            }
            None => out.push_str("        No content present\n\n"),
        }
        return out;
    };
    let matcher = match buffer.buffer {
        BufferRef::Payload => "content".to_string(),
        other => described(r, other, buffer),
    };
    let _ = writeln!(out, "        Fast pattern matcher: {matcher}");
    let _ = writeln!(out, "        Flags: {}", content_flags(content));
    let f = content.flags;
    let yes = |on: bool| if on { "yes" } else { "no" };
    let _ = writeln!(out, "        Fast pattern set: {}", yes(f.has(ContentFlags::FAST_PATTERN)));
    let only = f.has(ContentFlags::FAST_PATTERN_ONLY);
    let _ = writeln!(out, "        Fast pattern only set: {}", yes(only));
    let chop = f.has(ContentFlags::FAST_PATTERN_CHOP);
    let _ = writeln!(out, "        Fast pattern chop set: {}", yes(chop));
    if chop {
        let (at, len) = (content.chop_offset, content.chop_len);
        let _ = writeln!(out, "        Fast pattern offset, length: {at}, {len}");
    }
    let _ = writeln!(out, "        Original content: {}", plain(&content.bytes));
    let _ = writeln!(out, "        Final content: {}\n", plain(content.fast_pattern_bytes()));
    out
}

/// The block on one rule.
pub fn rule_report(r: &Report<'_>, s: &Signature, file_store_enabled: bool) -> String {
    let mut out = String::with_capacity(1024);
    let _ = writeln!(out, "== Sid: {} ==\n{}", s.sid, r.set.text(s.raw));
    let _ = writeln!(out, "    Rule is {}.", type_words(s.kind));
    let on_payload = matches!(s.kind, RuleType::Pkt | RuleType::Stream | RuleType::PktStream);
    if on_payload {
        if s.flags.has(SignatureFlags::NEED_PACKET) {
            out.push_str("    Rule matches on packets.\n");
        }
        if s.flags.has(SignatureFlags::NEED_STREAM) {
            out.push_str("    Rule matches on reassembled stream.\n");
        }
    }
    if s.kind == RuleType::AppTx {
        let _ = writeln!(out, "    App layer protocol is {}.", app_proto_name(r, s));
    }
    let counts = Counts::from_signature(s);
    if counts.raw_contents + counts.raw_pcres > 0 {
        let _ = writeln!(
            out,
            "    Rule contains {} content options, {} http content options, {} pcre options, and \
             {} pcre options with http modifiers.",
            counts.raw_contents, counts.http_contents, counts.raw_pcres, counts.http_pcres
        );
    }
    if let Some((buffer, content)) = s.fast_buffer().zip(s.fast_content()) {
        let pattern = plain(content.fast_pattern_bytes());
        let name = match buffer.buffer {
            BufferRef::Payload => payload_words(s).to_string(),
            other => described(r, other, buffer),
        };
        let chain = r.set.chains.get(usize::from(buffer.chain.0)).map_or(0, |c| c.len());
        let with = match chain {
            0 => String::new(),
            n => format!(" (with {n} transform(s))"),
        };
        let _ = writeln!(out, "    Fast Pattern \"{pattern}\" on \"{name}\"{with} buffer.");
    } else if let Some(p) = s.prefilter.and_then(|n| s.packet.get(usize::from(n))) {
        let _ = writeln!(out, "    Prefilter on: {}.", p.keyword());
    }
    let warnings = warnings(r, s, &counts, file_store_enabled);
    if warnings.is_empty() {
        out.push_str("    No warnings for this rule.\n");
    }
    for warning in warnings {
        let _ = writeln!(out, "    Warning: {warning}");
    }
    out.push('\n');
    out
}

fn type_words(kind: RuleType) -> &'static str {
    match kind {
        RuleType::NotSet => "not set",
        RuleType::IpOnly => "ip only",
        RuleType::LikeIpOnly => "like ip only",
        RuleType::PdOnly => "PD only",
        RuleType::DeOnly => "DE only",
        RuleType::Pkt => "packet inspecting",
        RuleType::PktStream => "packet and stream inspecting",
        RuleType::Stream => "stream inspecting",
        RuleType::AppLayer => "app-layer inspecting",
        RuleType::AppTx => "App-layer TX inspecting",
    }
}

fn payload_words(s: &Signature) -> &'static str {
    let f = s.flags;
    match (f.has(SignatureFlags::NEED_PACKET), f.has(SignatureFlags::NEED_STREAM)) {
        (true, true) => "payload and reassembled stream",
        (false, true) => "reassembled stream",
        _ => "payload",
    }
}

/// `http request uri (http_uri)`; with transforms only the name in parentheses.
fn described(r: &Report<'_>, buffer: BufferRef, b: &BufferInspection) -> String {
    let name = buffer_name(r, buffer);
    let plain = buffer.app().filter(|_| b.chain == crate::transform::ChainId::NONE);
    let plain = plain.and_then(|id| r.catalog.buffer(id));
    let description = plain.map_or("", |b| b.def.description);
    format!("{description} ({name})")
}

fn content_flags(c: &Content) -> String {
    let all = [
        (c.offset.is_some(), "Offset"),
        (c.depth.is_some(), "Depth"),
        (c.within.is_some(), "Within"),
        (c.distance.is_some(), "Distance"),
        (c.is_nocase(), "Nocase"),
        (c.is_negated(), "Negated"),
    ];
    let words: Vec<&str> = all.iter().filter(|(on, _)| *on).map(|(_, w)| *w).collect();
    if words.is_empty() { "None".to_string() } else { words.join(" ") }
}

/// Printable characters as they are, others as `\xNN`.
fn plain(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for b in bytes {
        match b {
            b'"' | b'\\' => {
                let _ = write!(out, "\\x{b:02X}");
            }
            b if b.is_ascii_graphic() || *b == b' ' => out.push(*b as char),
            b => {
                let _ = write!(out, "\\x{b:02X}");
            }
        }
    }
    out
}

/// Contents and expressions by their buffers.
struct Counts {
    raw_contents: usize,
    raw_pcres: usize,
    http_contents: usize,
    http_pcres: usize,
    payload_bounds: bool,
}

impl Counts {
    fn from_signature(s: &Signature) -> Counts {
        let mut c = Counts {
            raw_contents: 0,
            raw_pcres: 0,
            http_contents: 0,
            http_pcres: 0,
            payload_bounds: s.flags.has(SignatureFlags::PAYLOAD_OFFSET),
        };
        for b in s.buffers.iter() {
            let is_raw = b.buffer == BufferRef::Payload && s.kind != RuleType::AppTx;
            for x in &b.conditions {
                match x {
                    BufferCondition::Content(_) if is_raw => c.raw_contents += 1,
                    BufferCondition::Content(_) => c.http_contents += 1,
                    BufferCondition::Pcre(_) if is_raw => c.raw_pcres += 1,
                    BufferCondition::Pcre(_) => c.http_pcres += 1,
                    _ => {}
                }
            }
        }
        if c.raw_contents + c.raw_pcres > 0 {
            c.http_contents = 0;
            c.http_pcres = 0;
        }
        c
    }
}

fn warnings(
    r: &Report<'_>,
    s: &Signature,
    counts: &Counts,
    file_store_enabled: bool,
) -> Vec<String> {
    let mut out = Vec::new();
    let mut warn = |on: bool, text: &str| {
        if on {
            out.push(text.to_string());
        }
    };
    let app = app_proto_name(r, s);
    let has_name =
        |t: &ProtoTable| [t.eve_name, t.name].contains(&app) || t.any_version == Some(app);
    let is_http = r.catalog.tables().any(|(_, t)| t.advises_modifiers && has_name(t));
    let raw = counts.raw_contents > 0;
    let tcp = s.header.protos.contains(IpProto::TCP)
        && s.header.protos != crate::signature::IpProtos::ALL;
    let has_tcp_flags = s.packet.iter().any(|p| matches!(p, PacketCondition::TcpFlags(_)));
    let has_flow = s.header.flow != crate::packet::FlowTest::default();
    let no_flow = tcp && !has_tcp_flags && !has_flow && (raw || counts.raw_pcres > 0);
    warn(
        raw && is_http,
        "Rule app layer protocol is http, but content options do not have http_* modifiers.",
    );
    warn(
        counts.raw_pcres > 0 && is_http,
        "Rule app layer protocol is http, but pcre options do not have http modifiers.",
    );
    warn(
        counts.raw_pcres > 0 && !raw,
        "Rule uses pcre without a content option present.\n             -Consider adding a \
         content to improve performance of this rule.",
    );
    warn(
        no_flow,
        "TCP rule without a flow or flags option.\n             -Consider adding flow or flags to \
         improve performance of this rule.",
    );
    let both = s.flags.has(SignatureFlags::NEED_STREAM) && s.flags.has(SignatureFlags::NEED_PACKET);
    warn(
        counts.payload_bounds && both && s.header.apps.is_empty(),
        "Rule has depth/offset with raw content keywords.  Please note the offset/depth will be \
         checked against both packet payloads and stream.  If you meant to have the offset/depth \
         checked against just the payload, you can update the signature as \"alert tcp-pkt...\"",
    );
    let both_ways =
        s.flags.has(SignatureFlags::TO_SERVER) && s.flags.has(SignatureFlags::TO_CLIENT);
    let is_ip = matches!(s.kind, RuleType::IpOnly | RuleType::LikeIpOnly | RuleType::DeOnly);
    warn(both_ways && !is_ip, "Rule is inspecting both the request and the response.");
    warn(
        s.flags.has(SignatureFlags::FILESTORE) && !file_store_enabled,
        "Rule requires file-store but the output file-store is not enabled.",
    );
    out
}
