//! The attached programs of system calls, their rings, and their counters.

use super::decode::{Call, Decoder, HEAD};
use super::interest::Interest;
use super::order::Order;
use super::recipes::{self, CALLS, Class, RECIPE_BYTES};
use crate::attach::{self, Tracefs};
use crate::limits::{
    BATCH_BYTES, HELD_AT_START_BYTES_PER_RING, ORDER_SLACK_NS, RING_BYTES_MIN,
    RING_BYTES_OF_ONE_CPU, SNAPLEN,
};
use crate::mapped::MappedArray;
use crate::object::{Link, Object, ProgramRuns, RunCounting};
use crate::refusal::{self, Error};
use crate::ring::{Reading, Ring};
use aya::maps::{Array, ArrayOfMaps, MapData};
use gabion_scap::table::x86_64_of_ia32;
use gabion_scap::types;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::AsFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of `struct control` before the interest of 32 bits, and so on; see `bpf/syscalls.h`.
const CONTROL_IA32: usize = CALLS / 8;
const CONTROL_LEARN: usize = CONTROL_IA32 + CALLS / 4;
const CONTROL_FILL: usize = CONTROL_LEARN + 3;
/// Classes in the kernel's counters.
const CLASSES: usize = 8;
/// The calls whose name is also read at the entry.
const CHECKED: [&str; 5] = ["open", "creat", "openat", "openat2", "connect"];

/// What a session records, and with how much memory.
#[derive(Clone)]
pub struct Settings {
    /// The calls.
    pub interest: Interest,
    /// Bytes of all rings together.
    pub ring_bytes: usize,
    /// CPUs that share a ring.
    pub cpus_per_ring: usize,
    /// Bytes of data that a record keeps of a read or write.
    pub snaplen: u32,
    /// Whether the kernel counts the runs of its programs and their time, which costs each run some nanoseconds.
    pub counts_runs: bool,
    /// For trials: as if the kernel had no memory for what is read at the entry, so that spare memory is taken.
    pub without_storage: bool,
    /// For trials: every record is written value by value, as its recipe says, also those that have code of their own.
    pub by_recipes: bool,
}

impl Settings {
    /// The memory of Falco's defaults, which are a ring of 8 MiB for each two CPUs and 80 bytes of data. Each CPU has a ring
    /// of its own.
    #[must_use]
    pub fn new(interest: Interest) -> Self {
        let cpus = cpus();
        Self {
            interest,
            ring_bytes: cpus.div_ceil(2) * (8 << 20),
            cpus_per_ring: 1,
            snaplen: 80,
            counts_runs: false,
            without_storage: false,
            by_recipes: false,
        }
    }

    /// The memory of a ring of `ring_bytes` for each `cpus_per_ring` CPUs. CPUs that share a ring wait for one another with
    /// each record, so each has a ring of its own if its part is not too small.
    pub fn set_rings(&mut self, cpus_per_ring: usize, ring_bytes: usize) {
        // Falco's 0 stands for one ring for all CPUs.
        let share = if cpus_per_ring == 0 { cpus() } else { cpus_per_ring };
        self.ring_bytes = cpus().div_ceil(share).saturating_mul(ring_bytes);
        let is_enough = ring_bytes / share.min(cpus()) >= RING_BYTES_OF_ONE_CPU;
        self.cpus_per_ring = if is_enough { 1 } else { share };
    }

    /// The smallest rings, for trials.
    #[must_use]
    pub fn small(interest: Interest) -> Self {
        Self { ring_bytes: 0, ..Self::new(interest) }
    }
}

/// Calls of one class: `received = passed + shed_ring + shed_size`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Calls that the interest wants.
    pub received: u64,
    /// Records in a ring.
    pub passed: u64,
    /// Shed because the ring is full, or too full for this class.
    pub shed_ring: u64,
    /// Shed because the record is too large.
    pub shed_size: u64,
}

