//! `http.log`: one line a request, as Suricata 8.0.7 writes it (observed): the short form, the extended one, and one of
//! the configuration's own.

use super::text_format::{LineFormat, write_ends, write_escaped};
use crate::output::{Format, Output, Piece, Pieces, Record};
use crate::output_kind::{Opened, Opening, OutputKind};
use gabion_record::TxText;
use gabion_record::applayer::LineLog;
use gabion_record::eve::{AppRecord, Wants};

pub(crate) const KIND: OutputKind = OutputKind::new("http-log", open).with_file("http.log");

fn open(o: &mut Opening<'_>) -> Opened {
    let file = o.line_file("http.log")?;
    Ok(Some(Output::new(
        HttpLog { format: LineFormat::from_config(o.node), line: Vec::new() },
        file,
    )))
}

/// What stands between the members of a line.
const BETWEEN: &[u8] = b"[**]";

/// Writes lines of `http.log`.
#[derive(Clone, Debug, Default)]
struct HttpLog {
    format: LineFormat,
    line: Vec<u8>,
}

impl HttpLog {
    /// The line of a request with its response.
    fn request(&mut self, r: &AppRecord<'_>) -> &[u8] {
        let HttpLog { format, line } = self;
        line.clear();
        let write = |letter: char, argument: &str, out: &mut Vec<u8>| {
            write_field((letter, argument), r, out)
        };
        if !format.write_custom(&r.header, &write, line) {
            format.write_time(&r.header, line);
            write_members(r, format.is_extended, line);
            write_ends(&r.header, line);
        }
        line.push(b'\n');
        line
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

/// Writes a field of a configuration's format; false if this output has no such letter.
fn write_field((letter, argument): (char, &str), r: &AppRecord<'_>, out: &mut Vec<u8>) -> bool {
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
            return true;
        }
        _ => return false,
    };
    write_part(r, part, "-", out);
    true
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

    fn logs_transactions(&self, _: &str, line_log: Option<LineLog>) -> bool {
        line_log == Some(LineLog::Http)
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        if let Record::App(r) = record
            && r.line_log == Some(LineLog::Http)
        {
            to.put(Piece::line(self.request(r)));
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}
