//! Rooms of findings, and what shards make whole, in a checkpoint: a type is known by its name, a sentence goes with
//! its finding. It stands above the registry of detectors, which knows all types by name.

use crate::detect::ALL;
use crate::outlet::Cell;
use crate::room::{Folded, Rank, Room, RoomCounts, Rooms, Scope, Single, Weight};
use gabion_record::Ip;
use gabion_record::evidence::{Evidence, EvidenceType, ReportReason};
use gabion_record::saved;
use gabion_record::saved::Saved;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The type of evidence of that name.
pub fn kind_of(name: &str) -> Option<&'static EvidenceType> {
    ALL.iter().flat_map(|(_, about)| about.types).copied().find(|kind| kind.name == name)
}

/// Why a finding is reported, by its number.
pub(crate) fn reason_of(number: u8) -> Option<ReportReason> {
    let all =
        [ReportReason::Threshold, ReportReason::Final, ReportReason::Counted, ReportReason::Ended];
    all.into_iter().find(|why| *why as u8 == number)
}

/// Methods that detectors name.
const METHODS: [&str; 3] = ["Heuristic", "AI", "Statistical"];

/// A finding as it is kept.
pub(crate) fn save_evidence(e: &Evidence, out: &mut Vec<u8>) {
    let Evidence {
        id,
        report_id,
        why,
        kind,
        says,
        words,
        measures,
        about,
        repeat,
        attacker,
        victim,
        level,
        confidence,
        profile,
        window,
        ts,
        uids,
        proto,
        src_port,
        dst_port,
        method,
        related,
        times,
        others,
        input_state,
    } = e;
    id.save(out);
    report_id.save(out);
    (*why as u8).save(out);
    kind.name.to_owned().save(out);
    says.to_string().save(out);
    words.save(out);
    measures.save(out);
    about.save(out);
    repeat.save(out);
    attacker.save(out);
    victim.save(out);
    level.save(out);
    confidence.save(out);
    profile.save(out);
    window.save(out);
    ts.save(out);
    uids.save(out);
    proto.save(out);
    src_port.save(out);
    dst_port.save(out);
    let method = METHODS.iter().position(|m| m == method).unwrap_or(0);
    method.save(out);
    related.save(out);
    times.save(out);
    others.save(out);
    input_state.save(out);
}

/// Reads what [`save_evidence`] wrote.
pub(crate) fn load_evidence(from: &mut &[u8]) -> Option<Evidence> {
    Some(Evidence {
        id: Saved::load(from)?,
        report_id: Saved::load(from)?,
        why: reason_of(u8::load(from)?)?,
        kind: kind_of(&String::load(from)?)?,
        says: Cow::Owned(Saved::load(from)?),
        words: Saved::load(from)?,
        measures: Saved::load(from)?,
        about: Saved::load(from)?,
        repeat: Saved::load(from)?,
        attacker: Saved::load(from)?,
        victim: Saved::load(from)?,
        level: Saved::load(from)?,
        confidence: Saved::load(from)?,
        profile: Saved::load(from)?,
        window: Saved::load(from)?,
        ts: Saved::load(from)?,
        uids: Saved::load(from)?,
        proto: Saved::load(from)?,
        src_port: Saved::load(from)?,
        dst_port: Saved::load(from)?,
        method: METHODS.get(usize::load(from)?)?,
        related: Saved::load(from)?,
        times: Saved::load(from)?,
        others: Saved::load(from)?,
        input_state: Saved::load(from)?,
    })
}

impl Saved for Single {
    fn save(&self, out: &mut Vec<u8>) {
        let Single { now, said, said_times, said_level } = self;
        save_evidence(now, out);
        said.save(out);
        said_times.save(out);
        said_level.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(Single {
            now: Box::new(load_evidence(from)?),
            said: Saved::load(from)?,
            said_times: Saved::load(from)?,
            said_level: Saved::load(from)?,
        })
    }
}

impl Saved for Weight {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
        self.1.save(out);
        self.2.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(Weight(Saved::load(from)?, Saved::load(from)?, Saved::load(from)?))
    }
}

