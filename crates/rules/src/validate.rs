//! Faults that only the whole rule shows: unused buffers, literals that can never match, keywords
//! that exclude each other.

use crate::compiler::Compiler;
use crate::content::{BufferCondition, Content, ContentFlags, Operand};
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, DraftBuffer};
use crate::integer::IntegerMatch;
use crate::packet::PacketCondition;
use crate::rule_type::{asks_for_stream, has_tx, needs_packet};
use crate::signature::{BufferRef, IpProtos};
use crate::transform::Transform;
use gabion_record::IpProto;
use gabion_record::applayer::{LiteralForm, ProtoId};

/// Name of a buffer in Suricata's words.
pub(crate) fn buffer_name(c: &Compiler<'_>, b: BufferRef) -> String {
    match b {
        BufferRef::Payload => "payload".to_string(),
        BufferRef::Packet(p) => p.name().to_string(),
        BufferRef::App(id) => c.catalog.buffer(id).map_or_else(String::new, |b| {
            let internal = b.def.internal;
            if internal.is_empty() { b.def.name.to_string() } else { internal.to_string() }
        }),
        BufferRef::Frame(n) => {
            c.set.frames.get(usize::from(n)).map_or_else(String::new, |f| f.name.clone())
        }
    }
}

/// A sticky buffer without conditions is a mistake.
pub(crate) fn unused_buffers(c: &Compiler<'_>, d: &Draft<'_>, sid: u32) -> Checked<()> {
    for b in &d.buffers {
        let Some(buffer) = b.buffer else { continue };
        if b.conditions.is_empty() {
            let name = buffer_name(c, buffer);
            let said = format!("rule {sid} setup buffer {name} but didn't add matches to it");
            return Err(Refusal::new("detect-parse", said)
                .because("nothing is asked of the last sticky buffer"));
        }
    }
    if d.list == crate::draft::List::Base64 && d.base64.is_empty() {
        let said = "base64_data keyword without matches";
        return Err(Refusal::new("detect-base64-data", said));
    }
    Ok(())
}

/// Names of files in a rule for a protocol that has none to Suricata.
pub(crate) fn file_names(c: &Compiler<'_>, d: &Draft<'_>) -> Checked<()> {
    let names = c.catalog.buffer_by_keyword("file.name").map(BufferRef::App);
    let Some(apps) = d.apps.as_ref().filter(|_| d.buffers.iter().any(|b| b.buffer == names)) else {
        return Ok(());
    };
    let refuses = |p: &ProtoId| c.catalog.table(*p).is_some_and(|t| t.refuses_file_names);
    let refusing = apps.iter().find(|p| refuses(p) && d.primary.is_none_or(|other| other == **p));
    match refusing.and_then(|p| c.catalog.table(*p)) {
        Some(table)
            if apps.iter().all(|p| c.catalog.protos_of_rule_name(table.name).contains(p)) =>
        {
            let said = format!(
                "protocol {} doesn't support file name matching",
                table.name.to_uppercase()
            );
            Err(Refusal::new("detect-parse", said))
        }
        _ => Ok(()),
    }
}

/// Literals against what their buffer can hold.
pub(crate) fn literals(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    sid: u32,
    directions: [bool; 2],
) -> Checked<()> {
    for n in 0..d.buffers.len() {
        let Some(b) = d.buffers.get_mut(n) else { continue };
        check_bsize(b)?;
        check_urilen(b)?;
        check_transforms(b)?;
        let Some(BufferRef::App(id)) = b.buffer else { continue };
        let Some(def) = c.catalog.buffer(id).map(|b| b.def) else { continue };
        let has_transform = !b.transforms.is_empty();
        if def.internal == "http_raw_header" && directions == [true, true] && !has_transform {
            return Err(Refusal::new(
                "detect-http-raw-header",
                "http_raw_header signature without a flow direction. Use flow:to_server for \
                 inspecting request headers or flow:to_client for inspecting response headers.",
            ));
        }
        for x in &mut b.conditions {
            let BufferCondition::Content(content) = &mut x.condition else { continue };
            if def.lower_case && !has_transform {
                lower_case(c, content, def.name, sid)?;
            }
            if !has_transform {
                form(c, content, def.form, def.name, sid)?;
            }
        }
        if !has_transform && def.form == LiteralForm::Serial {
            check_serial(c, b, def.name, sid)?;
        }
    }
    Ok(())
}

