//! `http.log`: one line a request, as Suricata 8.0.7 writes it (observed): the short form, the extended one, and one of
//! the configuration's own.

use super::text_format::{FormatPiece, parse, write_common, write_ends, write_escaped};
use crate::output::{Format, Output, Piece, Pieces, Record};
use crate::output_kind::{Opened, Opening, OutputKind};
use crate::timestamp::Stamp;
use gabion_record::eve::{AppRecord, Wants};
use gabion_record::{Tree, TxText};

pub(crate) const KIND: OutputKind = OutputKind::new("http-log", open).with_file("http.log");

fn open(o: &mut Opening<'_>) -> Opened {
    let file = o.line_file("http.log")?;
    Ok(Some(Output::new(HttpLog::from_config(o.node), file)))
}

/// What stands between the members of a line.
const BETWEEN: &[u8] = b"[**]";

/// Writes lines of `http.log`.
#[derive(Clone, Debug, Default)]
struct HttpLog {
    stamp: Stamp,
    is_extended: bool,
    /// The configuration's own format.
    custom: Option<Vec<FormatPiece>>,
    line: Vec<u8>,
}

impl HttpLog {
    /// Reads the node of an `http-log` output.
    fn from_config(node: &Tree) -> HttpLog {
        let is_custom = node.flag("custom") == Some(true);
        HttpLog {
            is_extended: node.flag("extended") == Some(true),
            custom: node.text("customformat").filter(|_| is_custom).map(parse),
            ..HttpLog::default()
        }
    }

    /// The line of a request with its response.
    fn request(&mut self, r: &AppRecord<'_>) -> &[u8] {
        self.line.clear();
        match &self.custom {
            Some(pieces) => write_custom(pieces, r, &self.stamp, &mut self.line),
            None => {
                self.stamp.fast(r.header.ts_ns, &mut self.line);
                self.line.push(b' ');
                write_members(r, self.is_extended, &mut self.line);
                write_ends(&r.header, &mut self.line);
            }
        }
        self.line.push(b'\n');
        &self.line
    }
}

/// Writes a part of a request, or what stands for one that is not there.
fn write_part(r: &AppRecord<'_>, part: TxText<'_>, missing: &str, out: &mut Vec<u8>) {
    let mut is_there = false;
    r.object.text(part, &mut |text| {
        is_there = true;
        write_escaped(text, out);
    });
    if !is_there {
        out.extend_from_slice(missing.as_bytes());
    }
}

fn write_members(r: &AppRecord<'_>, is_extended: bool, out: &mut Vec<u8>) {
    let short = [
        (TxText::Host, "<hostname unknown>"),
        (TxText::Target, ""),
        (TxText::RequestField("user-agent"), "<useragent unknown>"),
    ];
    let extended = [
        (TxText::RequestField("referer"), "<no referer>"),
        (TxText::Method, ""),
        (TxText::Protocol, "<no protocol>"),
        (TxText::Status, "<no status>"),
    ];
    for (part, missing) in short.into_iter().chain(extended.into_iter().filter(|_| is_extended)) {
        write_part(r, part, missing, out);
        if part == TxText::Status && is_moved(r) {
            r.object.text(TxText::ResponseField("location"), &mut |text| {
                out.extend_from_slice(b" => ");
                write_escaped(text, out);
            });
        }
        out.extend_from_slice(BETWEEN);
    }
    if is_extended {
        write_part(r, TxText::ResponseLength, "0", out);
        out.extend_from_slice(b" bytes");
        out.extend_from_slice(BETWEEN);
    }
}

/// Whether the status is one with which Suricata writes where the client is sent.
fn is_moved(r: &AppRecord<'_>) -> bool {
    let mut is_moved = false;
    r.object.text(TxText::Status, &mut |status| is_moved = matches!(status, b"301" | b"302"));
    is_moved
}

fn write_custom(pieces: &[FormatPiece], r: &AppRecord<'_>, stamp: &Stamp, out: &mut Vec<u8>) {
    for piece in pieces {
        let (letter, argument) = match piece {
            FormatPiece::Text(text) => {
                out.extend_from_slice(text.as_bytes());
                continue;
            }
            FormatPiece::Field(letter, argument) => (*letter, argument.as_str()),
        };
        let part = match letter {
            'H' => TxText::Protocol,
            'm' => TxText::Method,
            'h' => TxText::Host,
            'u' => TxText::Target,
            's' => TxText::Status,
            'B' => TxText::ResponseLength,
            'b' => TxText::RequestLength,
            'i' => TxText::RequestField(argument),
            'o' => TxText::ResponseField(argument),
            'C' => {
                write_cookie(r, argument, out);
                continue;
            }
            _ if write_common((letter, argument), &r.header, stamp, out) => continue,
            _ => {
                out.push(b'-');
                continue;
            }
        };
        write_part(r, part, "-", out);
    }
}

/// Writes the value of a cookie up to its semicolon, which Suricata 8.0.7 writes too.
fn write_cookie(r: &AppRecord<'_>, name: &str, out: &mut Vec<u8>) {
    let mut is_there = false;
    r.object.text(TxText::RequestField("cookie"), &mut |cookies| {
        for cookie in cookies.split_inclusive(|b| *b == b';') {
            let cookie = cookie.trim_ascii_start();
            let value = cookie.strip_prefix(name.as_bytes()).and_then(|c| c.strip_prefix(b"="));
            if let (Some(value), false) = (value, is_there) {
                is_there = true;
                write_escaped(value, out);
            }
        }
    });
    if !is_there {
        out.push(b'-');
    }
}

impl Format for HttpLog {
    fn wants(&self) -> Wants {
        Wants { app: true, ..Wants::default() }
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        if let Record::App(r) = record
            && r.app_proto.app_proto == Some("http")
        {
            to.put(Piece::line(self.request(r)));
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}
