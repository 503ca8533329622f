//! Messages about errors: one line, with what an operator can do about the error of the operating system that it ends
//! with.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;
use std::sync::Arc;

/// What is wrong, and the error of the operating system that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What is wrong.
    pub text: String,
    /// The error of the operating system, where it comes from one.
    pub system: Option<SystemError>,
}

impl Message {
    /// The same about this file, folder or part.
    pub fn about(self, what: impl Display) -> Message {
        Message { text: format!("{what}: {}", self.text), ..self }
    }

    /// In one line, with advice about the error of the system unless the text gives some.
    pub fn line(&self) -> String {
        let mut line = one_line(&self.text);
        if let Some(advice) = self.system.and_then(|system| system.advice_after(&line)) {
            line.push_str(": ");
            line.push_str(advice);
        }
        line
    }
}

/// An error about this file, folder or part.
pub fn about(what: impl Display, e: &(impl Error + 'static)) -> Message {
    Message::from(e).about(what)
}

impl From<String> for Message {
    fn from(text: String) -> Message {
        Message { text, system: None }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Message {
        Message::from(text.to_owned())
    }
}

impl<E: Error + 'static> From<&E> for Message {
    fn from(e: &E) -> Message {
        Message { text: e.to_string(), system: SystemError::behind(e) }
    }
}

/// A message is one line, and moves nothing on a terminal: names of files and values may hold anything.
pub fn one_line(text: &str) -> String {
    let plain = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() => '.',
        c => c,
    };
    text.chars().map(plain).collect()
}

/// An error of the operating system, by its number (errno(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemError(i32);

/// What to do about an error, where the caller gives no better advice.
const ADVICE: &[(i32, &str)] = &[
    (libc::ENOENT, "name one that exists"),
    (libc::EACCES, "run this as a user who may, or name another"),
    (libc::EEXIST, "name another"),
    (libc::ENOTDIR, "name another: a file is in the place of a folder"),
    (libc::EISDIR, "name a file"),
    (libc::ENOSPC, "make space, or name another place"),
];

impl SystemError {
    /// The error with this number.
    #[must_use]
    pub fn from_number(errno: i32) -> SystemError {
        SystemError(errno)
    }

    /// The error of the operating system among an error and its sources.
    #[must_use]
    pub fn behind(error: &(dyn Error + 'static)) -> Option<SystemError> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(io) = io_error(error) {
                // An error that is packed into an `io::Error` is not among its sources.
                return match (io.raw_os_error(), io.get_ref()) {
                    (Some(errno), _) => Some(SystemError(errno)),
                    (None, Some(inner)) => SystemError::behind(inner),
                    (None, None) => None,
                };
            }
            if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
                return SystemError::behind(&**shared);
            }
            next = error.source();
        }
        None
    }

    /// What to do about it, if there is advice that holds everywhere.
    #[must_use]
    pub fn advice(self) -> Option<&'static str> {
        ADVICE.iter().find(|(errno, _)| *errno == self.0).map(|(_, advice)| *advice)
    }

    /// The advice for a message that ends with this error: a message that continues after it gives advice of its own.
    #[must_use]
    pub fn advice_after(self, message: &str) -> Option<&'static str> {
        self.advice().filter(|_| message.ends_with(&self.to_string()))
    }
}

/// The same as an `io::Error` displays it.
impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

fn io_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let shared = || error.downcast_ref::<Arc<io::Error>>().map(AsRef::as_ref);
    error.downcast_ref::<io::Error>().or_else(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Around<E>(E);

    impl<E: fmt::Debug> fmt::Display for Around<E> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:?}", self.0)
        }
    }

    impl<E: Error + 'static> Error for Around<E> {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn the_number_is_found_through_sources_and_what_is_packed() {
        let io = || io::Error::from_raw_os_error(libc::EACCES);
        let found = Some(SystemError(libc::EACCES));
        assert_eq!(SystemError::behind(&io()), found);
        assert_eq!(SystemError::behind(&Around(Around(io()))), found);
        assert_eq!(SystemError::behind(&Around(Arc::new(io()))), found);
        assert_eq!(SystemError::behind(&io::Error::other(Around(io()))), found);
        let shared: Arc<dyn Error + Send + Sync> = Arc::new(Around(io()));
        assert_eq!(SystemError::behind(&Around(shared)), found);
        assert_eq!(SystemError::behind(&io::Error::other("no number")), None);
        assert_eq!(SystemError::behind(&Around(fmt::Error)), None);
    }

    #[test]
    fn advice_follows_only_a_message_that_ends_with_the_error() {
        let error = SystemError::from_number(libc::ENOENT);
        assert_eq!(error.advice_after(&format!("a: {error}")), Some("name one that exists"));
        assert_eq!(error.advice_after(&format!("a: {error}: name a capture")), None);
        assert_eq!(
            SystemError(libc::EPERM).advice_after(&SystemError(libc::EPERM).to_string()),
            None
        );
    }
}