impl Saved for Scope {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Scope::Source(ip) => {
                out.push(0);
                ip.save(out);
            }
            Scope::Target(hash) => {
                out.push(1);
                hash.save(out);
            }
            Scope::Rest => out.push(2),
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::load(from)? {
            0 => Scope::Source(Saved::load(from)?),
            1 => Scope::Target(Saved::load(from)?),
            2 => Scope::Rest,
            _ => return None,
        })
    }
}

impl Saved for Cell {
    fn save(&self, out: &mut Vec<u8>) {
        let Cell { kind, is_info, window, known, bits: _, heaviest } = self;
        (kind.name.to_owned(), *is_info, *window).save(out);
        known.iter().map(|(key, ip)| (*key, *ip)).collect::<Vec<_>>().save(out);
        heaviest.to_vec().save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let (name, is_info, window) = <(String, bool, i64)>::load(from)?;
        let mut cell = Cell::new(kind_of(&name)?, is_info, window);
        Vec::<(u64, Ip)>::load(from)?.into_iter().for_each(|(key, ip)| cell.know(key, ip));
        cell.heaviest = Vec::<Option<Weight>>::load(from)?.try_into().ok()?;
        Some(cell)
    }
}

/// One of the weightiest.
struct Heavy(Weight, Box<Evidence>);

impl Saved for Heavy {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
        save_evidence(&self.1, out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(Heavy(Saved::load(from)?, Box::new(load_evidence(from)?)))
    }
}

impl Saved for Folded {
    fn save(&self, out: &mut Vec<u8>) {
        let Folded { scope, id, first, count, said, level, confidence, hosts, measures, heaviest } =
            self;
        scope.save(out);
        id.save(out);
        save_evidence(first, out);
        count.save(out);
        said.save(out);
        level.save(out);
        confidence.save(out);
        let mut sketch = Vec::new();
        crate::state::State::encode(hosts, &mut sketch);
        sketch.save(out);
        measures.save(out);
        heaviest.len().save(out);
        for (weight, e) in heaviest {
            weight.save(out);
            save_evidence(e, out);
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(Folded {
            scope: Saved::load(from)?,
            id: Saved::load(from)?,
            first: Box::new(load_evidence(from)?),
            count: Saved::load(from)?,
            said: Saved::load(from)?,
            level: Saved::load(from)?,
            confidence: Saved::load(from)?,
            hosts: {
                let sketch = Vec::<u8>::load(from)?;
                crate::state::State::decode(&mut crate::state::Decoder(&sketch))?
            },
            measures: Saved::load(from)?,
            heaviest: Vec::<Heavy>::load(from)?.into_iter().map(|h| (h.0, h.1)).collect(),
        })
    }
}

saved! {
    Room { singles, of_source, of_target, repeats, folded, most }
    RoomCounts { findings, reports, folded }
}

impl Saved for Rooms {
    fn save(&self, out: &mut Vec<u8>) {
        let Rooms { windows, lasting, closed, counts } = self;
        lasting.save(out);
        closed.save(out);
        counts.save(out);
        windows.len().save(out);
        for (window, rooms) in windows {
            window.save(out);
            rooms.len().save(out);
            for ((kind, is_info), room) in rooms {
                (*kind).to_owned().save(out);
                is_info.save(out);
                room.save(out);
            }
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let (lasting, closed, counts) =
            (Saved::load(from)?, Saved::load(from)?, Saved::load(from)?);
        let mut windows = BTreeMap::new();
        for _ in 0..usize::load(from)? {
            let (window, len) = <(i64, usize)>::load(from)?;
            let mut rooms: BTreeMap<Rank, Room> = BTreeMap::new();
            for _ in 0..len {
                let (kind, is_info) = <(String, bool)>::load(from)?;
                rooms.insert((kind_of(&kind)?.name, is_info), Saved::load(from)?);
            }
            windows.insert(window, rooms);
        }
        Some(Rooms { windows, lasting, closed, counts })
    }
}
