//! What a rule demands of a buffer: contents, regular expressions, byte arithmetic.
//!
//! All of these are tried left to right in one buffer (or one packet payload or stream piece),
//! sharing a position, the end of the last match. Their exact meaning is that of Suricata 8.0.x.

use crate::integer::IntegerMatch;
use crate::text::Text;

/// A number written in the rule, or a variable that `byte_extract` or `byte_math` fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand<T> {
    /// As written.
    Number(T),
    /// Number of the variable within the signature (0 is the first one defined).
    Variable(u8),
}

/// One condition on a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum BufferCondition {
    /// `content`.
    Content(Content),
    /// `pcre`.
    Pcre(Box<Pcre>),
    /// `byte_test`.
    ByteTest(Box<ByteTest>),
    /// `byte_jump`.
    ByteJump(Box<ByteJump>),
    /// `byte_extract`.
    ByteExtract(Box<ByteExtract>),
    /// `byte_math`.
    ByteMath(Box<ByteMath>),
    /// `isdataat`.
    IsDataAt(IsDataAt),
    /// `bsize`.
    Bsize(IntegerMatch),
    /// `urilen`; `raw` measures the raw URI (it is then in that buffer).
    Urilen(IntegerMatch),
    /// `dataset`.
    Dataset(DatasetTest),
    /// `datarep`.
    Datarep(DatarepTest),
    /// `absent`: the buffer is not there. With `or_else` what follows may match instead.
    Absent {
        /// The other conditions may match instead.
        or_else: bool,
    },
    /// `base64_decode`: decodes, then [`crate::Signature::base64_data`] is tried in the result.
    Base64Decode(Base64Decode),
    /// `entropy`.
    Entropy(Box<EntropyTest>),
    /// `asn1`.
    Asn1(Box<Asn1>),
    /// `lua` script that needs this buffer: number in [`crate::Ruleset::scripts`].
    Lua {
        /// The script.
        script: u32,
        /// `!` before its name.
        negated: bool,
    },
    /// `rpc`-like keywords that the payload list of Suricata holds and we do not run yet.
    Inert(&'static str),
}

impl BufferCondition {
    /// The content that it is, if it is one.
    #[inline]
    pub fn content(&self) -> Option<&Content> {
        if let BufferCondition::Content(content) = self { Some(content) } else { None }
    }

    /// Whether keywords after it may be relative to it.
    pub(crate) fn moves_position(&self) -> bool {
        matches!(
            self,
            BufferCondition::Content(_)
                | BufferCondition::Pcre(_)
                | BufferCondition::ByteTest(_)
                | BufferCondition::ByteJump(_)
                | BufferCondition::ByteExtract(_)
                | BufferCondition::ByteMath(_)
                | BufferCondition::IsDataAt(_)
        )
    }

    /// The keyword it was made of.
    pub fn keyword(&self) -> &'static str {
        match self {
            BufferCondition::Content(_) => "content",
            BufferCondition::Pcre(_) => "pcre",
            BufferCondition::ByteTest(_) => "byte_test",
            BufferCondition::ByteJump(_) => "byte_jump",
            BufferCondition::ByteExtract(_) => "byte_extract",
            BufferCondition::ByteMath(_) => "byte_math",
            BufferCondition::IsDataAt(_) => "isdataat",
            BufferCondition::Bsize(_) => "bsize",
            BufferCondition::Urilen(_) => "urilen",
            BufferCondition::Dataset(_) => "dataset",
            BufferCondition::Datarep(_) => "datarep",
            BufferCondition::Absent { .. } => "absent",
            BufferCondition::Base64Decode(_) => "base64_decode",
            BufferCondition::Entropy(_) => "entropy",
            BufferCondition::Asn1(_) => "asn1",
            BufferCondition::Lua { .. } => "lua",
            BufferCondition::Inert(keyword) => keyword,
        }
    }
}

/// Yes/no properties of a [`Content`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentFlags(pub u16);

