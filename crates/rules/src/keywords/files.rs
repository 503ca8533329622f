//! Keywords on files that transactions carry.

use super::{app, sticky};
use crate::compiler::Compiler;
use crate::content::{BufferCondition, Content, ContentFlags};
use crate::diagnostic::{Checked, Refusal};
use crate::draft::{Draft, List};
use crate::file::{FileCondition, HashKind, HashList};
use crate::integer::IntegerMatch;
use crate::keyword::{Setup, Value};
use crate::limits::HASHES_PER_LIST_MAX;
use crate::post::{FilestoreDirection, FilestoreScope, PostMatch};
use crate::signature::BufferRef;
use gabion_record::Direction;
use gabion_record::applayer::{IntegerWidth, ProtoId};

/// Keywords of this file.
pub(super) const KEYWORDS: &[(&str, Setup)] = &[
    ("filename", |c, d, v| content_on(c, d, v, "file.name", "filename", false)),
    ("fileext", |c, d, v| content_on(c, d, v, "file.name", "fileext", true)),
    ("filemagic", |c, d, v| content_on(c, d, v, "file.magic", "filemagic", false)),
    ("filesize", filesize),
    ("filestore", filestore),
    ("filemd5", |c, d, v| hash_list(c, d, v, HashKind::Md5, "filemd5")),
    ("filesha1", |c, d, v| hash_list(c, d, v, HashKind::Sha1, "filesha1")),
    ("filesha256", |c, d, v| hash_list(c, d, v, HashKind::Sha256, "filesha256")),
];

/// The old keywords are contents on the buffers of today, case ignored.
fn content_on(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    v: Value<'_>,
    buffer: &'static str,
    keyword: &'static str,
    is_extension: bool,
) -> Checked<()> {
    let mut bytes = Vec::new();
    let mut flags = ContentFlags::NOCASE;
    if is_extension {
        bytes.push(b'.');
        flags.set(ContentFlags::ENDS_WITH);
    }
    bytes.extend_from_slice(&super::content::decode(v.text)?);
    bytes.make_ascii_lowercase();
    if v.negated {
        flags.set(ContentFlags::NEGATED);
    }
    let before = (d.list, d.transforms_allowed);
    match c.catalog.buffer_by_keyword(buffer) {
        Some(id) => {
            bind_to_files(c, d, keyword)?;
            d.is_app_layer = true;
            let at = d.buffer_index(BufferRef::App(id), false);
            d.list = List::Buffer(at);
        }
        None => {
            d.inert.get_or_insert(keyword);
            sticky::inert_buffer(d, false);
        }
    }
    let content = Content { bytes: bytes.into(), flags, ..Content::default() };
    let pushed = d.push(BufferCondition::Content(content));
    (d.list, d.transforms_allowed) = before;
    pushed
}

/// The rule must be bound to a protocol that carries files, or to none.
fn bind_to_files(c: &Compiler<'_>, d: &mut Draft<'_>, keyword: &'static str) -> Checked<()> {
    let files = c
        .catalog
        .buffer_by_keyword("file.name")
        .or_else(|| c.catalog.buffer_by_keyword("file.data"))
        .and_then(|id| c.catalog.buffer(id));
    let Some(files) = files else {
        d.inert.get_or_insert(keyword);
        return Ok(());
    };
    let protos: Vec<ProtoId> = files.hooks.iter().map(|(p, _)| *p).collect();
    let name = d.apps.as_ref().and_then(|a| a.first()).map_or("unknown", |p| c.proto_name(*p));
    app::bind_to(c, d, &protos, "file.name").map_err(|_| {
        let said = format!("protocol {name} doesn't support file matching");
        Refusal::new("detect-parse", said)
    })
}

fn filesize(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let (side, text) = match v.text.split_once(',') {
        Some((side, text)) => match side.trim() {
            "to_server" => (Some(Direction::ToServer), text),
            "to_client" => (Some(Direction::ToClient), text),
            _ => (None, v.text),
        },
        None => (None, v.text),
    };
    let Some(size) = IntegerMatch::parse(text.trim(), IntegerWidth::U64, &[]) else {
        return Err(Refusal::silent("`filesize` takes a number or a comparison"));
    };
    bind_to_files(c, d, "filesize")?;
    d.files.push(FileCondition::Size(size));
    d.files_side = side.or(d.files_side);
    Ok(())
}

fn filestore(c: &mut Compiler<'_>, d: &mut Draft<'_>, v: Value<'_>) -> Checked<()> {
    let bad = || {
        let said = format!("pcre_exec parse error, ret -1, string {}", v.text);
        Refusal::new("detect-filestore", said).because(
            "`filestore:` and a direction (request, response, both), a scope (file, tx, flow)",
        )
    };
    let mut direction = FilestoreDirection::Default;
    let mut scope = FilestoreScope::File;
    for word in v.text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match word {
            "request" | "to_server" => direction = FilestoreDirection::ToServer,
            "response" | "to_client" => direction = FilestoreDirection::ToClient,
            "both" => direction = FilestoreDirection::Both,
            "file" => scope = FilestoreScope::File,
            "tx" => scope = FilestoreScope::Transaction,
            "ssn" | "flow" => scope = FilestoreScope::Flow,
            _ if !word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => {
                return Err(bad());
            }
            // Suricata ignores words it does not know here
            _ => {}
        }
    }
    bind_to_files(c, d, "filestore")?;
    d.files.push(FileCondition::Store);
    d.post.push(PostMatch::Filestore { direction, scope });
    Ok(())
}

