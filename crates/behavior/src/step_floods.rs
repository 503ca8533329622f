//! Floods of new keys over every budgeted table: the steps that a record costs stay within twice those of
//! records whose keys fit, at a sixteenth, a quarter and all of the budget, with one, two and four holders of
//! profiles. Nothing here measures time.

use crate::engine::{Back, Front};
use crate::settings::Settings;
use crate::shard::shard_of;
use crate::shards::{Ends, Placed, Shards};
use crate::steps;
use crate::trial::{Flow, conn, log};
use gabion_record::Ip;
use gabion_record::logs::{Body, Dns, Http, Record, SECOND, Ssl};
use std::sync::Arc;

const ROOM: usize = 16 << 20;
const RECORDS: u32 = 24_000;
/// Records between two collections of what was found.
const BATCH: u32 = 64;

/// Returns the `n`th record of a flood whose keys are numbered: a new one each time, or a few.
type Make = fn(n: u32, key: u32, each: &mut dyn FnMut(&Record<'_>));

/// Several holders of shards, as threads would be, without the threads.
struct Holders {
    front: Front,
    back: Back,
    holders: Vec<Shards>,
    placed: Vec<Placed>,
    newest: i64,
}

impl Holders {
    fn new(holders: usize, bytes: usize) -> Holders {
        let settings = Arc::new(Settings::default());
        Holders {
            front: Front::new(Arc::clone(&settings), None),
            back: Back::new(Arc::clone(&settings)),
            holders: (0..holders).map(|_| Shards::new(Arc::clone(&settings), bytes)).collect(),
            placed: Vec::new(),
            newest: 0,
        }
    }

    fn record(&mut self, r: &Record<'_>) {
        let (number, facts) = self.front.observe_record(r);
        if facts.newest > self.newest {
            self.newest = facts.newest;
            for holder in &mut self.holders {
                holder.turn(facts.newest, number, facts.watermark, &mut self.placed);
            }
        }
        let ends = self.front.ends(r);
        let (count, holders) = (self.holders[0].count(), self.holders.len());
        let holder_of = |ip| shard_of(ip, count) % holders;
        let (src, dst) = (holder_of(r.src), holder_of(r.dst));
        let mut give = |to: usize, ends| {
            self.holders[to].record(number, r, &facts, ends, &mut self.placed);
        };
        match ends {
            Ends::Both if src != dst => {
                give(src, Ends::Source);
                give(dst, Ends::Destination);
            }
            ends => give(src, ends),
        }
    }

    fn collect(&mut self, is_end: bool) {
        let watermark = self.front.watermark();
        for holder in &mut self.holders {
            if is_end {
                holder.finish(watermark, &mut |placed| self.placed.push(placed))
            } else {
                holder.fire(watermark, &mut self.placed)
            }
        }
        self.placed.sort_by_key(|p| p.place);
        self.back.turn(self.front.take_turns());
        for mut placed in self.placed.drain(..) {
            self.back.take_placed(&mut placed, self.front.start(), &mut |_| {});
        }
        self.back.turned(&mut |_| {});
        if is_end {
            self.back.finish(&mut |_| {});
        }
    }
}

/// The steps that a flood costs.
fn steps_of(make: Make, key: impl Fn(u32) -> u32, holders: usize, bytes: usize) -> u64 {
    steps::take_count();
    let mut engine = Holders::new(holders, bytes);
    for n in 0..RECORDS {
        make(n, key(n), &mut |r| engine.record(r));
        if n % BATCH == 0 {
            engine.collect(false);
        }
    }
    engine.collect(true);
    let looks: u64 = engine.holders.iter().map(|h| h.counts().fold_looks).sum();
    steps::take_count() + looks
}

fn at(net: u32, key: u32) -> Ip {
    Ip::v4(net << 24 | key & 0x00ff_ffff)
}

fn flow(n: u32, src: Ip, dst: Ip, port: u16) -> Flow {
    let mut flow = conn(i64::from(n), "10.0.0.1", "1.2.3.4", port);
    (flow.src, flow.dst) = (src, dst);
    flow
}

/// A record of another log, between two hosts.
fn between(n: u32, src: Ip, dst: Ip, body: Body<'_>, each: &mut dyn FnMut(&Record<'_>)) {
    let mut r = log(i64::from(n), "10.0.0.1", "1.2.3.4", body);
    (r.src, r.dst) = (src, dst);
    each(&r);
}

const FLOODS: &[(&str, Make)] = &[
    ("destinations of a source", |n, key, each| {
        each(&flow(n, at(10, 1), at(9, key), 443).record());
    }),
    ("unknown ports of destinations", |n, key, each| {
        each(&flow(n, at(10, 1), at(9, key), 31_337).record());
    }),
    ("refusals of destinations", |n, key, each| {
        each(&flow(n, at(10, 1), at(9, key), 23).refused().record());
    }),
    ("refusals of ports", |n, key, each| {
        each(&flow(n, at(10, 1), at(9, 1), key as u16).refused().record());
    }),
    ("sources of a target", |n, key, each| {
        each(&flow(n, at(9, key), at(10, 1), 31_337).record());
    }),
    ("sources that refuse", |n, key, each| {
        let mut flow = flow(n, at(9, key), at(10, 1), 443).refused();
        (flow.state, flow.history) = ("REJ", "Sr");
        each(&flow.record());
    }),
    ("uploads of pairs", |n, key, each| {
        each(&flow(n, at(10, key % 5000), at(9, key), 443).sending(200_000_000).record());
    }),
    ("names of a source", |n, key, each| {
        let name = format!("n{key}.d{}.example", key % 300);
        let dns = Dns { query: name.as_bytes(), rcode: b"NOERROR", ..Dns::default() };
        between(n, at(10, 1), at(10, 53), Body::Dns(dns), each);
        let ssl = Ssl { server_name: name.as_bytes(), ..Ssl::default() };
        between(n, at(10, 1), at(9, key), Body::Ssl(ssl), each);
    }),
    ("agents of a source", |n, key, each| {
        let agent = format!("Agent/{key}");
        let http = Http {
            uri: b"/x",
            host: b"a.example",
            user_agent: agent.as_bytes(),
            ..Http::default()
        };
        between(n, at(10, 1), at(9, key), Body::Http(http), each);
    }),
    ("questions", |n, key, each| {
        each(&flow(n, at(10, key % 9), at(9, key), 1_900).udp().refused().record());
    }),
];

#[test]
fn floods_of_new_keys_cost_no_more_than_twice_the_steps() {
    for (name, make) in FLOODS {
        let within = steps_of(*make, |n| n % 4, 1, ROOM);
        assert!(within > u64::from(RECORDS), "{name}: {within}");
        for share in [16, 4, 1] {
            for holders in [1, 2, 4] {
                let steps = steps_of(*make, |n| n, holders, ROOM / share);
                assert!(
                    steps <= 2 * within,
                    "{name}, 1/{share} of the budget, {holders} holders: {steps} against {within}"
                );
            }
        }
    }
}

/// Ever more flows of one pair, within a day: those that are kept are looked at once an hour, not at each flow.
#[test]
fn a_full_pair_is_not_looked_at_for_each_flow() {
    let many: Make = |n, key, each| {
        let mut flow = flow(0, at(10, 1), at(9, key), 443);
        flow.ts = i64::from(n) * SECOND * 3;
        each(&flow.record());
    };
    let few = steps_of(many, |n| n, 1, ROOM);
    let one = steps_of(many, |_| 1, 1, ROOM);
    assert!(one <= 2 * few, "{one} against {few}");
}
