//! Sources seen once: 48 bytes each, until they show again or are folded.
//!
//! A flood of spoofed sources brings millions of addresses with one flow each. Such a source is kept
//! as a seed: enough of its one flow to make its profile from it when a second comes. Seeds are in
//! sets of four places; an evicted source is folded into a sketch and counted, and gets a profile at
//! once when it comes again.

use crate::limits::SEEDS_SAVED_MAX;
use crate::sketch::{hash_ip, mix};
use crate::state::{Decoder, State};
use gabion_record::Ip;
use gabion_record::logs::{Body, Conn, ConnState, Label, Proto, Record, Service, TimeNs};
use gabion_record::saved;
use gabion_record::saved::{Saved, load_bytes, save_bytes};

/// Places of a set.
const WAYS: usize = 4;
/// Sets of a shard at first: 1.5 KiB.
const SETS_FIRST: usize = 8;
/// Rows of the sketch.
const ROWS: usize = 4;
/// Counters of a row: 16 KiB a shard in all.
const WIDTH: usize = 1 << 12;

/// One flow, packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seed {
    src: Ip,
    /// The responder's address, or that and large numbers: see [`Wide`].
    dst: Ip,
    /// Microseconds since 1970 in 52 bits, then the application protocol's place in [`SERVICES`] and what
    /// `port_or_time` is.
    time: [u8; 7],
    /// The originator's port, or milliseconds that the flow lasted.
    port_or_time: u16,
    dst_port: u16,
    /// Protocol, and what is true of the flow.
    marks: u8,
    /// Packets of the originator, and in the highest bit whether the responder sent bytes.
    packets: u8,
    /// Bytes of the originator, 24 bits. Of a wide seed the upper bits of its packets.
    bytes: [u8; 3],
}

/// An IPv4 address needs a quarter of the room of `dst`: the rest holds numbers that are too large for other seeds.
#[derive(Clone, Copy, Debug)]
struct Wide {
    dst: u32,
    /// Bytes of the originator, 56 bits.
    bytes: u64,
    /// Milliseconds that the flow lasted.
    lasted: u32,
}

/// The first byte of a wide seed's `dst`. No address begins with it: 4000::/3 is not assigned (RFC 4291, and IANA's
/// table of it).
const WIDE: u8 = 0x4d;

impl Wide {
    fn from_flow(dst: Ip, bytes: u64, lasted: i64) -> Option<Wide> {
        let bytes = Some(bytes).filter(|bytes| *bytes < 1 << 56)?;
        Some(Wide { dst: dst.as_v4()?, bytes, lasted: u32::try_from(lasted).ok()? })
    }

    fn packed(self) -> Ip {
        let high = u64::from(WIDE) << 56 | self.bytes;
        let low = u64::from(self.lasted) << 32 | u64::from(self.dst);
        Ip::from_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }

    fn from_packed(packed: Ip) -> Option<Wide> {
        let all = u128::from_be_bytes(packed.to_bytes());
        let (high, low) = ((all >> 64) as u64, all as u64);
        let wide = Wide { dst: low as u32, bytes: high << 8 >> 8, lasted: (low >> 32) as u32 };
        (high >> 56 == u64::from(WIDE)).then_some(wide)
    }
}

/// Application protocols that a seed can name; a flow of another becomes a profile at once.
const SERVICES: [Service<'static>; 8] = [
    Service::Unknown,
    Service::Ssl,
    Service::Http,
    Service::Dns,
    Service::Smtp,
    Service::Ftp,
    Service::Quic,
    Service::Ntp,
];

/// Bits of a service and of the mark that follows it.
const SERVICE_BITS: u32 = 4;

/// The mark that `port_or_time` is the time the flow lasted.
const LASTED: u64 = 1;

/// Ports from here on are chosen by systems for their own ends and stand for no service, so that one does
/// for all (RFC 6056; Linux begins here). A flow from a lower port that also lasted is no seed.
const EPHEMERAL: u16 = 32_768;