fn lower_case(
    c: &mut Compiler<'_>,
    content: &Content,
    name: &'static str,
    sid: u32,
) -> Checked<()> {
    let who = match name {
        "http.host" => "detect-http-host",
        _ => "detect",
    };
    if content.is_nocase() {
        c.warn(Refusal::new(
            who,
            format!(
                "rule {sid}: {name} keyword specified along with \"nocase\". The hostname buffer \
                 is normalized to lowercase, specifying nocase is redundant."
            ),
        ));
        return Err(Refusal::silent(format!("`{name}` is lower case: `nocase` is refused")));
    }
    if content.bytes.iter().any(u8::is_ascii_uppercase) {
        c.warn(Refusal::new(
            who,
            format!(
                "rule {sid}: A pattern with uppercase characters detected for {name}. The hostname \
                 buffer is normalized to lowercase, please specify a lowercase pattern."
            ),
        ));
        return Err(Refusal::silent(format!(
            "`{name}` is lower case: a content with capitals can never match"
        )));
    }
    Ok(())
}

/// Hashes and serial numbers have one written form; the literal is brought into it.
fn form(
    c: &mut Compiler<'_>,
    content: &mut Content,
    form: LiteralForm,
    name: &'static str,
    sid: u32,
) -> Checked<()> {
    let is_pairs = |bytes: &[u8]| {
        bytes.len() % 3 == 2
            && bytes.chunks(3).all(|p| {
                p.iter().take(2).all(u8::is_ascii_hexdigit) && p.get(2).is_none_or(|b| *b == b':')
            })
    };
    match form {
        LiteralForm::Any => {}
        LiteralForm::Md5 => {
            if content.bytes.len() != 32 {
                c.warn(Refusal::new(
                    "detect-tls-ja3-hash",
                    format!(
                        "rule {sid}: Invalid length for {name} keyword: {}, an MD5 has 32 digits; \
                         it will therefore never match.",
                        content.bytes.len()
                    ),
                ));
                return Err(Refusal::silent(format!("`{name}` is 32 hex digits")));
            }
            content.bytes.make_ascii_lowercase();
        }
        LiteralForm::Fingerprint => {
            if content.bytes.len() != 59 || !is_pairs(&content.bytes) {
                c.warn(Refusal::new(
                    "detect-tls-cert-fingerprint",
                    format!("rule {sid}: Invalid length for {name} keyword"),
                ));
                return Err(Refusal::silent(format!("`{name}` is 20 hex pairs with colons")));
            }
            content.bytes.make_ascii_lowercase();
        }
        LiteralForm::Serial => {
            content.bytes.make_ascii_uppercase();
            if content.is_nocase() {
                content.flags.clear(ContentFlags::NOCASE);
            }
        }
    }
    Ok(())
}

/// A serial number of more than one octet has colons. Suricata looks at the first content only.
fn check_serial(
    c: &mut Compiler<'_>,
    b: &DraftBuffer,
    name: &'static str,
    sid: u32,
) -> Checked<()> {
    let first = b.conditions.iter().find_map(|x| {
        let BufferCondition::Content(content) = &x.condition else { return None };
        Some(content)
    });
    let Some(first) = first.filter(|f| f.bytes.len() > 2 && !f.bytes.contains(&b':')) else {
        return Ok(());
    };
    let text = printable(&first.bytes);
    c.warn(Refusal::new(
        "detect-tls-cert-serial",
        format!(
            "rule {sid}: No colon delimiters ':' detected in content \"{text}\" after {name}. This \
             rule will therefore never match."
        ),
    ));
    Err(Refusal::silent(format!("`{name}` is hex pairs with colons")))
}

/// Bytes that a buffer must have for its contents, as Suricata 8.0.7 counts them: the first content with
/// its offset, then what each relative one adds. A negated one behind the first adds its distance and `within` for itself
/// only, from there without the offset, and the most that one of them asks for counts. Later contents that are not relative do not count. `None`: a sum
/// is below 0.
fn required_len(b: &DraftBuffer) -> Option<u64> {
    let number = |o: Option<Operand<i32>>| match o {
        Some(Operand::Number(n)) => i64::from(n),
        _ => 0,
    };
    let (mut sum, mut offset): (i64, i64) = (0, 0);
    let mut of_negated: Option<u64> = Some(0);
    let mut is_first = true;
    for x in &b.conditions {
        let BufferCondition::Content(content) = &x.condition else { continue };
        let len = content.bytes.len() as i64;
        let distance = number(content.distance);
        match (std::mem::take(&mut is_first), content.is_relative()) {
            (true, false) => {
                offset = number(content.offset);
                sum = offset.saturating_add(len);
            }
            (true, true) => sum = distance.saturating_add(len),
            (false, true) if content.is_negated() => {
                let from = sum.saturating_sub(offset);
                let own = from.saturating_add(distance).saturating_add(number(content.within));
                of_negated =
                    of_negated.zip(u64::try_from(own).ok()).map(|(most, own)| most.max(own));
            }
            (false, true) => sum = sum.saturating_add(distance).saturating_add(len),
            (false, false) => {}
        }
    }
    of_negated.zip(u64::try_from(sum).ok()).map(|(most, sum)| most.max(sum))
}

