//! Why an input could not be read, or not to its end.

use gabion_record::saved::Saved;
use std::io;

/// Why an input could not be read, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// It begins as captures do.
    #[error("it is a capture")]
    Capture,
    /// The system, or what unpacks it, refused.
    #[error("{0}")]
    Unreadable(String),
}

impl From<InputError> for io::Error {
    fn from(error: InputError) -> io::Error {
        io::Error::other(error)
    }
}

impl From<io::Error> for InputError {
    fn from(error: io::Error) -> InputError {
        let own = error.get_ref().and_then(|inner| inner.downcast_ref::<InputError>());
        own.cloned().unwrap_or_else(|| InputError::Unreadable(error.to_string()))
    }
}

impl Saved for InputError {
    fn save(&self, out: &mut Vec<u8>) {
        let unreadable = match self {
            InputError::Capture => None,
            InputError::Unreadable(why) => Some(why.clone()),
        };
        unreadable.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let unreadable = Option::<String>::load(from)?;
        Some(unreadable.map_or(InputError::Capture, InputError::Unreadable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_kind_through_a_reader_and_a_checkpoint() {
        for error in [InputError::Capture, InputError::Unreadable("gone".to_owned())] {
            assert_eq!(InputError::from(io::Error::from(error.clone())), error);
            let mut bytes = Vec::new();
            error.save(&mut bytes);
            assert_eq!(InputError::load(&mut bytes.as_slice()), Some(error));
        }
        let other = InputError::from(io::Error::other("refused"));
        assert_eq!(other, InputError::Unreadable("refused".to_owned()));
    }
}
