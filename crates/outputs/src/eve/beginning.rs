//! What a record begins with: kept from record to record, since a packet's records share it.

use super::writer::{Client, EveWriter, endpoints, ether, ids, proto, spi, timestamp, vlans};
use crate::{VERSION, community};
use gabion_record::eve::Header;
use gabion_record::{Addr, IpProto, PacketSource};

/// VLAN tags of a packet by which its beginning is known; the beginning of a packet with more is written again.
const VLANS_KEPT: usize = 4;

/// All of a record's common part that its beginning is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
struct HeaderKey {
    times: (u64, Option<u64>, u16),
    flow: (Option<u64>, Option<u64>),
    vlan: ([u16; VLANS_KEPT], usize),
    ip: (u8, IpProto),
    ends: (Addr, Addr),
    ports: Option<(u16, u16)>,
    icmp: Option<(u8, u8)>,
    spi: Option<u32>,
    pkt_src: Option<PacketSource>,
}

impl HeaderKey {
    /// None where it is not known by a few numbers.
    fn from_header(h: &Header<'_>) -> Option<HeaderKey> {
        let mut vlan = [0; VLANS_KEPT];
        vlan.get_mut(..h.vlan.len())?.copy_from_slice(h.vlan);
        Some(HeaderKey {
            times: (h.ts_ns, h.pcap_cnt, h.device),
            flow: (h.flow_id, h.parent_id),
            vlan: (vlan, h.vlan.len()),
            ip: (h.ip_version, h.ip_proto),
            ends: (h.src, h.dst),
            ports: h.ports,
            icmp: h.icmp,
            spi: h.spi,
            pkt_src: h.pkt_src,
        })
    }
}

/// What the last records began with: those of a packet name its sender first, or the client of its
/// flow.
#[derive(Debug, Default)]
pub(super) struct Beginnings {
    kept: [Beginning; 2],
    /// The one that was used last.
    last: usize,
}

/// What a record began with: members of an object.
#[derive(Debug, Default)]
struct Beginning {
    key: Option<HeaderKey>,
    text: Vec<u8>,
    /// Time and ids end here; the type follows.
    ids_end: usize,
    /// Bytes of what says where it was seen; the community id follows.
    place_len: usize,
}

impl EveWriter {
    /// Begins the line of a record.
    pub(super) fn begin(&mut self, h: &Header<'_>, event_type: &str) {
        self.begin_with(h, event_type, None);
    }

    /// The same. A client replaces the address of its proxy, and nothing else: ports, version and community id are
    /// those of the flow.
    pub(super) fn begin_with(&mut self, h: &Header<'_>, event_type: &str, client: Option<Client>) {
        let key = if client.is_some() { None } else { HeaderKey::from_header(h) };
        let kept = &mut self.beginnings;
        let is_it = |at: &usize| key.is_some() && kept.kept[*at].key == key;
        let found = [kept.last, 1 - kept.last].into_iter().find(is_it);
        kept.last = found.unwrap_or(1 - kept.last);
        let last = kept.last;
        if found.is_none() {
            self.make_beginning(h, last, client);
            self.beginnings.kept[last].key = key;
        }
        let begun = &self.beginnings.kept[last];
        let j = &mut self.line;
        j.clear();
        j.open();
        let (ids, rest) = begun.text.split_at(begun.ids_end);
        let (place, community) = rest.split_at(begun.place_len);
        j.members(ids);
        j.field_plain("event_type", event_type);
        j.members(place);
        // What has no addresses is known by its frame's.
        let in_place = h.ip_version == 0 && matches!(event_type, "alert" | "anomaly");
        if (self.settings.ethernet || in_place)
            && let Some(e) = &h.ether
        {
            ether(j, e);
        }
        if self.settings.metadata
            && let Some(m) = h.metadata
        {
            m.write(j, None, false);
        }
        j.members(community);
    }

    /// Writes what a record begins with, but for its type: records of one packet share it, and a
    /// packet may have hundreds.
    fn make_beginning(&mut self, h: &Header<'_>, at: usize, client: Option<Client>) {
        let j = &mut self.line;
        let Beginning { text, ids_end, place_len, .. } = &mut self.beginnings.kept[at];
        text.clear();
        j.clear();
        timestamp(j, &mut self.stamp, &mut self.scratch, "timestamp", h.ts_ns);
        ids(j, h, &self.interfaces);
        // Frames of an interface have no place in a capture.
        if let (Some(n), true) = (h.pcap_cnt, self.interfaces.is_empty()) {
            j.number("pcap_cnt", n);
        }
        text.extend_from_slice(j.bytes());
        *ids_end = text.len();
        j.clear();
        vlans(j, h);
        endpoints(j, &mut self.scratch, h, client);
        if h.ip_version != 0 {
            proto(j, h.ip_proto);
            j.number("ip_v", h.ip_version);
        }
        if let Some((t, c)) = h.icmp {
            j.number("icmp_type", t);
            j.number("icmp_code", c);
        }
        spi(j, h);
        j.field_plain("pkt_src", h.pkt_src.map_or("", PacketSource::name));
        if self.settings.version {
            j.field_plain("suricata_version", VERSION);
        }
        text.extend_from_slice(j.bytes());
        *place_len = j.len();
        j.clear();
        self.community(h);
        self.beginnings.kept[at].text.extend_from_slice(self.line.bytes());
    }

    /// Writes the community id, where it is wanted.
    pub(super) fn community(&mut self, h: &Header<'_>) {
        if let Some(seed) = self.settings.community_id
            && h.flow_id.is_some()
            && h.ip_version != 0
        {
            self.scratch.clear();
            community::write(h, seed, &mut self.scratch);
            self.line.field("community_id", &self.scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eve::EveSettings;
    use gabion_record::Tree;

    fn header(n: u64, vlan: &[u16]) -> Header<'_> {
        Header {
            ts_ns: 1_000_000_000,
            flow_id: Some(n),
            parent_id: None,
            pcap_cnt: Some(n),
            device: 0,
            vlan,
            ip_version: 4,
            src: Addr::v4([1, 2, 3, n as u8]),
            dst: Addr::v4([5, 6, 7, 8]),
            ports: Some((9, 10)),
            ip_proto: IpProto::TCP,
            icmp: None,
            spi: None,
            pkt_src: Some(PacketSource::Wire),
            metadata: None,
            ether: None,
        }
    }

    /// A writer that has written other records before writes what a new one writes.
    #[test]
    fn what_is_kept_of_one_packet_is_in_no_record_of_another() {
        let mut node = Tree::default();
        node.set("community-id", "yes");
        node.set("suricata-version", "yes");
        let writer = || EveWriter::new(EveSettings::from_config(&node, None));
        let mut old = writer();
        let (many, few) = ([1, 2, 3, 4, 5], [1, 2]);
        let mut others = vec![header(1, &[]), header(2, &few), header(2, &many), header(3, &many)];
        let (mut ported, mut later) = (header(3, &[]), header(3, &[]));
        ported.ports = None;
        later.ts_ns += 1000;
        others.extend([ported, later, header(4, &[])]);
        for h in &others {
            for event_type in ["alert", "http"] {
                for _ in 0..2 {
                    old.begin(h, event_type);
                    let mut new = writer();
                    new.begin(h, event_type);
                    let (old, new) = (old.line.bytes(), new.line.bytes());
                    assert_eq!(String::from_utf8_lossy(old), String::from_utf8_lossy(new));
                }
            }
        }
    }
}
