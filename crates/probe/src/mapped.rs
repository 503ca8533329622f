//! An array of a BPF object in this process' memory, so that reading it costs no system call.
//!
//! The kernel's programs write the same memory at any time, so it is read as atomic words. A value of several words may
//! be torn; programs that matter put an epoch into the first word, and the reader compares it before and after.

use crate::Error;
use crate::refusal;
use aya::maps::{Array, MapData};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// A mapped array.
pub struct MappedArray {
    memory: *mut c_void,
    bytes: usize,
    words_per_value: usize,
    values: usize,
    /// Kept so that the map outlives its programs' object.
    map: MapData,
}

// SAFETY: the memory is only read and written as atomic words, by any thread.
unsafe impl Send for MappedArray {}
// SAFETY: as above.
unsafe impl Sync for MappedArray {}

impl MappedArray {
    /// Maps an array that was declared with `BPF_F_MMAPABLE`.
    ///
    /// # Errors
    /// The kernel's answer, for instance for an array without that flag.
    pub fn new(name: &str, map: MapData) -> Result<Self, Error> {
        let about = map.info().map_err(|e| refusal::map(name, &e))?;
        let words_per_value = usize::try_from(about.value_size()).unwrap_or(0).div_ceil(8);
        let values = usize::try_from(about.max_entries()).unwrap_or(0);
        let page = rustix::param::page_size();
        let bytes = (words_per_value * values * 8).div_ceil(page) * page;
        // SAFETY: a new shared map at an address of the kernel's choice touches no memory that Rust knows.
        let memory = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map.fd().as_fd(),
                0,
            )
        };
        let memory = memory.map_err(|e| refusal::io_error(name, &e.into()))?;
        Ok(Self { memory, bytes, words_per_value, values, map })
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values
    }

    /// Whether the array has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// The words of a value; empty for an index that the array does not have.
    #[must_use]
    pub fn value(&self, index: usize) -> &[AtomicU64] {
        if index >= self.values {
            return &[];
        }
        let first = index * self.words_per_value;
        // SAFETY: `index` is below the number of values, whose words are all in the map; the map lives as long as
        // `self`, is aligned to a page, and is only accessed as atomic words, here and by BPF programs.
        unsafe {
            std::slice::from_raw_parts(
                self.memory.cast::<AtomicU64>().add(first),
                self.words_per_value,
            )
        }
    }

    /// Copies a value into words. Words that the value does not have become 0.
    pub fn read_words(&self, index: usize, words: &mut [u64]) {
        let value = self.value(index);
        for (at, word) in words.iter_mut().enumerate() {
            *word = value.get(at).map_or(0, |w| w.load(Ordering::Relaxed));
        }
    }

    /// The map, for an array of maps in another object.
    #[must_use]
    pub fn map(&self) -> &MapData {
        &self.map
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: `new` made the map with this address and size, and no slice of it outlives `self`.
        let _ = unsafe { munmap(self.memory, self.bytes) };
    }
}

/// A small array of bytes as a map of its own, as the tests need it.
///
/// # Errors
/// The kernel's answer.
pub fn typed<V: aya::Pod>(name: &str, map: MapData) -> Result<Array<MapData, V>, Error> {
    Array::try_from(aya::maps::Map::Array(map)).map_err(|e| refusal::map(name, &e))
}
