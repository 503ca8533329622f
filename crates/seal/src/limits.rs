//! Every bound of this crate, each with its reason. What comes out of a log is as hostile as what comes
//! from the wire: anybody who writes to the disk chooses it.

use gabion_record::limits;

/// Plain bytes at which a chunk is sealed. Larger ones compress 5 % better and make a lookup of one
/// record and a proof dearer; the knee of the measured curve is here.
pub const CHUNK_PLAIN: usize = 256 << 10;

/// Bytes of the tree kept in memory between a commit and the next.
pub const COMMIT_BYTES: usize = 1 << 20;

/// Bytes of a segment file: 64 MiB are verified in 30 ms and are a handy unit of retention.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// Bytes read at once when a segment is gone through: some five chunks, which stay in a core's own cache
/// until they are hashed, and are few enough that all cores end at about the same time.
pub const READ_WINDOW: usize = 256 << 10;

limits! { "seal";
    /// Plain bytes a chunk may say it has. A reader allocates no more than this for one.
    pub const CHUNK_PLAIN_MAX: usize = 16 << 20,
        Refuses("the chunk, as damaged");

    /// Bytes of a chunk's body on disk: the plain limit with 12 % of padding, and what zstd adds to bytes
    /// that can't be compressed.
    pub const CHUNK_BODY_MAX: usize = 18 << 20,
        Refuses("the chunk, as damaged");

    /// Records of one chunk. Empty records cost a few plain bytes each, so the plain size alone would let
    /// one chunk hold millions of leaves.
    pub const CHUNK_RECORDS_MAX: usize = 1 << 16,
        Spares("the chunk is sealed and another one begun; one that says it has more is damaged");

    /// Entries of a chunk's source table: the chunk is sealed when it is full.
    pub const CHUNK_SOURCES_MAX: usize = 4096,
        Spares("the chunk is sealed and another one begun; one that says it has more is damaged");

    /// Bytes of one record. A syslog message is 64 KiB at most; findings are JSON of a few KiB.
    pub const RECORD_MAX: usize = 1 << 20,
        Refuses("the record: the program that seals it cuts it first, and marks it");

    /// Bytes of a source's table entry: two texts of at most 255 bytes.
    pub const SOURCE_TEXT_MAX: usize = 255,
        Loses("the end of the name of a source");

    /// Bytes of a segment's index: 64 a chunk, so a million chunks. A segment with more goes without one.
    pub const INDEX_MAX: u64 = 64 << 20,
        Spares("the segment goes without an index and is read from its begin");

    /// Recipient stanzas of one segment: readers and their replacements of one organisation.
    pub const STANZAS_MAX: usize = 64,
        Refuses("the recipients");

    /// Bytes of a `.keys` file: the stanzas at the size of the largest RSA key.
    pub const KEYS_FILE_MAX: u64 = 1 << 20,
        Refuses("the file, as damaged");

    /// Bytes of a small file of a log, of its state or of its keys: each key or reader has some hundred.
    pub const SMALL_FILE_MAX: u64 = 1 << 20,
        Refuses("the file");

    /// Bytes of the file with the identity of a log: a few lines.
    pub const IDENTITY_FILE_MAX: u64 = 64 << 10,
        Refuses("the log");

    /// Bytes of a signed note: a checkpoint with the cosignatures of many witnesses.
    pub const NOTE_MAX: usize = 64 << 10,
        Refuses("the note");

    /// Notes of `checkpoints` that bring nothing new (a size signed before, or a signature that is wrong) whose
    /// signatures are checked. Crashes leave one such note each; checking costs 50 µs, so that a file of
    /// repeated notes would keep a verifier busy for seconds a megabyte. The rest is counted and reported.
    pub const NOTES_AGAIN_MAX: u32 = 64,
        Counts("checks of further ones, by a warning with their number");

    /// Commit marks after damage whose signatures are checked, from the end of the segment on. The last two good
    /// ones decide; an attacker can put eight thousand false ones into a megabyte.
    pub const MARKS_BEHIND_MAX: usize = 1024,
        Counts("further marks, by a warning");

    /// Places and warnings of a report. The verdict stays; what is beyond is counted.
    pub const REPORT_LINES_MAX: usize = 1000,
        Counts("further lines, by their number");

    /// Bytes of a pruned segment's stub: 32 a chunk and the clear chunks whole, which is less than the segment
    /// had, and a segment ends at 64 MiB and one commit.
    pub const STUB_MAX: u64 = 256 << 20,
        Refuses("the stub, as damaged");

    /// Signature lines of a note that are looked at; the standard asks for 16 at least.
    pub const NOTE_SIGNATURES_MAX: usize = 64,
        Refuses("the note");

    /// Hashes of a proof: the depth of a tree of 2^64 leaves.
    pub const PROOF_HASHES_MAX: usize = 64,
        Refuses("the proof");

    /// Bytes of a proof file: one record in base64 with two paths.
    pub const PROOF_FILE_MAX: usize = 4 << 20,
        Refuses("the proof");

    /// Bytes of one line of a slog file: 64 KiB of message become 256 KiB of hex in base64.
    pub const SLOG_LINE_MAX: usize = 4 << 20,
        Counts("the line, which is sealed as it came, cut and marked, with its fault");

    /// Bytes that a slog blob may unpack to.
    pub const SLOG_PLAIN_MAX: usize = 8 << 20,
        Counts("the line, which is sealed as it came, with its fault");

    /// Epochs that a proof carries the announcements of.
    pub const PROOF_EPOCHS_MAX: usize = 2_048,
        Spares("the proof is against the key of a later epoch");

    /// Files kept open for reading; a log of years has thousands of segments.
    pub const OPEN_FILES_MAX: usize = 32,
        Spares("all are closed, and opened again when they are read");

    /// Times a folder is listed again until it is the same twice: a writer may rotate and prune meanwhile.
    pub const LISTINGS: u32 = 100,
        Spares("the last listing counts");

    /// Times a lock is tried for: a writer that ends holds it for a moment more.
    pub const LOCK_TRIES: u32 = 5,
        Refuses("the lock: another writer has it");

    /// How often a log is looked at again because a segment went away while it was read: a small log of small
    /// segments may be pruned many times in a second.
    pub const LOOKS: u32 = 20,
        Counts("what went away while it was read, by a warning");

    /// Sources whose shed messages are counted apart.
    pub const SHED_SOURCES_MAX: usize = 4096,
        Spares("those of further sources are counted together");

    /// Bytes of a file of anchors.
    pub const ANCHORS_BYTES_MAX: u64 = 1 << 30,
        Refuses("the file");

    /// Leaves kept between two proofs for witnesses: 32 MiB.
    pub const LEAVES_KEPT_MAX: usize = 1 << 20,
        Spares("more are read again each time");

    /// Bytes of the file with the newest cosigned checkpoint of each witness.
    pub const WITNESSED_BYTES_MAX: u64 = 1 << 20,
        Refuses("the file: the log is judged as if no witness had answered");
}
