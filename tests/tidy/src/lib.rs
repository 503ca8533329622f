//! The project's rules that a program can check: the input is the repository's folder, the output
//! is a list of places that break a rule, each as `file:line: what is wrong`.
//!
//! Every check is a function of text, so that its own test can show that it finds something; the
//! tests in `tests/repository.rs` run all checks over the repository. Rules that the compiler or
//! clippy has are left to them. Words that are forbidden in sources are concatenated from halves
//! here, because this crate is checked too.
#![forbid(unsafe_code)]

pub mod arrows;
pub mod circles;
pub mod clones;
pub mod counts;
pub mod documents;
pub mod examples;
pub mod habits;
pub mod limits;
pub mod manifests;
pub mod modules;
pub mod open_fields;
pub mod openings;
pub mod protocols;
pub mod sources;
pub mod surface;
pub mod text_keys;
pub mod threads;
pub mod tree;
pub mod words;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Path from the repository's root.
    pub path: String,
    /// Line from 1; 0 means the file as a whole.
    pub line: usize,
    /// What is wrong, and what to do if that is not obvious.
    pub what: String,
}

impl Fault {
    /// A fault at a line (0: the whole file).
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Fault {
        Fault { path: path.to_owned(), line, what: what.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// The faults as lines, in order, each once.
#[must_use]
pub fn listing(mut faults: Vec<Fault>) -> String {
    faults.sort();
    faults.dedup();
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}
