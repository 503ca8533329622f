//! Reading segments in batches and having workers look at them.

use super::facts::{ChunkFacts, Facts, IndexFacts, SegmentFacts};
use super::judge::Judge;
use super::{Options, Report};
use crate::error::{Error, Result};
use crate::format::chunk::{self, Opener};
use crate::format::segment::{self, file_name};
use crate::format::tree::sha256;
use crate::format::walk::Item;
use crate::limits::READ_WINDOW;
use crate::statement::Statement;
use crate::storage::Storage;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// A run of whole items.
struct Batch {
    segment: Arc<SegmentFacts>,
    base: u64,
    data: Vec<u8>,
    items: Vec<(usize, Item)>,
}

/// A batch whose items were looked at.
struct Looked {
    segment: Arc<SegmentFacts>,
    end: u64,
    items: Vec<(u64, Item, Facts)>,
    /// Head bytes of the damage that ends the batch, to correct one flipped bit.
    head: Vec<u8>,
    data: Vec<u8>,
}

pub(super) fn run(
    log: &dyn Storage,
    options: &Options<'_>,
    segments: &[(u64, bool)],
    mut judge: Judge<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report> {
    let mut total = 0;
    for (first, is_whole) in segments {
        let name = file_name(*first, if *is_whole { "gsl" } else { "pruned" });
        total += log.len(&name).map_err(|e| Error::storage(&name, e))?.unwrap_or(0);
    }
    let jobs = options.jobs.clamp(1, 64);
    std::thread::scope(|scope| {
        let (to, from) = mpsc::sync_channel::<Job>(jobs * BATCHES_EACH);
        let from = Arc::new(Mutex::new(from));
        for _ in 1..jobs {
            let from = Arc::clone(&from);
            scope.spawn(move || {
                let Ok(mut opener) = Opener::new() else { return };
                while let Some((batch, answer)) = next_job(&from) {
                    // Nobody wants the answer any more: the verification was abandoned.
                    if answer.send(open_batch(batch, &mut opener)).is_err() {
                        return;
                    }
                }
            });
        }
        let mut pool = Pool {
            opener: Opener::new()?,
            jobs: (jobs > 1).then_some((to, from)),
            waiting_max: jobs * BATCHES_EACH,
            waiting: VecDeque::new(),
            spare: Vec::new(),
        };
        let mut done = 0;
        for (first, is_whole) in segments {
            if !*is_whole {
                judge.stub(*first)?;
                continue;
            }
            let Some(facts) = judge.segment(*first)? else { continue };
            let name = facts.name.clone();
            let Some(len) = log.len(&name).map_err(|e| Error::storage(&name, e))? else {
                let gone = std::io::ErrorKind::NotFound.into();
                judge.vanished(&name, &Error::storage(&name, gone));
                continue;
            };
            let mut at = segment::HEADER_LEN as u64;
            let facts = Arc::new(facts);
            while at < len {
                let buffer = pool.spare.pop().unwrap_or_default();
                let batch = match read_batch(log, &facts, at, len, buffer) {
                    Ok(batch) => batch,
                    // Pruned or rotated away while we look: what is gone is not judged.
                    Err(e) if log.len(&name).is_ok_and(|l| l.is_none()) => {
                        judge.vanished(&name, &e);
                        break;
                    }
                    Err(e) => return Err(e),
                };
                let read: u64 = batch.items.iter().map(|(_, i)| i.len()).sum();
                let is_end = batch.items.last().is_some_and(|(_, i)| matches!(i, Item::Damage(_)));
                if is_end && log.len(&name).is_ok_and(|now| now != Some(len)) {
                    // What looks cut short may be half of what is being written.
                    judge.vanished(&name, &Error::format("more was written meanwhile"));
                }
                at = if is_end || read == 0 { len } else { at + read };
                pool.give(batch, &mut judge)?;
                done += read;
                progress(done, total);
            }
            pool.drain(&mut judge)?;
            judge.segment_end(len)?;
        }
        judge.finish(options)
    })
}

/// A batch, and where what is found in it is to go.
type Job = (Batch, mpsc::SyncSender<Looked>);

/// The end of the queue from which any free thread takes.
type Jobs = Arc<Mutex<mpsc::Receiver<Job>>>;

/// The next batch for whichever worker is free.
fn next_job(from: &Jobs) -> Option<Job> {
    from.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Batches under way for each worker: one that it looks at, and those it takes while the reader reads and
/// judges.
const BATCHES_EACH: usize = 3;

/// Any free thread takes the next batch, the reader too when it has read far enough ahead: so as many threads
/// work as were asked for, and none of them takes another's processor. Results are taken in the order in
/// which work was given. One job is no worker's: then all is done where it is read.
struct Pool {
    opener: Opener,
    /// Both ends of the queue.
    jobs: Option<(mpsc::SyncSender<Job>, Jobs)>,
    waiting_max: usize,
    waiting: VecDeque<mpsc::Receiver<Looked>>,
    spare: Vec<Vec<u8>>,
}

impl Pool {
    fn give(&mut self, batch: Batch, judge: &mut Judge<'_>) -> Result<()> {
        let Some((jobs, _)) = &self.jobs else {
            let looked = open_batch(batch, &mut self.opener);
            return self.judge(looked, judge);
        };
        let (answer, answers) = mpsc::sync_channel(1);
        // There is room: no more wait than the queue holds.
        jobs.send((batch, answer)).map_err(|_| Error::Stopped)?;
        self.waiting.push_back(answers);
        while self.waiting.len() >= self.waiting_max {
            self.take_result(judge)?;
        }
        Ok(())
    }

    /// Takes the next result, and works until it is there.
    fn take_result(&mut self, judge: &mut Judge<'_>) -> Result<()> {
        let Some(answers) = self.waiting.pop_front() else { return Ok(()) };
        let looked = loop {
            match answers.try_recv() {
                Ok(looked) => break looked,
                Err(mpsc::TryRecvError::Disconnected) => return Err(Error::Stopped),
                Err(mpsc::TryRecvError::Empty) => {}
            }
            // Somebody who waits for work has the lock: then there is none.
            let job =
                self.jobs.as_ref().and_then(|(_, from)| from.try_lock().ok()?.try_recv().ok());
            match job {
                Some((batch, answer)) => {
                    let _ = answer.send(open_batch(batch, &mut self.opener));
                }
                None => break answers.recv().map_err(|_| Error::Stopped)?,
            }
        };
        self.judge(looked, judge)
    }

    fn judge(&mut self, looked: Looked, judge: &mut Judge<'_>) -> Result<()> {
        for (at, item, facts) in looked.items {
            judge.item(&looked.segment, at, item, facts, &looked.head)?;
        }
        judge.reached(looked.end);
        self.spare.push(looked.data);
        Ok(())
    }

    fn drain(&mut self, judge: &mut Judge<'_>) -> Result<()> {
        while !self.waiting.is_empty() {
            self.take_result(judge)?;
        }
        Ok(())
    }
}

/// Reads a window and finds the whole items in it. A chunk longer than the window is read by itself.
fn read_batch(
    log: &dyn Storage,
    segment: &Arc<SegmentFacts>,
    base: u64,
    len: u64,
    mut data: Vec<u8>,
) -> Result<Batch> {
    let left = usize::try_from(len - base).unwrap_or(usize::MAX);
    let mut want = left.min(READ_WINDOW);
    loop {
        data.resize(want, 0);
        let read = log
            .read_at(&segment.name, base, &mut data)
            .map_err(|e| Error::storage(&segment.name, e))?;
        data.truncate(read);
        let mut items = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let rest = &data[at..];
            let in_file = len - base - at as u64;
            if rest.len() < chunk::HEADER_LEN && rest.len() as u64 != in_file {
                break;
            }
            let item = Item::parse(rest, in_file);
            let is_damage = matches!(item, Item::Damage(_));
            if !is_damage && item.len() > rest.len() as u64 {
                break;
            }
            let next = at + item.len() as usize;
            items.push((at, item));
            if is_damage {
                break;
            }
            at = next;
        }
        if items.is_empty() && want < left {
            // The first chunk alone is longer than the window.
            want = left.min(want.saturating_mul(4));
            continue;
        }
        return Ok(Batch { segment: Arc::clone(segment), base, data, items });
    }
}

/// What is known of the items by themselves.
fn open_batch(batch: Batch, opener: &mut Opener) -> Looked {
    let Batch { segment, base, data, items } = batch;
    let mut out = Vec::with_capacity(items.len());
    let mut head = Vec::new();
    let mut end = base;
    for (at, item) in items {
        let facts = match &item {
            Item::Chunk(header) => {
                let start = at + chunk::HEADER_LEN;
                let body = data.get(start..start + header.body_len as usize).unwrap_or_default();
                Facts::Chunk(look_at_chunk(header, body, &segment, opener))
            }
            Item::Index(len) => {
                let bytes = data.get(at..at + *len as usize).unwrap_or_default();
                Facts::Index(IndexFacts::from_bytes(bytes, base + at as u64, &segment))
            }
            Item::Damage(_) => {
                head.extend(data.iter().skip(at).take(chunk::HEADER_LEN));
                Facts::None
            }
            Item::Mark(_) => Facts::None,
        };
        end = base + at as u64 + item.len();
        out.push((base + at as u64, item, facts));
    }
    Looked { segment, end, items: out, head, data }
}

fn look_at_chunk(
    header: &chunk::Header,
    body: &[u8],
    segment: &SegmentFacts,
    opener: &mut Opener,
) -> ChunkFacts {
    let mut facts = ChunkFacts {
        leaf: header.leaf(&segment.hash),
        is_body_good: sha256(body) == header.body_hash,
        ..ChunkFacts::default()
    };
    if !facts.is_body_good {
        return facts;
    }
    let keys =
        segment.keys.as_ref().map(|k| k.get(usize::from(header.class)).and_then(Option::as_ref));
    let keys = match (header.is_clear(), keys) {
        (true, _) => None,
        (false, Some(Some(keys))) => Some(keys),
        (false, Some(None)) => {
            facts.is_closed = true;
            return facts;
        }
        (false, None) => return facts,
    };
    let opened = opener
        .open(header, body, keys, &segment.hash, segment.is_padded)
        .and_then(|()| opener.check_root(header, keys));
    match opened {
        Ok(true) => {
            facts.opened = header.records;
            facts.sources = segment.keys.as_ref().map(|_| opener.sources(header));
        }
        Ok(false) => {
            facts.content = Some("its records differ from the root in its head".to_owned())
        }
        Err(e) => facts.content = Some(e.to_string()),
    }
    if header.is_clear()
        && facts.content.is_none()
        && let Ok(decoded) = opener.records(header)
    {
        facts.statements = decoded
            .records
            .iter()
            .enumerate()
            .filter_map(|(i, (r, _))| {
                Some((header.first_record + i as u64, Statement::parse(r.bytes)?))
            })
            .collect();
    }
    facts
}
