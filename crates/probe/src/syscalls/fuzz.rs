//! Takes arbitrary bytes for the records of rings, and checks what must always hold. It is the entry point of fuzzers
//! and tests, and panics if a check fails; nothing else calls it.

use super::decode::{Call, Decoder, HEAD};
use super::order::Order;
use super::recipes::{self, Recipe};
use std::sync::LazyLock;

static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(|| recipes::all().unwrap_or_default());

/// Rings of a script.
const RINGS: usize = 4;

/// A script of records: for each a byte of ring, two bytes of length, and the record. A ring byte from 128 on lets records
/// up to the time in the next eight bytes leave. Each call that a record gives goes to `sink`; returns how many there
/// were.
pub(crate) fn records(data: &[u8], sink: &mut dyn FnMut(&Call<'_>)) -> u64 {
    let mut decoder = Decoder::new(&RECIPES, 1);
    let mut order = Order::new(RINGS);
    let (mut rest, mut taken, mut given, mut calls) = (data, 0_u64, 0_u64, 0_u64);
    let mut release = |order: &mut Order, horizon: u64| {
        given += order.release(horizon, &mut |record| {
            if let Some(call) = decoder.decode(record) {
                assert!(record.len() >= HEAD, "invariant: a call has a whole head");
                calls += 1;
                sink(&call);
            }
        }) as u64;
        assert!(order.late() <= given, "invariant: late records are given");
    };
    while let Some((head, after)) = rest.split_first_chunk::<3>() {
        if head[0] >= 128 {
            let (time, after) = after.split_at(after.len().min(8));
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(time).for_each(|(to, from)| *to = *from);
            release(&mut order, u64::from_le_bytes(bytes));
            rest = after;
            continue;
        }
        let length = usize::from(u16::from_le_bytes([head[1], head[2]])).min(after.len());
        let (record, after) = after.split_at(length);
        let ts = record.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        order.push(usize::from(head[0]) % RINGS, ts, record);
        taken += 1;
        rest = after;
    }
    release(&mut order, u64::MAX);
    assert_eq!((given, order.held()), (taken, 0), "invariant: what was taken is given");
    calls
}

/// For each type of record one whose values are those of a parameter of that size, or a short text.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let one = |recipe: &Recipe| {
        let mut values: Vec<Vec<u8>> = Vec::new();
        for place in 0..recipe.ops.len() {
            let size = recipe.kind.parameters.get(place).and_then(|p| p.kind.size());
            values.push(size.map_or_else(|| b"ab\0".to_vec(), |size| vec![1; size]));
        }
        let mut record = vec![0; HEAD];
        record.splice(16..18, recipe.kind.number.to_le_bytes());
        record.splice(20..22, [values.len() as u8, 1]);
        for value in &values {
            record.extend((value.len() as u16).to_le_bytes());
        }
        record.extend(values.concat());
        let mut script = vec![0];
        script.extend((record.len() as u16).to_le_bytes());
        script.extend(record);
        script
    };
    RECIPES.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_a_call() {
        let seeds = seeds();
        assert!(seeds.len() > 300);
        for seed in seeds {
            assert_eq!(records(&seed, &mut |_| {}), 1, "{seed:?}");
        }
    }

    /// The time of this thread that an event costs whose records come through this many made rings: to order and to decode.
    fn cost_ns(rings: usize, records: &mut [Vec<u8>]) -> f64 {
        const ROUNDS: usize = 20;
        let now_ns = || {
            let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
        };
        let (mut order, mut decoder) = (Order::new(rings), Decoder::new(&RECIPES, 1));
        let (mut ts, mut random, mut calls) = (0_u64, 7_u64, 0);
        let began = now_ns();
        for _ in 0..ROUNDS {
            for record in records.iter_mut() {
                ts += 1;
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                record.splice(..8, ts.to_le_bytes());
                order.push((random >> 33) as usize % rings, ts, record);
            }
            order.release(ts, &mut |record| calls += usize::from(decoder.decode(record).is_some()));
        }
        let ended = now_ns();
        assert_eq!((calls, order.late()), (ROUNDS * records.len(), 0));
        (ended - began) / calls as f64
    }

    /// The cost of an event does not grow with the number of rings, as it would if each event were looked for in all.
    #[test]
    fn an_event_through_128_rings_costs_at_most_twice_that_through_2() {
        let mut records: Vec<Vec<u8>> = seeds().iter().map(|seed| seed[3..].to_vec()).collect();
        records.truncate(155);
        let mut records: Vec<Vec<u8>> = records.iter().cycle().take(2_000).cloned().collect();
        let (mut few, mut many) = (f64::MAX, f64::MAX);
        // Runs are repeated while something else disturbs them. A search in all rings would cost many times as much.
        for round in 0..90 {
            few = few.min(cost_ns(2, &mut records));
            many = many.min(cost_ns(128, &mut records));
            if round >= 8 && many <= 2.0 * few {
                break;
            }
        }
        println!("{few:.0} ns with 2 rings, {many:.0} ns with 128");
        assert!(many <= 2.0 * few, "{few:.0} ns with 2 rings, {many:.0} ns with 128");
    }

    #[test]
    fn any_cut_of_a_record_is_counted_and_no_call() {
        for seed in seeds().iter().step_by(7) {
            for length in 0..seed.len() - 3 {
                let mut script = vec![0];
                script.extend((length as u16).to_le_bytes());
                script.extend(&seed[3..3 + length]);
                let calls = records(&script, &mut |call| {
                    // Only values at the end that are empty anyway may be missing.
                    assert!(call.event.values.len() >= call.event.kind().parameters.len());
                });
                assert!(calls <= 1);
            }
        }
    }
}
