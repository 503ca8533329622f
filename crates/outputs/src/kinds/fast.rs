//! `fast.log`: one line an alert, as Suricata writes it.

use crate::output::{Format, Output, Piece, Pieces, Record};
use crate::output_kind::{Opened, Opening, OutputKind};
use crate::protocol_names::ip_protocol;
use crate::timestamp::Stamp;
use gabion_record::eve::{AlertRecord, Wants};

pub(crate) const KIND: OutputKind = OutputKind::new("fast", open).with_file("fast.log");

fn open(o: &mut Opening<'_>) -> Opened {
    Ok(Some(Output::new(FastWriter::default(), o.line_file("fast.log")?)))
}

/// Writes `fast.log` lines.
#[derive(Debug, Default)]
pub struct FastWriter {
    stamp: Stamp,
    line: Vec<u8>,
}

impl FastWriter {
    /// The line of an alert.
    pub fn alert(&mut self, r: &AlertRecord<'_>) -> &[u8] {
        let h = &r.header;
        let out = &mut self.line;
        out.clear();
        self.stamp.fast(h.ts_ns, out);
        out.extend_from_slice(b"  ");
        if let Some(dropped) = r.drop_mark {
            out.extend_from_slice(if dropped { b"[Drop] " } else { b"[wDrop] " });
        }
        let s = &r.signature;
        let msg = if s.has_msg { s.msg } else { "(null)" };
        let class = if s.category.is_empty() { "(null)" } else { s.category };
        out.extend_from_slice(
            format!(
                "[**] [{}:{}:{}] {msg} [**] [Classification: {class}] [Priority: {}] ",
                s.gid, s.sid, s.rev, s.severity
            )
            .as_bytes(),
        );
        if h.ip_version == 0 {
            out.extend_from_slice(b"[**] [Raw pkt: ");
            for b in r.packet.iter().take(30) {
                out.extend_from_slice(format!("{b:02X} ").as_bytes());
            }
            out.extend_from_slice(b"]\n");
            return out;
        }
        match ip_protocol(h.ip_proto) {
            Some(name) => out.extend_from_slice(format!("{{{name}}} ").as_bytes()),
            None => out.extend_from_slice(format!("{{PROTO:{:03}}} ", h.ip_proto.0).as_bytes()),
        }
        // ICMP shows type and code where others show ports.
        let ports = h.ports.or(h.icmp.map(|(t, c)| (u16::from(t), u16::from(c)))).unwrap_or((0, 0));
        h.src.write(h.ip_version, out);
        out.extend_from_slice(format!(":{} -> ", ports.0).as_bytes());
        h.dst.write(h.ip_version, out);
        out.extend_from_slice(format!(":{}\n", ports.1).as_bytes());
        out
    }
}

impl Format for FastWriter {
    fn wants(&self) -> Wants {
        Wants { alerts: true, ..Wants::default() }
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        let Record::Alert(r) = record else { return false };
        to.put(Piece::line(self.alert(r)));
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(FastWriter::default())
    }
}