/// The length that is reported instead: that of the first content without its offset, if it is too long alone and
/// no relative one follows.
fn reported_len(b: &DraftBuffer, most: u64) -> Option<u64> {
    let mut contents = b.conditions.iter().filter_map(|x| {
        if let BufferCondition::Content(content) = &x.condition { Some(content) } else { None }
    });
    let first = contents.next()?.bytes.len() as u64;
    (first > most && !contents.any(|c| c.is_relative())).then_some(first)
}

/// The number that a comparison of sizes is held against. Suricata looks at these forms only, and
/// takes the bound itself for `<` too.
fn largest(m: IntegerMatch) -> Option<u64> {
    match m {
        IntegerMatch::Equal(n) | IntegerMatch::Less(n) => Some(n),
        IntegerMatch::Between(_, b) => Some(b),
        IntegerMatch::Differs(_)
        | IntegerMatch::LessOrEqual(_)
        | IntegerMatch::Greater(_)
        | IntegerMatch::GreaterOrEqual(_)
        | IntegerMatch::Outside(..)
        | IntegerMatch::Mask { .. }
        | IntegerMatch::NotMask { .. } => None,
    }
}

fn check_bsize(b: &DraftBuffer) -> Checked<()> {
    for x in &b.conditions {
        let BufferCondition::Bsize(size) = &x.condition else { continue };
        let Some(most) = largest(*size) else { continue };
        // A sum below 0 is above every `bsize`, as a number without a sign.
        let needed = required_len(b).unwrap_or(u64::MAX);
        if needed <= most {
            continue;
        }
        let needed = reported_len(b, most).unwrap_or(needed);
        let bound = if let IntegerMatch::Between(from, to) = *size {
            format!("range: {from}-{to}")
        } else {
            format!("value: {most}")
        };
        let said = format!(
            "signature can't match as required content length {needed} exceeds bsize {bound}"
        );
        return Err(Refusal::new("detect-bsize", said));
    }
    Ok(())
}

/// Contents that are longer than the last `urilen` allows, negated ones too. Suricata takes one byte more for
/// `<` and for ranges.
fn check_urilen(b: &DraftBuffer) -> Checked<()> {
    let size = b.conditions.iter().rev().find_map(|x| {
        let BufferCondition::Urilen(size) = x.condition else { return None };
        Some(size)
    });
    let most = match size {
        Some(IntegerMatch::Equal(n) | IntegerMatch::LessOrEqual(n)) if n > 0 => n,
        Some(IntegerMatch::Less(n) | IntegerMatch::Between(_, n)) => n.saturating_add(1),
        _ => return Ok(()),
    };
    for x in &b.conditions {
        let BufferCondition::Content(content) = &x.condition else { continue };
        let len = content.bytes.len() as u64;
        if len > most {
            let said = format!("depth or urilen {most} smaller than content len {len}");
            return Err(Refusal::new("detect-urilen", said));
        }
    }
    Ok(())
}

/// Literals that the last transform can't leave in the buffer.
fn check_transforms(b: &DraftBuffer) -> Checked<()> {
    for transform in &b.transforms {
        let (name, clashes): (&str, fn(&Content) -> bool) = match transform {
            Transform::ToLowercase => ("to_lowercase", |c| {
                is_written(c, ContentFlags::WRITTEN_UPPER, u8::is_ascii_uppercase)
            }),
            Transform::ToUppercase => ("to_uppercase", |c| {
                is_written(c, ContentFlags::WRITTEN_LOWER, u8::is_ascii_lowercase)
            }),
            Transform::StripWhitespace => {
                ("strip_whitespace", |c| c.bytes.iter().any(|b| is_space(*b)))
            }
            Transform::CompressWhitespace => ("compress_whitespace", |c| {
                c.bytes.windows(2).any(|w| w.iter().all(|b| is_space(*b)))
            }),
            Transform::ToMd5
            | Transform::ToSha1
            | Transform::ToSha256
            | Transform::PcreXform { .. }
            | Transform::UrlDecode
            | Transform::Xor(_)
            | Transform::DotPrefix
            | Transform::HeaderLowercase
            | Transform::StripPseudoHeaders
            | Transform::Domain
            | Transform::Tld
            | Transform::FromBase64 { .. }
            | Transform::LuaXform { .. }
            | Transform::Gunzip { .. }
            | Transform::ZlibDeflate { .. } => continue,
        };
        for x in &b.conditions {
            let BufferCondition::Content(content) = &x.condition else { continue };
            // A content that must not be there never clashes.
            if !content.is_negated() && clashes(content) {
                let text = printable(&content.bytes);
                let said = format!("content string \"{text}\" incompatible with {name} transform");
                return Err(Refusal::new("detect-content", said));
            }
        }
    }
    Ok(())
}