const ESTABLISHED: u8 = 0x10;
const FLIPPED: u8 = 0x20;
const REFUSED: u8 = 0x40;
const KNOWS_SERVICE: u8 = 0x80;
const REPLIED: u8 = 0x80;

impl Seed {
    /// Packs a record; `None` when it says more than a seed can hold.
    pub(crate) fn from_record(r: &Record<'_>) -> Option<Seed> {
        let Body::Conn(c) = &r.body else { return None };
        // A flow of SSH waits for its handshake, by an id that does not fit into a seed.
        let service = SERVICES.iter().position(|s| *s == c.service)? as u64;
        let is_plain = r.dst_port != 22
            && !c.has_no_ports
            && !r.is_late
            && c.src_mac.is_none()
            && c.dst_mac.is_none();
        let micros = u64::try_from(r.ts.0 / 1000).ok().filter(|t| *t < 1 << (56 - SERVICE_BITS))?;
        let lasted = c.duration_ns / 1_000_000;
        let is_wide = c.orig_bytes >= 1 << 24
            || c.orig_pkts >= u64::from(REPLIED)
            || lasted > i64::from(u16::MAX)
            || lasted > 0 && r.src_port < EPHEMERAL;
        // A seed holds microseconds.
        if !is_plain || r.ts.0 % 1000 != 0 || r.dst.to_bytes()[0] == WIDE {
            return None;
        }
        let packets = (c.orig_pkts % u64::from(REPLIED)) as u8;
        let (dst, upper, port_or_time, mark_lasted) = if is_wide {
            let packets = u32::try_from(c.orig_pkts / u64::from(REPLIED)).ok()?;
            let wide = Wide::from_flow(r.dst, c.orig_bytes, lasted)?;
            (wide.packed(), packets, r.src_port, 0)
        } else {
            let bytes = u32::try_from(c.orig_bytes).ok()?;
            match u16::try_from(lasted).ok()? {
                0 => (r.dst, bytes, r.src_port, 0),
                lasted => (r.dst, bytes, lasted, LASTED),
            }
        };
        let place = service << 1 | mark_lasted;
        let [_, time @ ..] = (micros << SERVICE_BITS | place).to_be_bytes();
        let [0, bytes @ ..] = upper.to_be_bytes() else { return None };
        let mark = |is: bool, bit: u8| if is { bit } else { 0 };
        Some(Seed {
            src: r.src,
            dst,
            time,
            port_or_time,
            dst_port: r.dst_port,
            marks: r.proto as u8
                | mark(c.is_established, ESTABLISHED)
                | mark(c.history.contains(&b'^'), FLIPPED)
                | mark(c.state == ConnState::Refused, REFUSED)
                | mark(c.knows_service, KNOWS_SERVICE),
            packets: packets | mark(c.resp_bytes > 0, REPLIED),
            bytes,
        })
    }

    /// Whose flow it is.
    pub(crate) fn src(&self) -> Ip {
        self.src
    }

    /// The moment of its flow.
    pub(crate) fn ts(&self) -> TimeNs {
        let micros = self.time_and_service() >> SERVICE_BITS;
        TimeNs(i64::try_from(micros).unwrap_or(0).saturating_mul(1000))
    }

    fn time_and_service(&self) -> u64 {
        let [a, b, c, d, e, f, g] = self.time;
        u64::from_be_bytes([0, a, b, c, d, e, f, g])
    }