impl ContentFlags {
    /// Case is ignored; the bytes are stored in lower case.
    pub const NOCASE: ContentFlags = ContentFlags(1);
    /// Must not be found.
    pub const NEGATED: ContentFlags = ContentFlags(1 << 1);
    /// Must be at the start (`depth` and `offset` say it too).
    pub const STARTS_WITH: ContentFlags = ContentFlags(1 << 2);
    /// The match must end where the buffer ends.
    pub const ENDS_WITH: ContentFlags = ContentFlags(1 << 3);
    /// `rawbytes` was written.
    pub const RAWBYTES: ContentFlags = ContentFlags(1 << 4);
    /// `fast_pattern` was written.
    pub const FAST_PATTERN: ContentFlags = ContentFlags(1 << 5);
    /// `fast_pattern:only`: not inspected again.
    pub const FAST_PATTERN_ONLY: ContentFlags = ContentFlags(1 << 6);
    /// `fast_pattern:off,len`.
    pub const FAST_PATTERN_CHOP: ContentFlags = ContentFlags(1 << 7);
    /// It is the signature's fast pattern.
    pub const IS_FAST_PATTERN: ContentFlags = ContentFlags(1 << 8);
    /// The fast pattern says it all: inspecting it again would find the same.
    pub const NO_DOUBLE_INSPECT: ContentFlags = ContentFlags(1 << 9);
    /// The next relative keyword of the buffer depends on where this one matched.
    pub const RELATIVE_NEXT: ContentFlags = ContentFlags(1 << 10);
    /// `distance` was written.
    pub const DISTANCE: ContentFlags = ContentFlags(1 << 11);
    /// `within` was written.
    pub const WITHIN: ContentFlags = ContentFlags(1 << 12);
    /// It was written with capitals, whether or not case is ignored.
    pub const WRITTEN_UPPER: ContentFlags = ContentFlags(1 << 13);
    /// It was written with small letters, whether or not case is ignored.
    pub const WRITTEN_LOWER: ContentFlags = ContentFlags(1 << 14);

    /// Whether all of these are set.
    #[inline]
    pub const fn has(self, flags: ContentFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Sets these.
    pub fn set(&mut self, flags: ContentFlags) {
        self.0 |= flags.0;
    }

    /// Clears these.
    pub fn clear(&mut self, flags: ContentFlags) {
        self.0 &= !flags.0;
    }
}

/// `content` with its modifiers.
///
/// `offset` and `depth` both count from the start of the buffer (the written depth has the offset
/// added when both are numbers); `distance` and `within` from the end of the match before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// The bytes; in lower case with [`ContentFlags::NOCASE`].
    pub bytes: Box<[u8]>,
    /// Properties.
    pub flags: ContentFlags,
    /// Start of the chopped fast pattern.
    pub chop_offset: u16,
    /// Length of the chopped fast pattern.
    pub chop_len: u16,
    /// `offset`.
    pub offset: Option<Operand<i32>>,
    /// `depth`. When it or `offset` is a variable it is relative to the offset.
    pub depth: Option<Operand<i32>>,
    /// `distance`.
    pub distance: Option<Operand<i32>>,
    /// `within`.
    pub within: Option<Operand<i32>>,
}

impl Content {
    /// Case is ignored.
    #[inline]
    pub fn is_nocase(&self) -> bool {
        self.flags.has(ContentFlags::NOCASE)
    }

    /// Must not be found.
    #[inline]
    pub fn is_negated(&self) -> bool {
        self.flags.has(ContentFlags::NEGATED)
    }

    /// Must end where the buffer ends.
    #[inline]
    pub fn ends_with(&self) -> bool {
        self.flags.has(ContentFlags::ENDS_WITH)
    }

    /// Must be at the start of the buffer.
    #[inline]
    pub fn starts_with(&self) -> bool {
        self.flags.has(ContentFlags::STARTS_WITH)
    }