/// Whether a content was written with letters of this case: with `nocase`, its bytes do not show it.
fn is_written(c: &Content, flag: ContentFlags, case: fn(&u8) -> bool) -> bool {
    if c.is_nocase() { c.flags.has(flag) } else { c.bytes.iter().any(case) }
}

fn is_space(b: u8) -> bool {
    b.is_ascii_whitespace() || b == 0x0b
}

/// A literal as written in rules: what is not printable as hex.
pub(crate) fn printable(bytes: &[u8]) -> String {
    if bytes.iter().all(|b| b.is_ascii_graphic() || *b == b' ') {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    format!("|{}|", gabion_record::hex::to_hex_pairs(bytes, ' '))
}

/// Keywords that exclude each other.
pub(crate) fn combination(c: &Compiler<'_>, d: &Draft<'_>) -> Checked<()> {
    let refuse = |said: &str| Err(Refusal::new("detect-parse", said));
    let packet = needs_packet(d);
    if packet && asks_for_stream(d) {
        return refuse(
            "can't mix packet keywords with tcp-stream or flow:only_stream.  Invalidating \
             signature.",
        );
    }
    if packet && has_tx(d) {
        return refuse(
            "Signature combines packet specific matches (like dsize, flags, ttl) with stream / \
             state matching by matching on app layer proto (like using http_* keywords).",
        );
    }
    let has_ip_proto =
        d.packet.iter().any(|p| matches!(p.condition, PacketCondition::IpProto { .. }));
    if has_ip_proto && d.header.protos != IpProtos::ALL {
        return Err(Refusal::new(
            "detect-ipproto",
            "Signature can use ip_proto keyword only when we use alert ip, in which case the _ANY \
             flag is set on the sig and the if condition should match.",
        ));
    }
    check_protocol(d)?;
    check_dsize(c, d)
}

/// Header buffers and sessions of a transport that the rule's protocol is not.
fn check_protocol(d: &Draft<'_>) -> Checked<()> {
    use crate::signature::PacketBuffer::{Icmpv4Header, Icmpv6Header, TcpHeader, UdpHeader};
    for b in &d.buffers {
        let Some(BufferRef::Packet(p)) = b.buffer else { continue };
        let proto = match p {
            TcpHeader => IpProto::TCP,
            UdpHeader => IpProto::UDP,
            Icmpv4Header => IpProto::ICMP,
            Icmpv6Header => IpProto::ICMPV6,
            _ => continue,
        };
        if !d.header.protos.contains(proto) {
            return Err(Refusal::silent(format!("`{}` needs a rule for that protocol", p.name())));
        }
    }
    let session = d.packet.iter().any(|p| matches!(p.condition, PacketCondition::TcpSession(_)));
    if session && !d.header.protos.contains(IpProto::TCP) {
        let said = "tcp.session requires a TCP rule";
        return Err(Refusal::new("detect-tcp-session", said));
    }
    Ok(())
}

/// Contents that don't fit into a payload of the size asked for.
fn check_dsize(_: &Compiler<'_>, d: &Draft<'_>) -> Checked<()> {
    let size = d.packet.iter().find_map(|p| {
        let PacketCondition::Dsize(size) = p.condition else { return None };
        Some(size)
    });
    let Some(most) = size.and_then(largest) else { return Ok(()) };
    let payload = d.buffers.iter().find(|b| b.buffer == Some(BufferRef::Payload));
    let Some(payload) = payload else { return Ok(()) };
    let needed = required_len(payload).unwrap_or(0);
    if needed > most {
        let said = format!(
            "signature can't match as required content length {needed} exceeds dsize value {most}"
        );
        return Err(Refusal::new("detect-content", said));
    }
    Ok(())
}
