//! The compiled objects, and the programs in them, which are loaded singly.
//!
//! The loader makes every map of an object at once; therefore system calls, instruments and packet programs are objects
//! of their own. A program that the kernel refuses does not keep the others from loading.

use crate::Error;
use crate::refusal::{self, Kind};
use aya::maps::{Map, MapData};
use aya::programs::{Program, SchedClassifier, TracePoint, Xdp};
use aya::{Btf, BtfError, Ebpf, EbpfLoader};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// The compiled object of `bpf/NAME.bpf.c`.
///
/// # Errors
/// [`Error::NotBuilt`] if there was no clang, [`Error::Unknown`] if there is no such file.
pub fn compiled(name: &str) -> Result<&'static [u8], Error> {
    if COMPILED.is_empty() {
        return Err(Error::NotBuilt);
    }
    let found = COMPILED.iter().find(|(n, _)| *n == name);
    found.map(|(_, bytes)| *bytes).ok_or_else(|| Error::Unknown(name.to_owned()))
}

/// Whether the crate was built with its programs.
#[must_use]
pub fn is_built() -> bool {
    !COMPILED.is_empty()
}

/// The section in which an object has the hash of the event table that its records are for.
const TABLE_SECTION: &str = ".rodata.table";

/// Refuses an object whose records are those of another event table: their parameters would be taken for others.
/// Objects without such a section make no records of events.
fn check_table(name: &str, bytes: &[u8], own: u64) -> Result<(), Error> {
    let parsed = aya_obj::Object::parse(bytes);
    let parsed = parsed.map_err(|e| Error::Unknown(format!("{name}: {e}")))?;
    let Some(table) = parsed.maps.get(TABLE_SECTION) else { return Ok(()) };
    let found = table.data().first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    match found {
        Some(found) if found == own => Ok(()),
        found => Err(Error::OtherTable { name: name.to_owned(), found: found.unwrap_or(0), own }),
    }
}

/// The type information of the running kernel, which is read once.
///
/// # Errors
/// [`Error::NoBtf`] if the kernel has none.
pub fn kernel_btf() -> Result<&'static Btf, Error> {
    static BTF: OnceLock<Result<Btf, BtfError>> = OnceLock::new();
    BTF.get_or_init(Btf::from_sys_fs).as_ref().map_err(|e| Error::NoBtf(e.to_string()))
}

/// An object whose maps exist and whose programs can be loaded.
pub struct Object {
    name: &'static str,
    ebpf: Ebpf,
    btf: &'static Btf,
}

impl Object {
    /// Makes the maps of an object. `configure` may set sizes of maps and constants.
    ///
    /// # Errors
    /// If the crate was built without programs, or the kernel refuses a map.
    pub fn open<'a>(
        name: &'static str,
        configure: impl FnOnce(&mut EbpfLoader<'a>),
    ) -> Result<Self, Error> {
        let bytes = compiled(name)?;
        check_table(name, bytes, gabion_scap::table::hash())?;
        let btf = kernel_btf()?;
        let mut loader = EbpfLoader::new();
        loader.btf(Some(btf)).allow_unsupported_maps();
        configure(&mut loader);
        let ebpf = loader.load(bytes).map_err(|e| refusal::object(name, &e))?;
        drop(loader);
        Ok(Self { name, ebpf, btf })
    }