/// Counters since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By class, in the order of [`Class::ALL`].
    pub classes: [ClassCounts; 7],
    /// Calls of this process.
    pub own: u64,
    /// Bytes of the records in rings.
    pub bytes: u64,
    /// Readings at the entry, and numbers of a thread's records, for which the storage of the thread had no memory.
    pub storage_failed: u64,
    /// Calls of 32-bit programs that programs of 64 bits do not have.
    pub unmapped_ia32: u64,
    /// Of the records that were shed, those that change what is known of threads and descriptors.
    pub shed_state: u64,
    /// Records that contradict their recipe.
    pub undecodable: u64,
    /// Records that came too late for the order of time.
    pub late: u64,
}

impl Counts {
    /// The counts of all classes together.
    #[must_use]
    pub fn total(&self) -> ClassCounts {
        self.classes.iter().fold(ClassCounts::default(), |sum, c| ClassCounts {
            received: sum.received + c.received,
            passed: sum.passed + c.passed,
            shed_ring: sum.shed_ring + c.shed_ring,
            shed_size: sum.shed_size + c.shed_size,
        })
    }
}

/// What the kernel's programs multiply addresses by, so that nobody learns them: one number for all sessions, so that a
/// socket keeps its number when the settings are read again.
static POINTER_FACTOR: LazyLock<u64> = LazyLock::new(|| random() | 1);

/// Attached programs. Everything is detached when the value is dropped.
pub struct Session {
    rings: Vec<Ring>,
    control: MappedArray,
    counters: MappedArray,
    decoder: Decoder,
    order: Order,
    undecodable: u64,
    uses_io_uring: bool,
    /// The last reading left records in a ring.
    is_behind: bool,
    cpus: usize,
    /// What the kernel refused, a line for each.
    absent: Vec<Error>,
    links: Vec<Link>,
    counting: Option<RunCounting>,
    /// Kept for its programs and the maps that they use.
    _object: Object,
    _outer: ArrayOfMaps<MapData, MapData>,
}

impl Session {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    /// If the dispatcher can't be attached: no programs, no BTF, no permission. What else is refused is listed in
    /// [`Session::absent`].
    pub fn start(settings: &Settings) -> Result<Self, Error> {
        let cpus = cpus();
        let recipes = recipes::all().map_err(|row| Error::Unknown(row.0))?;
        let per_cpu = u32::try_from(cpus).unwrap_or(1);
        let factor = *POINTER_FACTOR;
        let without_storage = u32::from(settings.without_storage);
        let mut object = Object::open("syscalls", |loader| {
            for map in ["counters", "scratches", "rings"] {
                loader.map_max_entries(map, per_cpu);
            }
            loader.override_global("pointer_factor", &factor, true);
            loader.override_global("without_storage", &without_storage, true);
        })?;
        let control = MappedArray::new("control", object.take_array("control")?)?;
        let counters = MappedArray::new("counters", object.take_array("counters")?)?;
        let outer = object.take_map("rings")?;
        let mut outer: ArrayOfMaps<MapData, MapData> =
            ArrayOfMaps::try_from(outer).map_err(|e| refusal::map("rings", &e))?;
        let (rings, ring_bytes) = make_rings(settings, cpus, &mut outer)?;
        let mut table: Array<MapData, [u8; RECIPE_BYTES]> =
            Array::try_from(object.take_map("recipes")?)
                .map_err(|e| refusal::map("recipes", &e))?;
        for recipe in &recipes {
            let set = table.set(recipe.place, recipe.to_bytes(!settings.by_recipes), 0);
            set.map_err(|e| refusal::map("recipes", &e))?;
        }
        let mut session = Self {
            order: Order::new(rings.len()),
            rings,
            control,
            counters,
            decoder: Decoder::new(&recipes, boot_ns()),
            undecodable: 0,
            uses_io_uring: false,
            is_behind: false,
            cpus,
            absent: Vec::new(),
            links: Vec::new(),
            counting: None,
            _object: object,
            _outer: outer,
        };
        if settings.counts_runs {
            match RunCounting::begin() {
                Ok(counting) => session.counting = Some(counting),
                Err(error) => session.absent.push(error),
            }
        }
        session.write_control(settings, ring_bytes);
        session.attach(&settings.interest)?;
        session.learn_own_process();
        session.set_interest(&settings.interest);
        Ok(session)
    }