    /// The flow, as far as detectors' state depends on it.
    pub(crate) fn record(&self) -> Record<'static> {
        let has = |bit: u8| self.marks & bit != 0;
        let [a, b, c] = self.bytes;
        let place = self.time_and_service() & ((1 << SERVICE_BITS) - 1);
        let upper = u64::from(u32::from_be_bytes([0, a, b, c]));
        let packets = u64::from(self.packets % REPLIED);
        let (dst, lasted, bytes, packets) = match Wide::from_packed(self.dst) {
            Some(wide) => {
                let packets = upper * u64::from(REPLIED) + packets;
                (Ip::v4(wide.dst), wide.lasted, wide.bytes, packets)
            }
            None if place & LASTED == 0 => (self.dst, 0, upper, packets),
            None => (self.dst, self.port_or_time.into(), upper, packets),
        };
        let src_port = if place & LASTED == 0 { self.port_or_time } else { u16::MAX };
        let proto = Proto::from_kept(self.marks & 0x0f).unwrap_or_default();
        Record {
            ts: self.ts(),
            src: self.src,
            dst,
            src_port,
            dst_port: self.dst_port,
            proto,
            uid: b"",
            label: Label::None,
            is_late: false,
            body: Body::Conn(Conn {
                service: SERVICES.get(place as usize >> 1).copied().unwrap_or_default(),
                knows_service: has(KNOWS_SERVICE),
                duration_ns: i64::from(lasted) * 1_000_000,
                orig_bytes: bytes,
                resp_bytes: u64::from(self.packets >= REPLIED),
                orig_pkts: packets,
                state: if has(REFUSED) { ConnState::Refused } else { ConnState::default() },
                is_established: has(ESTABLISHED),
                history: if has(FLIPPED) { b"^" } else { b"" },
                ..Conn::default()
            }),
        }
    }
}

/// As a part of a profile.
impl State for Seed {
    fn encode(&self, out: &mut Vec<u8>) {
        self.save(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Seed::load(&mut from.0)
    }
    fn merge(&mut self, _: Self) {}
}

/// The table, and what was folded out of it.
#[derive(Debug)]
pub(crate) struct Seeds {
    /// `WAYS` places a set; an unused one has the default seed. Grows by sets as it is used.
    places: Vec<Seed>,
    sets: usize,
    sets_max: usize,
    folded: Option<Box<[u8]>>,
    /// Sources folded.
    pub folds: u64,
    held: u64,
}

saved! {
    Seed { src, dst, time, port_or_time, dst_port, marks, packets, bytes }
}

/// Seeds go with their places, so that the same one is pushed out next; how large the table may become
/// is the reader's to say.
impl Saved for Seeds {
    fn save(&self, out: &mut Vec<u8>) {
        let Seeds { places, sets, sets_max: _, folded, folds, held } = self;
        (places.len(), *sets, *folds).save(out);
        held.save(out);
        for (at, seed) in places.iter().enumerate().filter(|(_, s)| **s != Seed::default()) {
            (at, *seed).save(out);
        }
        folded.is_some().save(out);
        save_bytes(folded.as_deref().unwrap_or_default(), out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let (len, sets, folds) = <(usize, usize, u64)>::load(from)?;
        let held = u64::load(from)?;
        let is_right = sets.is_power_of_two()
            && (len == 0 || Some(len) == sets.checked_mul(WAYS))
            && len <= SEEDS_SAVED_MAX;
        if !is_right || held > len as u64 {
            return None;
        }
        let mut places = vec![Seed::default(); len];
        for _ in 0..held {
            let (at, seed) = <(usize, Seed)>::load(from)?;
            *places.get_mut(at)? = seed;
        }
        let has_folded = bool::load(from)?;
        let bytes = load_bytes(from)?;
        let folded = has_folded.then(|| bytes.to_vec().into_boxed_slice());
        if bytes.len() != if has_folded { ROWS * WIDTH } else { 0 } {
            return None;
        }
        Some(Seeds { places, sets, sets_max: sets, folded, folds, held })
    }
}

impl Seeds {
    /// A table of this many bytes at most.
    pub(crate) fn new(bytes: usize) -> Seeds {
        let sets_max = 1 << (bytes / (WAYS * size_of::<Seed>())).max(1).ilog2();
        let sets = sets_max.min(SETS_FIRST);
        Seeds { places: Vec::new(), sets, sets_max, folded: None, folds: 0, held: 0 }
    }