fn hash_list(
    c: &mut Compiler<'_>,
    d: &mut Draft<'_>,
    v: Value<'_>,
    kind: HashKind,
    keyword: &'static str,
) -> Checked<()> {
    const WHO: &str = "detect-file-hash-common";
    let (negated, name) = match v.text.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (v.negated, v.text),
    };
    bind_to_files(c, d, keyword)?;
    let known = c.set.hash_lists.iter().position(|l| l.kind == kind && l.name == name);
    let at = match known {
        Some(at) => at,
        None => {
            let Some(read) = c.options.read_file else {
                d.inert.get_or_insert(keyword);
                return Ok(());
            };
            let path = c.path_of(name);
            let next_to_rules =
                if c.folder.is_empty() { name } else { &format!("{}/{name}", c.folder) };
            let bytes = read(&path)
                .or_else(|_| read(next_to_rules))
                .map_err(|e| Refusal::new(WHO, format!("opening hash file {path}: {e}")))?;
            let (hashes, faults) = hashes(&bytes, kind, (name, WHO))?;
            c.warnings.extend(faults);
            c.set.hash_lists.push(HashList { kind, name: name.to_string(), hashes });
            c.set.hash_lists.len() - 1
        }
    };
    let list = u32::try_from(at).unwrap_or(u32::MAX);
    d.files.push(FileCondition::Hash { list, negated });
    Ok(())
}

/// Lines of a list that can't be read and are named one by one.
const FAULTS_NAMED: usize = 10;

/// Hashes of a list, and what is wrong with its other lines. One hash a line, in hex; what follows it on the line is
/// ignored.
fn hashes(
    bytes: &[u8],
    kind: HashKind,
    (path, who): (&str, &'static str),
) -> Checked<(Vec<[u8; 32]>, Vec<Refusal>)> {
    let mut out = Vec::new();
    let (mut faults, mut more) = (Vec::new(), 0);
    let digits = kind.bytes() * 2;
    for (number, line) in (1..).zip(bytes.split(|b| *b == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let word = line.split(u8::is_ascii_whitespace).next().unwrap_or(line);
        let wrong = match read_hash(word, digits) {
            Some(hash) if out.len() < HASHES_PER_LIST_MAX => {
                out.push(hash);
                continue;
            }
            Some(_) => return Err(Refusal::new(who, "the hash list is too long")),
            None if word.len() == digits => "is not hexadecimal".to_string(),
            None => format!("not {digits} characters"),
        };
        if faults.len() < FAULTS_NAMED {
            faults.push(Refusal::new(who, format!("{path}:{number} hash string {wrong}")));
        } else {
            more += 1;
        }
    }
    if more > 0 {
        faults.push(Refusal::new(who, format!("{path}: {more} more lines hold no hash")));
    }
    if out.is_empty() {
        let first = faults.first().map(|fault| format!(", {}", fault.message));
        let said = format!("{path}: no items{}", first.unwrap_or_default());
        return Err(Refusal::new(who, said));
    }
    out.sort_unstable();
    out.dedup();
    Ok((out, faults))
}

fn read_hash(word: &[u8], digits: usize) -> Option<[u8; 32]> {
    let mut hash = [0u8; 32];
    for (to, pair) in hash.iter_mut().zip(word.chunks(2)) {
        let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
        *to = digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?;
    }
    (word.len() == digits).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "d41d8cd98f00b204e9800998ecf8427e";

    // Suricata 8.0.7 names lines 2 and 5 in these words and loads the rule; of line 3 it reports nothing.
    #[test]
    fn lines_that_hold_no_hash_are_named_and_the_others_count() {
        let text = format!("{HASH}\nd41d8c\nzz{}\n{HASH} name\n{HASH}aa\n# c\n\n", &HASH[2..]);
        let (found, faults) = hashes(text.as_bytes(), HashKind::Md5, ("l.lst", "who")).unwrap();
        assert_eq!(found.len(), 1);
        let said: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(
            said,
            [
                "l.lst:2 hash string not 32 characters",
                "l.lst:3 hash string is not hexadecimal",
                "l.lst:5 hash string not 32 characters",
            ]
        );
        let many = format!("{HASH}\n{}", "x\n".repeat(15));
        let (_, faults) = hashes(many.as_bytes(), HashKind::Md5, ("l.lst", "who")).unwrap();
        assert_eq!(faults.len(), FAULTS_NAMED + 1);
        assert_eq!(faults[FAULTS_NAMED].message, "l.lst: 5 more lines hold no hash");
    }

    // As in Suricata 8.0.7 ("no items"), which refuses the rule.
    #[test]
    fn a_list_without_a_hash_is_refused() {
        for text in ["", "# c\n", "d41d8c\n"] {
            assert!(hashes(text.as_bytes(), HashKind::Md5, ("l.lst", "who")).is_err(), "{text}");
        }
    }
}