    /// Entries first, so that no exit is without its entry for longer than a call lasts.
    fn attach(&mut self, interest: &Interest) -> Result<(), Error> {
        let wanted: Vec<&str> = CHECKED.into_iter().filter(|call| interest.has(call)).collect();
        let mut attached = 0;
        match Tracefs::open() {
            Ok(tracefs) => {
                for call in &wanted {
                    let link = self
                        ._object
                        .load_syscall_tracepoint(&format!("enter_{call}"))
                        .and_then(|p| {
                            let fd = p
                                .fd()
                                .map_err(|e| refusal::program(call, refusal::Kind::Tracing, &e))?;
                            attach::syscall_enter(fd.as_fd(), &tracefs, call)
                        });
                    match link {
                        Ok(link) => {
                            self.links.push(link);
                            attached += 1;
                        }
                        Err(error) => self.absent.push(error),
                    }
                }
            }
            Err(error) => self.absent.push(error),
        }
        self.set_half(CONTROL_LEARN + 2, false, attached);
        let exits = self._object.attach_tracepoint("sched_process_exit", "sched_process_exit");
        match exits {
            Ok(link) => self.links.push(link),
            Err(error) => self.absent.push(error),
        }
        self.links.push(self._object.attach_tracepoint("sys_exit", "sys_exit")?);
        Ok(())
    }

    fn word(&self, at: usize) -> Option<&AtomicU64> {
        self.control.value(0).get(at)
    }

    /// Writes the lower or upper half of a word.
    fn set_half(&self, at: usize, is_upper: bool, value: u32) {
        let Some(word) = self.word(at) else { return };
        let old = word.load(Ordering::Relaxed);
        let new = if is_upper {
            old & 0xffff_ffff | u64::from(value) << 32
        } else {
            old & 0xffff_ffff_0000_0000 | u64::from(value)
        };
        word.store(new, Ordering::Relaxed);
    }

    fn write_control(&self, settings: &Settings, ring_bytes: usize) {
        for at in 0..CALLS / 4 {
            let mut word = 0;
            for i in 0..4 {
                let ia32 = u16::try_from(at * 4 + i).ok();
                let number = ia32.and_then(x86_64_of_ia32).unwrap_or(u16::MAX);
                word |= u64::from(number) << (16 * i);
            }
            if let Some(to) = self.word(CONTROL_IA32 + at) {
                to.store(word, Ordering::Relaxed);
            }
        }
        let snaplen = settings.snaplen.min(SNAPLEN);
        self.set_half(CONTROL_LEARN + 1, true, snaplen);
        let share = u32::try_from(ring_bytes / 64).unwrap_or(u32::MAX);
        for (at, class) in Class::ALL.into_iter().enumerate() {
            let fill_max = share.saturating_mul(class.fill_max());
            self.set_half(CONTROL_FILL + at / 2, at % 2 == 1, fill_max);
        }
    }

    /// Which calls are recorded from now on.
    pub fn set_interest(&self, interest: &Interest) {
        let table = interest.table();
        for (at, bytes) in table.chunks_exact(8).enumerate() {
            let word = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            if let Some(to) = self.word(at) {
                to.store(word, Ordering::Relaxed);
            }
        }
        self.set_half(CONTROL_LEARN + 2, true, u32::from(interest.exits));
    }

    /// Leaves this process out. Its number in the kernel is not the one it knows if it is in a namespace, so the program
    /// in the kernel learns it from a call with a secret argument.
    fn learn_own_process(&self) {
        const GETPPID: usize = 110;
        let secret = random() | 1;
        let Some(learn) = self.word(CONTROL_LEARN) else { return };
        let Some(interest) = self.word(GETPPID / 8) else { return };
        learn.store(secret, Ordering::SeqCst);
        interest.store(1 << (8 * (GETPPID % 8)), Ordering::SeqCst);
        crate::bpf_call::getppid_with(secret);
        interest.store(0, Ordering::SeqCst);
        learn.store(0, Ordering::SeqCst);
    }

