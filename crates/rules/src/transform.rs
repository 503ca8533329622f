//! Functions on a buffer that run before its conditions are tried.

use crate::content::PcreOptions;

/// Number of a chain of transforms in [`crate::Ruleset::chains`]; 0 is the empty chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ChainId(pub u16);

impl ChainId {
    /// No transform.
    pub const NONE: ChainId = ChainId(0);
}

/// A function on a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Takes white space out.
    StripWhitespace,
    /// Makes each run of white space one character.
    CompressWhitespace,
    /// ASCII lower case.
    ToLowercase,
    /// ASCII upper case.
    ToUppercase,
    /// MD5, 16 raw bytes.
    ToMd5,
    /// SHA-1, 20 raw bytes.
    ToSha1,
    /// SHA-256, 32 raw bytes.
    ToSha256,
    /// The first capture group of a regular expression.
    PcreXform {
        /// The expression.
        pattern: Box<str>,
        /// Its options.
        options: PcreOptionsKey,
    },
    /// `%XX` and `+` decoded.
    UrlDecode,
    /// XOR with a key, repeated.
    Xor(Box<[u8]>),
    /// A dot in front.
    DotPrefix,
    /// Header names in lower case.
    HeaderLowercase,
    /// Lines of pseudo headers (`:method: …`) taken out.
    StripPseudoHeaders,
    /// The registered domain.
    Domain,
    /// The top-level domain (public suffix).
    Tld,
    /// Base64 decoded.
    FromBase64 {
        /// Bytes examined (0: all).
        bytes: u32,
        /// From where.
        offset: u32,
        /// Leniency.
        mode: Base64Mode,
    },
    /// A Lua function.
    LuaXform {
        /// Number in [`crate::Ruleset::scripts`].
        script: u32,
        /// Arguments as written.
        arguments: Box<[Box<str>]>,
    },
    /// gzip decoded, at most this many bytes.
    Gunzip {
        /// Bytes of output at most.
        max_size: u32,
    },
    /// zlib decoded, at most this many bytes.
    ZlibDeflate {
        /// Bytes of output at most.
        max_size: u32,
    },
}

/// Options of a `pcrexform`; the same as a `pcre`'s.
pub type PcreOptionsKey = PcreOptions;

/// How lenient base64 decoding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Base64Mode {
    /// Stops at the first character that does not belong.
    #[default]
    Rfc4648,
    /// Skips white space and other characters.
    Rfc2045,
    /// Anything odd yields nothing.
    Strict,
}
