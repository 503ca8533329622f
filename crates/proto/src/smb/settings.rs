//! What the configuration says: `app-layer.protocols.smb`.

use super::limits::*;
use gabion_record::Tree;

/// Settings of SMB. A size of 0 sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Live transactions of a flow.
    pub txs_max: usize,
    /// Bytes that a request may ask to read, and a response may carry.
    pub read_max: u32,
    /// Bytes that a request may write.
    pub write_max: u32,
    /// Bytes of a file read that wait for others before them.
    pub read_queue_bytes_max: u32,
    /// Chunks of a file read that wait for others before them.
    pub read_queue_chunks_max: u32,
    /// Bytes of a file written that wait for others before them.
    pub write_queue_bytes_max: u32,
    /// Chunks of a file written that wait for others before them.
    pub write_queue_chunks_max: u32,
    /// Names of files that a flow knows.
    pub guid_cache_max: usize,
    /// Requests to read that a flow knows.
    pub read_offset_cache_max: usize,
    /// Trees that a flow knows.
    pub tree_cache_max: usize,
    /// Pipes whose messages a flow puts together.
    pub pipe_cache_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            txs_max: TXS_PER_FLOW_MAX,
            read_max: READ_BYTES_MAX,
            write_max: WRITE_BYTES_MAX,
            read_queue_bytes_max: QUEUE_BYTES_MAX,
            read_queue_chunks_max: QUEUE_CHUNKS_MAX,
            write_queue_bytes_max: QUEUE_BYTES_MAX,
            write_queue_chunks_max: QUEUE_CHUNKS_MAX,
            guid_cache_max: FILES_KNOWN_MAX,
            read_offset_cache_max: READS_KNOWN_MAX,
            tree_cache_max: TREES_KNOWN_MAX,
            pipe_cache_max: PIPES_KNOWN_MAX,
        }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.smb`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let mut s = Settings::default();
        let Some(c) = config else { return s };
        for (key, slot) in [
            ("max-read-size", &mut s.read_max),
            ("max-write-size", &mut s.write_max),
            ("max-read-queue-size", &mut s.read_queue_bytes_max),
            ("max-read-queue-cnt", &mut s.read_queue_chunks_max),
            ("max-write-queue-size", &mut s.write_queue_bytes_max),
            ("max-write-queue-cnt", &mut s.write_queue_chunks_max),
        ] {
            if let Some(n) = c.size(key) {
                *slot = u32::try_from(n).unwrap_or(u32::MAX);
            }
        }
        for (key, slot) in [
            ("max-tx", &mut s.txs_max),
            ("max-guid-cache-size", &mut s.guid_cache_max),
            ("max-read-offset-cache-size", &mut s.read_offset_cache_max),
            ("max-tree-cache-size", &mut s.tree_cache_max),
            ("max-dcerpc-frag-cache-size", &mut s.pipe_cache_max),
        ] {
            if let Some(n) = c.number(key).filter(|n| *n > 0) {
                *slot = usize::try_from(n).unwrap_or(usize::MAX);
            }
        }
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_left() {
        let mut t = Tree::default();
        t.set("max-read-size", "1 MiB");
        t.set("max-write-size", "much");
        t.set("max-tx", "7");
        t.set("max-tree-cache-size", "0");
        let expected = Settings { read_max: 1 << 20, txs_max: 7, ..Settings::default() };
        assert_eq!(Settings::from_config(Some(&t)), expected);
        assert_eq!(Settings::from_config(None), Settings::default());
    }
}