    /// Takes over how large another table may become. False when this one is larger already.
    pub(crate) fn bounded_as(&mut self, other: &Seeds) -> bool {
        self.sets_max = other.sets_max;
        self.sets <= self.sets_max
    }

    /// Every seed, in the order of places.
    pub(crate) fn each(&self) -> impl Iterator<Item = Seed> {
        self.places.iter().copied().filter(|s| *s != Seed::default())
    }

    /// Doubles the table: each set becomes two, so nothing is pushed out.
    fn grow(&mut self) {
        self.sets *= 2;
        let held = std::mem::take(&mut self.places);
        for seed in held.into_iter().filter(|s| *s != Seed::default()) {
            let free = self.set(seed.src).iter_mut().find(|s| **s == Seed::default());
            if let Some(place) = free {
                *place = seed;
            }
        }
    }

    fn set(&mut self, ip: Ip) -> &mut [Seed] {
        if self.places.is_empty() {
            self.places.resize(self.sets * WAYS, Seed::default());
        }
        let at = (mix(hash_ip(ip)) as usize % self.sets) * WAYS;
        self.places.get_mut(at..at + WAYS).unwrap_or_default()
    }

    /// Prefetches the places of a source and what was folded there.
    #[inline]
    pub(crate) fn prefetch(&self, ip: Ip) -> usize {
        let at = (mix(hash_ip(ip)) as usize % self.sets) * WAYS;
        let places = self.places.get(at..at + WAYS).unwrap_or_default();
        let seen = places.iter().fold(0, |sum, seed| sum ^ usize::from(seed.marks));
        let Some(folded) = &self.folded else { return seen };
        cells(ip).filter_map(|at| folded.get(at)).fold(seen, |sum, n| sum ^ usize::from(*n))
    }

    /// Takes a source's seed out.
    pub(crate) fn take_seed(&mut self, ip: Ip) -> Option<Seed> {
        if self.places.is_empty() {
            return None;
        }
        let place = self.set(ip).iter_mut().find(|s| s.src == ip && **s != Seed::default())?;
        let seed = std::mem::take(place);
        self.held -= 1;
        Some(seed)
    }

    /// How many there are.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Puts a seed in; the oldest of a full set is folded. True when one was.
    pub(crate) fn put(&mut self, seed: Seed) -> bool {
        if self.held as usize * 2 >= self.sets * WAYS && self.sets < self.sets_max {
            self.grow();
        }
        let set = self.set(seed.src);
        let free = set.iter_mut().find(|s| **s == Seed::default());
        let out = match free {
            Some(place) => std::mem::replace(place, seed),
            None => match set.iter_mut().min_by_key(|s| s.time) {
                Some(place) => std::mem::replace(place, seed),
                None => return false,
            },
        };
        if out == Seed::default() {
            self.held += 1;
            return false;
        }
        self.fold(out.src);
        true
    }

    /// Remembers of a source only that it was there.
    pub(crate) fn fold(&mut self, ip: Ip) {
        self.folds += 1;
        let folded = self.folded.get_or_insert_with(|| vec![0; ROWS * WIDTH].into_boxed_slice());
        for at in cells(ip) {
            if let Some(cell) = folded.get_mut(at) {
                *cell = cell.saturating_add(1);
            }
        }
    }

    /// Whether a source was folded before, by the least of its counters; a flood makes that true of
    /// some that were not.
    pub(crate) fn was_folded(&self, ip: Ip) -> bool {
        let Some(folded) = &self.folded else { return false };
        let least = cells(ip).filter_map(|at| folded.get(at)).min().copied().unwrap_or(0);
        // With many folded, a counter of chance is no sign; the mean says what chance is.
        let chance = (self.folds / WIDTH as u64).min(120) as u8;
        least > chance * 2
    }

