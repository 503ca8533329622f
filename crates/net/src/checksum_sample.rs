//! Whether a capture's checksums are looked at: `pcap-file.checksum-checks`.
//!
//! Network cards compute checksums themselves, so a capture that was made on the sending host holds
//! wrong ones. `auto` looks at the beginning of the capture and ignores later checksums where too many
//! were wrong. Suricata 8.0.7 counts as follows (captures of 1,500 packets, of which some at chosen places
//! were wrong, read with `--runmode single`): TCP packets of the first 999 frames, neither fragments nor
//! inside of tunnels; with 101 wrong ones all checksums from frame 1,000 on are ignored, with 100 none. It
//! counts over all captures of a folder, not in each capture again. It ignores checksums of whole packets
//! that lie directly in a frame: what is reassembled or in a tunnel is still checked.
//!
//! The decision is made where frames are in order, so that it does not depend on the number of workers.

use crate::engine::{Engine, EngineOptions};
use crate::limits::{CHECKSUM_SAMPLE, CHECKSUM_WRONG_MAX};
use gabion_packet::{DecodeCounters, Flags, Link, PacketSet, checksum};
use std::sync::Arc;

/// What is done with checksums of captures (`pcap-file.checksum-checks`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureChecksums {
    /// They are looked at (`yes`).
    Checked,
    /// They count as right (`no`).
    Ignored,
    /// They are looked at unless too many of the first are wrong (`auto`).
    #[default]
    Auto,
}

/// Looks at the first frames of a run, in order.
#[derive(Debug)]
pub struct ChecksumSample {
    options: Arc<EngineOptions>,
    set: Box<PacketSet>,
    /// Counted again, and for all to see, by the worker that takes the frame.
    unread: DecodeCounters,
    /// Frames so far, until it is decided.
    seen: Option<u64>,
    wrong: u64,
    ignored_from: u64,
}

impl ChecksumSample {
    /// A sample that is decided as this engine's options say.
    pub fn new(engine: &Engine) -> ChecksumSample {
        ChecksumSample::with_options(Arc::clone(&engine.options))
    }

    pub(crate) fn with_options(options: Arc<EngineOptions>) -> ChecksumSample {
        let (seen, ignored_from) = match (options.checksums, options.captured) {
            (true, CaptureChecksums::Auto) => (Some(0), u64::MAX),
            (_, CaptureChecksums::Ignored) => (None, 0),
            (false, CaptureChecksums::Auto) | (_, CaptureChecksums::Checked) => (None, u64::MAX),
        };
        ChecksumSample {
            options,
            set: Box::new(PacketSet::new()),
            unread: DecodeCounters::default(),
            seen,
            wrong: 0,
            ignored_from,
        }
    }

    /// Whether all is decided: later frames need not be shown.
    #[inline]
    pub fn is_decided(&self) -> bool {
        self.seen.is_none()
    }

    /// Looks at the next frame: its number in the run, its LINKTYPE and its bytes.
    pub fn check_frame(&mut self, number: u64, link: u16, data: &[u8]) {
        let Some(seen) = &mut self.seen else { return };
        *seen += 1;
        if *seen == CHECKSUM_SAMPLE {
            self.seen = None;
            if self.wrong > CHECKSUM_WRONG_MAX {
                self.ignored_from = number;
            }
        } else if let Some(link) = Link::from_linktype(link.into()) {
            let config = &self.options.decode;
            gabion_packet::decode(&mut self.set, &mut self.unread, config, link, data);
            let root = self.set.root();
            let is_whole = root.flags.has(Flags::WANTS_FLOW) && !root.flags.has(Flags::FRAGMENT);
            self.wrong += u64::from(is_whole && checksum::tcp_ok(root, data) == Some(false));
        }
    }

    /// Number of the first frame whose checksums are ignored; the greatest number there is where none are.
    #[inline]
    pub fn ignored_from(&self) -> u64 {
        self.ignored_from
    }

    /// Number of the frame from which `auto` ignores checksums.
    pub fn abandoned_at(&self) -> Option<u64> {
        (1..u64::MAX).contains(&self.ignored_from).then_some(self.ignored_from)
    }
}