    /// Relative to the match before.
    #[inline]
    pub fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }

    /// Whether the next relative keyword depends on this match.
    #[inline]
    pub fn has_relative_next(&self) -> bool {
        self.flags.has(ContentFlags::RELATIVE_NEXT)
    }

    /// The bytes given to the matcher: the chopped part, or all.
    pub fn fast_pattern_bytes(&self) -> &[u8] {
        if self.flags.has(ContentFlags::FAST_PATTERN_CHOP) {
            let start = usize::from(self.chop_offset);
            let end = start + usize::from(self.chop_len);
            return self.bytes.get(start..end).unwrap_or(&self.bytes);
        }
        &self.bytes
    }
}

/// `pcre`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pcre {
    /// The expression between its slashes, in the rule set's texts.
    pub pattern: Text,
    /// Options for the compiler.
    pub options: PcreOptions,
    /// Must not be found.
    pub negated: bool,
    /// `/R`: starts where the last match ended.
    pub relative: bool,
    /// A later relative keyword depends on where this one matched.
    pub relative_next: bool,
    /// `/O`: match limits don't hold.
    pub override_limits: bool,
    /// `/B`: without effect, reports say so.
    pub rawbytes: bool,
    /// What happens to capture groups.
    pub captures: Box<[Capture]>,
}

/// The perl options of a `pcre`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PcreOptions {
    /// `i`.
    pub caseless: bool,
    /// `m`.
    pub multiline: bool,
    /// `s`.
    pub dot_all: bool,
    /// `x`.
    pub extended: bool,
    /// `A`.
    pub anchored: bool,
    /// `E`.
    pub dollar_end_only: bool,
    /// `G`.
    pub ungreedy: bool,
}

/// A capture group whose text is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Group, from 1.
    pub group: u8,
    /// Where it goes.
    pub target: CaptureTarget,
    /// Number of its name in [`crate::Ruleset::variables`].
    pub name: u32,
}

/// Where a captured text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureTarget {
    /// `flow:name`: kept with the flow (EVE `flowvars`).
    Flow,
    /// `pkt:name`: kept with the packet (EVE `pktvars`).
    Packet,
    /// `alert:name`: written into the alert's context.
    Alert,
}

/// How bytes become a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// Network order.
    #[default]
    Big,
    /// `little`.
    Little,
    /// `dce`: the order of the DCERPC message.
    Dce,
}

/// Base of numbers written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextBase {
    /// `hex`.
    Hex,
    /// `dec`.
    Dec,
    /// `oct`.
    Oct,
    /// `string` without a base.
    Unset,
}

/// Comparison of `byte_test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOp {
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `=`
    Equal,
    /// `&`: some bit in common.
    And,
    /// `^`: some bit different.
    Xor,
    /// `>=`
    GreaterOrEqual,
    /// `<=`
    LessOrEqual,
}

/// `byte_test`.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteTest {
    /// Bytes read.
    pub nbytes: Operand<u8>,
    /// Comparison.
    pub op: ByteOp,
    /// `!` before it.
    pub negated: bool,
    /// What is compared with.
    pub value: Operand<u64>,
    /// From where.
    pub offset: Operand<i32>,
    /// Order of the bytes.
    pub order: ByteOrder,
    /// `big` was written out (reports say so).
    pub is_big_written: bool,
    /// The number is written as text.
    pub text: Option<TextBase>,
    /// Counted from the last match.
    pub relative: bool,
    /// Bits examined, with how far the result is shifted right.
    pub bitmask: Option<(u32, u8)>,
}

/// Where `byte_jump` counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpFrom {
    /// Behind the bytes read.
    Current,
    /// `from_beginning`.
    Beginning,
    /// `from_end`.
    End,
}