    /// Whether the kernel knows which process is this one.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        self.word(CONTROL_LEARN + 1).is_some_and(|word| word.load(Ordering::Relaxed) as u32 != 0)
    }

    /// What the kernel refused.
    #[must_use]
    pub fn absent(&self) -> &[Error] {
        &self.absent
    }

    /// Takes the list of what the kernel refused.
    pub fn take_absent(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.absent)
    }

    /// Gives the records since the last call to `sink`, in the order of time; the youngest wait for the next call, as
    /// another ring may still have an older one. Returns how many were given or wait, so that 0 means that nothing is
    /// left. It never waits itself.
    pub fn poll(&mut self, sink: &mut dyn FnMut(&Call<'_>)) -> usize {
        let horizon = now_ns().saturating_sub(ORDER_SLACK_NS);
        self.read_rings(horizon, sink)
    }

    /// Whether the last [`Session::poll`] left records in a ring: the next one is due at once.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Takes records out of the rings and keeps them for the next [`Session::poll`]: for the time in which what existed
    /// before is read, which on a busy host lasts longer than the rings have space for.
    pub fn hold_records(&mut self) {
        for (at, ring) in self.rings.iter_mut().enumerate() {
            let order = &mut self.order;
            if order.held_by(at) < HELD_AT_START_BYTES_PER_RING {
                ring.read_records(&mut |record| {
                    order.push(at, time_of(record), record);
                    order.held_by(at) < HELD_AT_START_BYTES_PER_RING
                });
            }
        }
    }

    /// Gives all records that are in the rings to `sink`, also the youngest. For the end, when nothing is recorded any
    /// more.
    pub fn drain(&mut self, sink: &mut dyn FnMut(&Call<'_>)) -> usize {
        let mut records = 0;
        loop {
            match self.read_rings(u64::MAX, sink) {
                0 => return records,
                more => records += more,
            }
        }
    }

    fn read_rings(&mut self, mut horizon: u64, sink: &mut dyn FnMut(&Call<'_>)) -> usize {
        self.is_behind = false;
        for (at, ring) in self.rings.iter_mut().enumerate() {
            let order = &mut self.order;
            let (mut bytes, mut last_ts) = (0, horizon);
            let reading = if order.has_space(at) {
                ring.read_records(&mut |record| {
                    last_ts = time_of(record);
                    bytes += record.len();
                    order.push(at, last_ts, record);
                    bytes < BATCH_BYTES && order.has_space(at)
                })
            } else {
                Reading::Stopped
            };
            if reading == Reading::Stopped {
                // The ring has more, which may be older than what others have.
                self.is_behind = true;
                horizon = horizon.min(last_ts.saturating_sub(ORDER_SLACK_NS));
            }
        }
        // Read after the rings: whatever was shed before one of their records is counted by now.
        let shed = self.sum(4 * CLASSES + 4);
        self.decoder.set_lost(shed.saturating_add(self.undecodable));
        let Self { order, decoder, undecodable, uses_io_uring, .. } = self;
        let given = order.release(horizon, &mut |record| match decoder.decode(record) {
            Some(call) => {
                *uses_io_uring |= call.event.kind().number == types::IO_URING_SETUP_X;
                sink(&call);
            }
            None => *undecodable += 1,
        });
        given + self.order.held()
    }

    /// What programs do unseen: a line for each thing, once it was noticed.
    #[must_use]
    pub fn unseen(&self) -> Option<&'static str> {
        let text =
            "a program uses io_uring: operations of io_uring are no system calls and are not seen";
        self.uses_io_uring.then_some(text)
    }

    /// The sum of one counter of all CPUs.
    fn sum(&self, at: usize) -> u64 {
        let one = |cpu: usize| {
            self.counters.value(cpu).get(at).map_or(0, |word| word.load(Ordering::Relaxed))
        };
        (0..self.cpus).map(one).fold(0, u64::saturating_add)
    }

    /// How often each program in the kernel ran and for how long; nothing if this is not counted.
    #[must_use]
    pub fn runs(&self) -> Vec<ProgramRuns> {
        match self.counting {
            Some(_) => self._object.runs(),
            None => Vec::new(),
        }
    }

    /// For each CPU that this machine can have the calls of all classes together.
    #[must_use]
    pub fn counts_by_cpu(&self) -> Vec<ClassCounts> {
        let of_cpu = |cpu: usize| {
            let mut words = [0; 4 * CLASSES];
            self.counters.read_words(cpu, &mut words);
            let row = |row: usize| {
                let classes = words.get(row * CLASSES..(row + 1) * CLASSES).unwrap_or_default();
                classes.iter().sum()
            };
            ClassCounts { received: row(0), passed: row(1), shed_ring: row(2), shed_size: row(3) }
        };
        (0..self.cpus).map(of_cpu).collect()
    }

    /// The counters of all CPUs.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts =
            Counts { undecodable: self.undecodable, late: self.order.late(), ..Counts::default() };
        for cpu in 0..self.cpus {
            let mut words = [0; 4 * CLASSES + 5];
            self.counters.read_words(cpu, &mut words);
            for (at, class) in counts.classes.iter_mut().enumerate() {
                let word = |row: usize| words.get(row * CLASSES + at).copied().unwrap_or(0);
                class.received += word(0);
                class.passed += word(1);
                class.shed_ring += word(2);
                class.shed_size += word(3);
            }
            let [.., own, bytes, storage_failed, unmapped_ia32, shed_state] = words;
            counts.own += own;
            counts.bytes += bytes;
            counts.storage_failed += storage_failed;
            counts.unmapped_ia32 += unmapped_ia32;
            counts.shed_state += shed_state;
        }
        counts
    }
}

