//! The only module that calls PCRE2: compiled expressions and a worker's match space.
//!
//! The safe crate for PCRE2 exposes neither match, depth, heap nor offset limits, so this module
//! binds the few functions itself. All unsafe code of the regular expressions is in this file; its
//! callers see owned Rust values. Ownership: [`Code`] and [`Space`] free what they created, and
//! each foreign pointer is held by exactly one of them.

use super::{Flags, Limits};
use crate::limits::{REGEX_JIT_STACK_MAX, REGEX_JIT_STACK_START};
use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use pcre2_sys as sys;

/// Why an expression was refused.
pub(super) struct Refusal {
    pub(super) code: i32,
    pub(super) offset: usize,
    pub(super) message: String,
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Code {
    raw: NonNull<sys::pcre2_code_8>,
    pub(super) groups: u32,
    pub(super) is_jit: bool,
    pub(super) memory_bytes: usize,
}

// SAFETY: compiled code is read only after `Code::new` returned; the library documents that one
// code may be used by several threads at once, each with its own match data and context.
unsafe impl Send for Code {}
// SAFETY: as above; no function that changes the code is called through a shared reference.
unsafe impl Sync for Code {}

impl Code {
    pub(super) fn new(pattern: &[u8], flags: Flags, limits: &Limits) -> Result<Code, Refusal> {
        let mut code: c_int = 0;
        let mut offset = 0usize;
        let context = CompileContext::new()?;
        let mut options = options_of(flags);
        if limits.offset_limit.is_some() {
            options |= sys::PCRE2_USE_OFFSET_LIMIT;
        }
        // SAFETY: pattern is valid for its length and only read during the call; the two out
        // pointers are to live locals; the context is alive until the end of this function.
        let raw = unsafe {
            sys::pcre2_compile_8(
                pattern.as_ptr(),
                pattern.len(),
                options,
                &mut code,
                &mut offset,
                context.0.as_ptr(),
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            return Err(Refusal { code, offset, message: message_of(code) });
        };
        let mut compiled = Code { raw, groups: 0, is_jit: false, memory_bytes: 0 };
        compiled.groups = compiled.info_u32(sys::PCRE2_INFO_CAPTURECOUNT);
        compiled.memory_bytes = compiled.info_usize(sys::PCRE2_INFO_SIZE);
        if flags.jit {
            // SAFETY: the code was just created and is not shared yet.
            let outcome =
                unsafe { sys::pcre2_jit_compile_8(raw.as_ptr(), sys::PCRE2_JIT_COMPLETE) };
            compiled.is_jit = outcome == 0;
            compiled.memory_bytes += compiled.info_usize(sys::PCRE2_INFO_JITSIZE);
        }
        Ok(compiled)
    }

    fn info_u32(&self, what: u32) -> u32 {
        let mut value = 0u32;
        // SAFETY: `what` is one of the items that the library writes as u32.
        unsafe { sys::pcre2_pattern_info_8(self.raw.as_ptr(), what, (&raw mut value).cast()) };
        value
    }

    fn info_usize(&self, what: u32) -> usize {
        let mut value = 0usize;
        // SAFETY: `what` is one of the items that the library writes as size_t.
        unsafe { sys::pcre2_pattern_info_8(self.raw.as_ptr(), what, (&raw mut value).cast()) };
        value
    }

    /// Names of groups with their numbers, as the expression declares them.
    pub(super) fn names(&self) -> Vec<(String, u32)> {
        let count = self.info_u32(sys::PCRE2_INFO_NAMECOUNT) as usize;
        let each = self.info_u32(sys::PCRE2_INFO_NAMEENTRYSIZE) as usize;
        let mut table: *const u8 = ptr::null();
        // SAFETY: PCRE2_INFO_NAMETABLE writes a pointer to the table.
        unsafe {
            sys::pcre2_pattern_info_8(
                self.raw.as_ptr(),
                sys::PCRE2_INFO_NAMETABLE,
                (&raw mut table).cast(),
            )
        };
        if count == 0 || each < 3 || table.is_null() {
            return Vec::new();
        }
        // SAFETY: the table has `count` entries of `each` bytes and lives as long as the code.
        let table = unsafe { core::slice::from_raw_parts(table, count * each) };
        let name_of = |entry: &[u8]| {
            let number = u32::from(entry[0]) << 8 | u32::from(entry[1]);
            let name: Vec<u8> = entry[2..].iter().copied().take_while(|&b| b != 0).collect();
            (String::from_utf8_lossy(&name).into_owned(), number)
        };
        table.chunks_exact(each).map(name_of).collect()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: created by pcre2_compile and freed once.
        unsafe { sys::pcre2_code_free_8(self.raw.as_ptr()) };
    }
}

struct CompileContext(NonNull<sys::pcre2_compile_context_8>);

impl CompileContext {
    fn new() -> Result<Self, Refusal> {
        // SAFETY: a null general context means the library's default memory functions.
        let raw = unsafe { sys::pcre2_compile_context_create_8(ptr::null_mut()) };
        let Some(raw) = NonNull::new(raw) else {
            let code = sys::PCRE2_ERROR_NOMEMORY;
            return Err(Refusal { code, offset: 0, message: message_of(code) });
        };
        // SAFETY: the context was just created; the value is one of the library's constants.
        unsafe { sys::pcre2_set_newline_8(raw.as_ptr(), sys::PCRE2_NEWLINE_LF) };
        Ok(CompileContext(raw))
    }
}

impl Drop for CompileContext {
    fn drop(&mut self) {
        // SAFETY: created by pcre2_compile_context_create and freed once.
        unsafe { sys::pcre2_compile_context_free_8(self.0.as_ptr()) };
    }
}

/// The result of a search, in the library's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Match,
    NoMatch,
    Limit,
}

/// A worker's match context, stack for compiled code and result vector.
#[derive(Debug)]
pub(super) struct Space {
    context: NonNull<sys::pcre2_match_context_8>,
    stack: Option<NonNull<sys::pcre2_jit_stack_8>>,
    results: NonNull<sys::pcre2_match_data_8>,
    pairs: u32,
    /// Groups (with group 0) that the last search has set; 0 if it was no match.
    valid: u32,
    limits: Option<Limits>,
}

// SAFETY: the three objects belong to this value alone and have no thread affinity.
unsafe impl Send for Space {}

impl Space {
    /// Allocates the space; `None` if there is no memory.
    pub(super) fn new(pairs: u32) -> Option<Space> {
        // SAFETY: a null general context means the library's default memory functions.
        let context = NonNull::new(unsafe { sys::pcre2_match_context_create_8(ptr::null_mut()) })?;
        // SAFETY: as above.
        let results =
            NonNull::new(unsafe { sys::pcre2_match_data_create_8(pairs, ptr::null_mut()) });
        let Some(results) = results else {
            // SAFETY: the context was created above and is not used again.
            unsafe { sys::pcre2_match_context_free_8(context.as_ptr()) };
            return None;
        };
        // SAFETY: as above; null when the library was built without its compiler.
        let stack = NonNull::new(unsafe {
            sys::pcre2_jit_stack_create_8(
                REGEX_JIT_STACK_START,
                REGEX_JIT_STACK_MAX,
                ptr::null_mut(),
            )
        });
        if let Some(stack) = stack {
            let given: *mut c_void = stack.as_ptr().cast();
            // SAFETY: without a callback the argument is the stack itself; it lives as long as
            // the context, both being fields of the same value.
            unsafe { sys::pcre2_jit_stack_assign_8(context.as_ptr(), None, given) };
        }
        Some(Space { context, stack, results, pairs, valid: 0, limits: None })
    }