/// `byte_jump`.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteJump {
    /// Bytes read (0: only `post_offset` moves).
    pub nbytes: Operand<u8>,
    /// From where.
    pub offset: Operand<i32>,
    /// Order of the bytes.
    pub order: ByteOrder,
    /// `big` was written out (reports say so).
    pub is_big_written: bool,
    /// The number is written as text.
    pub text: Option<TextBase>,
    /// Counted from the last match.
    pub relative: bool,
    /// What the value is multiplied with.
    pub multiplier: u16,
    /// The value is rounded up to a multiple of four.
    pub align: bool,
    /// Where the jump counts from.
    pub from: JumpFrom,
    /// Added after the jump.
    pub post_offset: i32,
}

/// `byte_extract`.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteExtract {
    /// Bytes read.
    pub nbytes: u8,
    /// From where.
    pub offset: i32,
    /// Order of the bytes.
    pub order: ByteOrder,
    /// The number is written as text.
    pub text: Option<TextBase>,
    /// Counted from the last match.
    pub relative: bool,
    /// What the value is multiplied with.
    pub multiplier: u16,
    /// The value is rounded up to a multiple of this (2 or 4; 0: not).
    pub align: u8,
    /// The variable it fills.
    pub variable: u8,
}

/// Operation of `byte_math`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

/// `byte_math`.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteMath {
    /// Bytes read.
    pub nbytes: Operand<u8>,
    /// From where.
    pub offset: i32,
    /// Operation.
    pub op: MathOp,
    /// Right operand.
    pub rvalue: Operand<u32>,
    /// Order of the bytes.
    pub order: ByteOrder,
    /// The number is written as text.
    pub text: Option<TextBase>,
    /// Counted from the last match.
    pub relative: bool,
    /// Bits examined, with how far the result is shifted right.
    pub bitmask: Option<(u32, u8)>,
    /// The variable it fills.
    pub variable: u8,
}

/// `isdataat`.
#[derive(Clone, Debug, PartialEq)]
pub struct IsDataAt {
    /// Position.
    pub position: Operand<u16>,
    /// Counted from the last match.
    pub relative: bool,
    /// Must not have data there.
    pub negated: bool,
}

/// What `dataset` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetCommand {
    /// `set`: adds, and matches when it was new.
    Set,
    /// `unset`: takes out, and matches when it was there.
    Unset,
    /// `isset`.
    IsSet,
    /// `isnotset`.
    IsNotSet,
}

/// `dataset` on a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetTest {
    /// Number in [`crate::Ruleset::datasets`].
    pub dataset: u32,
    /// What it does.
    pub command: DatasetCommand,
}

/// `datarep` on a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatarepTest {
    /// Number in [`crate::Ruleset::datasets`].
    pub dataset: u32,
    /// What the reputation must be.
    pub condition: IntegerMatch,
}

/// `base64_decode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base64Decode {
    /// Bytes decoded at most (0: all).
    pub bytes: u32,
    /// From where.
    pub offset: u32,
    /// Counted from the last match.
    pub relative: bool,
}

/// `entropy`.
#[derive(Clone, Debug, PartialEq)]
pub struct EntropyTest {
    /// Bytes examined (0: all). Where fewer are left, there is no entropy.
    pub bytes: u32,
    /// From where.
    pub offset: u32,
    /// Comparison.
    pub op: EntropyOp,
}

/// Comparison of `entropy`, bits per byte from 0 to 8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EntropyOp {
    /// Equal.
    Equal(f64),
    /// Different.
    Differs(f64),
    /// Less.
    Less(f64),
    /// Less or equal.
    LessOrEqual(f64),
    /// Greater.
    Greater(f64),
    /// Greater or equal.
    GreaterOrEqual(f64),
    /// Strictly between.
    Between(f64, f64),
    /// Not strictly between.
    Outside(f64, f64),
}

/// `asn1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asn1 {
    /// `bitstring_overflow`.
    pub bitstring_overflow: bool,
    /// `double_overflow`.
    pub double_overflow: bool,
    /// `oversize_length N`.
    pub oversize_length: Option<u32>,
    /// `absolute_offset N`.
    pub absolute_offset: Option<u16>,
    /// `relative_offset N`.
    pub relative_offset: Option<i32>,
}