/// Makes the rings and puts them into the array of rings, one entry for each CPU. Returns their size.
fn make_rings(
    settings: &Settings,
    cpus: usize,
    outer: &mut ArrayOfMaps<MapData, MapData>,
) -> Result<(Vec<Ring>, usize), Error> {
    const RINGBUF: u32 = 27;
    let explain = |e| refusal::map("rings", &e);
    let share = settings.cpus_per_ring.max(1);
    let count = cpus.div_ceil(share);
    let each = (settings.ring_bytes / count).max(RING_BYTES_MIN);
    let bytes = 1_usize << each.ilog2();
    let entries = u32::try_from(bytes).unwrap_or(1 << 31);
    let mut rings = Vec::new();
    for ring in 0..count {
        let map = aya_obj::Map::new_from_params(RINGBUF, 0, 0, entries, 0);
        let map = MapData::create(map, "ring", None).map_err(explain)?;
        for cpu in ring * share..((ring + 1) * share).min(cpus) {
            outer.set(u32::try_from(cpu).unwrap_or(0), &map, 0).map_err(explain)?;
        }
        rings.push(Ring::new(map, bytes)?);
    }
    Ok((rings, bytes))
}

/// The CPUs that this machine can have, so that one that is added later has its ring.
fn cpus() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|n| n.parse::<usize>().ok());
    last.map_or(1, |n| n + 1).min(crate::limits::CPUS_MEASURED)
}

/// The time with which each record begins.
fn time_of(record: &[u8]) -> u64 {
    record.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn clock_ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec.cast_unsigned())
}

/// Nanoseconds since the boot, by the clock of the records.
fn now_ns() -> u64 {
    clock_ns(ClockId::Boottime)
}

/// Nanoseconds from 1970 to the boot.
fn boot_ns() -> u64 {
    clock_ns(ClockId::Realtime).saturating_sub(now_ns())
}

/// A number that others can't guess: the addresses of memory and the time.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(HEAD)
}