    /// Loads and attaches a `tp_btf` program; `tracepoint` is the kernel's name of it. The link ends with the value.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn attach_tracepoint(&mut self, program: &str, tracepoint: &str) -> Result<Link, Error> {
        let what = format!("{}: {program}", self.name);
        let found = self.ebpf.program_mut(program);
        let Some(Program::BtfTracePoint(p)) = found else { return Err(Error::Unknown(what)) };
        let explain = |e| refusal::program(&what, Kind::Tracing, &e);
        p.load(tracepoint, self.btf).map_err(explain)?;
        let id = p.attach().map_err(explain)?;
        let link = p.take_link(id).map_err(explain)?;
        Ok(Link { _link: Inner::Tracing(link) })
    }

    /// Loads a program and returns it for a link that this crate makes itself.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn load_syscall_tracepoint(&mut self, program: &str) -> Result<&mut TracePoint, Error> {
        let what = format!("{}: {program}", self.name);
        let found = self.ebpf.program_mut(program);
        let Some(Program::TracePoint(p)) = found else { return Err(Error::Unknown(what)) };
        p.load().map_err(|e| refusal::program(&what, Kind::Tracing, &e))?;
        Ok(p)
    }

    /// Loads an XDP program.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn load_xdp(&mut self, program: &str) -> Result<&mut Xdp, Error> {
        let what = format!("{}: {program}", self.name);
        let found = self.ebpf.program_mut(program);
        let Some(Program::Xdp(p)) = found else { return Err(Error::Unknown(what)) };
        p.load().map_err(|e| refusal::program(&what, Kind::Packets, &e))?;
        Ok(p)
    }

    /// Loads a classifier of packets.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn load_classifier(&mut self, program: &str) -> Result<&mut SchedClassifier, Error> {
        let what = format!("{}: {program}", self.name);
        let found = self.ebpf.program_mut(program);
        let Some(Program::SchedClassifier(p)) = found else { return Err(Error::Unknown(what)) };
        p.load().map_err(|e| refusal::program(&what, Kind::Packets, &e))?;
        Ok(p)
    }

    /// A classifier that was loaded.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is no such program.
    pub fn loaded_classifier(&self, program: &str) -> Result<&SchedClassifier, Error> {
        match self.ebpf.program(program) {
            Some(Program::SchedClassifier(p)) => Ok(p),
            _ => Err(Error::Unknown(format!("{}: {program}", self.name))),
        }
    }

    /// An XDP program that was loaded.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is no such program.
    pub fn loaded_xdp(&self, program: &str) -> Result<&Xdp, Error> {
        match self.ebpf.program(program) {
            Some(Program::Xdp(p)) => Ok(p),
            _ => Err(Error::Unknown(format!("{}: {program}", self.name))),
        }
    }

    /// How often each program ran, of those that are loaded, while the kernel counted it.
    #[must_use]
    pub fn runs(&self) -> Vec<ProgramRuns> {
        let runs_of = |(name, program): (&str, &Program)| {
            let info = program.info().ok()?;
            Some(ProgramRuns {
                name: name.to_owned(),
                count: info.run_count(),
                time: info.run_time(),
            })
        };
        let mut all: Vec<ProgramRuns> = self.ebpf.programs().filter_map(runs_of).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Takes a map out of the object; it must then be kept as long as its programs are to find it by other means.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is no such map.
    pub fn take_map(&mut self, name: &str) -> Result<Map, Error> {
        let found = self.ebpf.take_map(name);
        found.ok_or_else(|| Error::Unknown(format!("{}: {name}", self.name)))
    }

    /// Takes an array that was declared with `F_MMAPABLE`, for [`crate::mapped`].
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is no such array.
    pub fn take_array(&mut self, name: &str) -> Result<MapData, Error> {
        match self.take_map(name)? {
            Map::Array(array) => Ok(array),
            _ => Err(Error::Unknown(format!("{}: {name}", self.name))),
        }
    }
}

/// How often a program ran, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramRuns {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// The time of all runs together.
    pub time: Duration,
}

/// Has the kernel count the runs of all BPF programs and their time, for as long as the value lives. Each run costs some
/// nanoseconds more then.
pub struct RunCounting {
    _kept: OwnedFd,
}

impl RunCounting {
    /// Begins to count.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn begin() -> Result<Self, Error> {
        let kept = aya::sys::enable_stats(aya::sys::Stats::RunTime)
            .map_err(|e| refusal::loading("counting of runs", Kind::Tracing, &e.io_error, ""))?;
        Ok(Self { _kept: kept })
    }
}

/// A program that is attached for as long as the value lives, and not longer than the process.
pub struct Link {
    _link: Inner,
}

enum Inner {
    Tracing(
        #[expect(dead_code, reason = "held only for its drop")]
        aya::programs::tp_btf::BtfTracePointLink,
    ),
    Own(#[expect(dead_code, reason = "held only for its drop")] OwnedFd),
}

impl From<OwnedFd> for Link {
    fn from(fd: OwnedFd) -> Self {
        Self { _link: Inner::Own(fd) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_for_another_event_table_is_refused() {
        if !is_built() {
            eprintln!("skipped: an_object_for_another_event_table_is_refused: no clang");
            return;
        }
        let own = gabion_scap::table::hash();
        let bytes = compiled("syscalls").unwrap();
        check_table("syscalls", bytes, own).unwrap();
        let error = check_table("syscalls", bytes, own ^ 1).unwrap_err().to_string();
        assert!(error.starts_with("syscalls: made for the event table "), "{error}");
        check_table("throttle", compiled("throttle").unwrap(), own ^ 1).unwrap();
    }
}
