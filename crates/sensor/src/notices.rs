//! What a person should know during a run: a profile that can't be kept, lists that were read again,
//! a worker that stalls. The caller that makes the run decides where such lines go.

use crate::Error;
use std::fmt;
use std::sync::Arc;

/// One of them.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A line.
    Line(&'a str),
    /// Something failed and the run continues: with what effect.
    Failed(&'a Error, &'a str),
}

type Report = dyn Fn(Notice<'_>) + Send + Sync;

/// Where notices go; nowhere unless somebody says so.
#[derive(Clone, Default)]
pub struct Notices(Option<Arc<Report>>);

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

impl Notices {
    /// Notices go to this function, on whichever thread they come up.
    pub fn new(report: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Notices {
        Notices(Some(Arc::new(report)))
    }

    /// Reports a line.
    pub fn report(&self, line: &str) {
        self.put(Notice::Line(line));
    }

    pub(crate) fn report_failure(&self, error: &Error, effect: &str) {
        self.put(Notice::Failed(error, effect));
    }

    fn put(&self, notice: Notice<'_>) {
        if let Some(report) = &self.0 {
            report(notice);
        }
    }
}
