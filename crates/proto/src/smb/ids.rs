//! Numbers that tie messages together: sessions, trees, messages, files and calls.

/// Who asked, and under which number: what a response must share with its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ids {
    /// Session, or user of SMB 1.
    pub session: u64,
    /// Tree.
    pub tree: u32,
    /// Message.
    pub message: u64,
}

/// A file's identifier: 16 bytes, or two in SMB 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileId {
    /// Of SMB 1.
    Short(u16),
    /// Of SMB 2.
    Long([u8; 16]),
}

/// A call in a pipe: session, the message that it shares with its answer or the pipe's file, and its number.
pub type CallKey = (u64, Result<u64, FileId>, u32);