    /// Forgets all, when their windows are gone; how many there were.
    pub(crate) fn clear(&mut self) -> u64 {
        self.places.fill(Seed::default());
        self.folded = None;
        std::mem::take(&mut self.held)
    }
}

fn cells(ip: Ip) -> impl Iterator<Item = usize> {
    let hash = hash_ip(ip);
    (0..ROWS as u64).map(move |row| row as usize * WIDTH + mix(hash ^ row) as usize % WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{at, conn};

    #[test]
    fn a_seed_is_48_bytes_and_gives_its_flow_back() {
        assert_eq!(size_of::<Seed>(), 48);
        let mut flow = conn(1_700_000_000, "10.0.0.1", "1.2.3.4", 23).refused();
        flow.state = "REJ";
        let seed = Seed::from_record(&flow.record()).unwrap();
        let back = seed.record();
        assert_eq!((back.ts, back.dst, back.dst_port), (TimeNs(flow.ts), flow.dst, 23));
        let Body::Conn(c) = back.body else { panic!("not a conn") };
        assert!(!c.is_established && c.state == ConnState::Refused && c.orig_pkts == 2);
        let mut flow = conn(1_700_000_000, "10.0.0.1", "1.2.3.4", 443).lasting(65.5);
        flow.service = "ssl";
        let back = Seed::from_record(&flow.record()).unwrap().record();
        let Body::Conn(c) = back.body else { panic!("not a conn") };
        assert!(c.service == Service::Ssl && c.is_established && c.duration_ns == 65_500_000_000);
        assert_eq!(back.ts, TimeNs(flow.ts));
        let mut low = flow.clone();
        low.src_port = 53;
        assert_eq!(
            Seed::from_record(&low.clone().lasting(0.0).record()).unwrap().record().src_port,
            53
        );
        // Behind an IPv4 address there is room for large numbers; behind one of IPv6 there is none.
        for larger in [flow.clone().sending(1 << 24), flow.clone().lasting(66.0), low.clone()] {
            let mut six = larger.clone();
            six.dst = at("2001:db8::1");
            assert_eq!(Seed::from_record(&six.record()), None);
            assert_eq!(size_of_val(&Seed::from_record(&larger.record()).unwrap()), 48);
        }
        let huge = low.sending((1 << 56) - 1).lasting(4_294_967.0);
        let (there, seed) = (huge.record(), Seed::from_record(&huge.record()).unwrap());
        let back = seed.record();
        assert_eq!((back.dst, back.dst_port, back.src_port), (there.dst, 443, 53));
        let (Body::Conn(a), Body::Conn(b)) = (back.body, there.body) else { panic!("not a conn") };
        assert_eq!((a.orig_bytes, a.duration_ns), (b.orig_bytes, b.duration_ns));
        assert_eq!((a.orig_pkts, a.service), (b.orig_pkts, b.service));
        // An address that begins as a wide seed does is no seed, however little was sent there.
        let mut odd = flow;
        odd.dst = at("4d00::1");
        assert_eq!(Seed::from_record(&odd.record()), None);
    }

    #[test]
    fn a_full_table_folds_and_knows_which_sources() {
        let mut seeds = Seeds::new(64 << 10);
        for n in 0..4_000u32 {
            let mut flow = conn(n.into(), "10.0.0.1", "1.2.3.4", 23).refused();
            flow.src = Ip::v4(n);
            seeds.put(Seed::from_record(&flow.record()).unwrap());
        }
        assert!(seeds.folds > 2000);
        let known = (0..4_000).filter(|n| seeds.was_folded(Ip::v4(*n))).count() as u64;
        assert!(known >= seeds.folds && known < seeds.folds + 500, "{known} {}", seeds.folds);
        assert!(
            seeds.take_seed(Ip::v4(3_999)).is_some() && seeds.take_seed(Ip::v4(3_999)).is_none()
        );
    }
}
