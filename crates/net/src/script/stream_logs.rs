//! How far scripts have logged the streams and bodies of a flow.

use gabion_record::Direction;

/// How far a stream or body was logged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Logged {
    pub(crate) bytes: u64,
    pub(crate) is_closed: bool,
}

/// How far the streams and bodies of a flow were logged.
#[derive(Debug, Default)]
pub(crate) struct StreamLogs {
    pub(crate) tcp: [Logged; 2],
    /// By transaction.
    pub(crate) bodies: Vec<(u64, [Logged; 2])>,
}

impl StreamLogs {
    /// How far the body of a transaction was logged.
    pub(crate) fn body(&mut self, tx: u64, d: Direction) -> &mut Logged {
        let at = match self.bodies.iter().position(|(id, _)| *id == tx) {
            Some(at) => at,
            None => {
                self.bodies.push((tx, Default::default()));
                self.bodies.len() - 1
            }
        };
        &mut self.bodies[at].1[d.index()]
    }
}