    /// Allocates space for the groups of `code`.
    fn reserve_groups(&mut self, code: &Code) -> bool {
        let pairs = code.groups.saturating_add(1);
        if pairs <= self.pairs {
            return true;
        }
        // SAFETY: a null general context means the library's default memory functions.
        let larger = unsafe { sys::pcre2_match_data_create_8(pairs, ptr::null_mut()) };
        let Some(larger) = NonNull::new(larger) else { return false };
        // SAFETY: the old vector is not used again.
        unsafe { sys::pcre2_match_data_free_8(self.results.as_ptr()) };
        self.results = larger;
        self.pairs = pairs;
        true
    }

    fn set_limits(&mut self, limits: &Limits) {
        if self.limits.as_ref() == Some(limits) {
            return;
        }
        let context = self.context.as_ptr();
        // SAFETY: the context is alive and owned by this value.
        unsafe { sys::pcre2_set_match_limit_8(context, limits.match_limit) };
        // SAFETY: as above.
        unsafe { sys::pcre2_set_depth_limit_8(context, limits.depth_limit) };
        // SAFETY: as above.
        unsafe { sys::pcre2_set_heap_limit_8(context, limits.heap_kib) };
        let offset = limits.offset_limit.unwrap_or(usize::MAX);
        // SAFETY: as above; usize::MAX is PCRE2_UNSET, no limit.
        unsafe { sys::pcre2_set_offset_limit_8(context, offset) };
        self.limits = Some(*limits);
    }

    /// Searches `hay` from `start`; `anchored` allows a match at `start` only.
    pub(super) fn search(
        &mut self,
        code: &Code,
        limits: &Limits,
        hay: &[u8],
        start: usize,
        anchored: bool,
    ) -> Answer {
        self.valid = 0;
        if start > hay.len() || !self.reserve_groups(code) {
            return Answer::NoMatch;
        }
        self.set_limits(limits);
        let options = if anchored { sys::PCRE2_ANCHORED } else { 0 };
        // SAFETY: the code is alive; hay is valid for its length and start is within it; results
        // and context belong to this value alone.
        let outcome = unsafe {
            sys::pcre2_match_8(
                code.raw.as_ptr(),
                hay.as_ptr(),
                hay.len(),
                start,
                options,
                self.results.as_ptr(),
                self.context.as_ptr(),
            )
        };
        match outcome {
            0.. => {
                self.valid = code.groups.saturating_add(1);
                Answer::Match
            }
            sys::PCRE2_ERROR_MATCHLIMIT
            | sys::PCRE2_ERROR_DEPTHLIMIT
            | sys::PCRE2_ERROR_HEAPLIMIT
            | sys::PCRE2_ERROR_JIT_STACKLIMIT
            | sys::PCRE2_ERROR_NOMEMORY => Answer::Limit,
            _ => Answer::NoMatch,
        }
    }

    /// Bounds of group `number` of the last successful search; `None` if it took no part.
    pub(super) fn group(&self, number: u32) -> Option<(usize, usize)> {
        if number >= self.valid {
            return None;
        }
        // SAFETY: the vector is alive as long as the match data.
        let vector = unsafe { sys::pcre2_get_ovector_pointer_8(self.results.as_ptr()) };
        // SAFETY: number < valid <= pairs, the vector has two entries for each of `pairs` groups,
        // and a successful search set those of all groups of its expression, groups without part
        // to PCRE2_UNSET.
        let pair = unsafe { core::slice::from_raw_parts(vector.add(number as usize * 2), 2) };
        (pair[0] != usize::MAX && pair[0] <= pair[1]).then_some((pair[0], pair[1]))
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // SAFETY: created in `new` or `fit` and freed once.
        unsafe { sys::pcre2_match_data_free_8(self.results.as_ptr()) };
        // SAFETY: created in `new` and freed once.
        unsafe { sys::pcre2_match_context_free_8(self.context.as_ptr()) };
        if let Some(stack) = self.stack {
            // SAFETY: created in `new` and freed once, after the context that referred to it.
            unsafe { sys::pcre2_jit_stack_free_8(stack.as_ptr()) };
        }
    }
}

fn options_of(flags: Flags) -> u32 {
    let table = [
        (flags.caseless, sys::PCRE2_CASELESS),
        (flags.multiline, sys::PCRE2_MULTILINE),
        (flags.dotall, sys::PCRE2_DOTALL),
        (flags.extended, sys::PCRE2_EXTENDED),
        (flags.anchored, sys::PCRE2_ANCHORED),
        (flags.dollar_endonly, sys::PCRE2_DOLLAR_ENDONLY),
        (flags.ungreedy, sys::PCRE2_UNGREEDY),
    ];
    table.iter().filter(|(set, _)| *set).fold(0, |options, (_, bit)| options | bit)
}

fn message_of(code: c_int) -> String {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer is valid for its length; the library ends the text with a zero byte.
    let length = unsafe { sys::pcre2_get_error_message_8(code, buffer.as_mut_ptr(), buffer.len()) };
    let length = usize::try_from(length).unwrap_or(0).min(buffer.len());
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}
