//! The table of formats. A format is one file of this folder with its [`LogFormat`], and one row here; all else that
//! knows formats, `--kind` and messages too, comes from the row.

use crate::format::{LogFormat, Seen};
use crate::skip::Skip;
use gabion_record::logs::{LogKind, Record, TimeNs};
use gabion_record::saved::Saved;

/// A row of the table, for people.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name as users write it.
    pub name: &'static str,
    /// What it is called in messages.
    pub title: &'static str,
    /// One line for people.
    pub text: &'static str,
    /// The format.
    pub format: Format,
}

macro_rules! formats {
    ($(#[doc = $text:literal] $format:ident($module:ident::$layout:ident),)+) => {
        $(pub(crate) mod $module;)+

        /// The format of a log, as the user may name it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Format {
            $(#[doc = $text] $format,)+
        }

        impl Format {
            /// All formats.
            pub const ALL: &'static [Row] = &[
                $(Row {
                    name: <$module::$layout>::NAME,
                    title: <$module::$layout>::TITLE,
                    text: str::trim_ascii($text),
                    format: Format::$format,
                },)+
            ];
        }

        /// The columns that lines stand under, in one of the formats.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Layout {
            $($format($module::$layout),)+
        }

        impl Saved for Layout {
            fn save(&self, out: &mut Vec<u8>) {
                match self {
                    $(Layout::$format(layout) => {
                        Format::$format.save(out);
                        layout.save(out);
                    })+
                }
            }
            fn load(from: &mut &[u8]) -> Option<Self> {
                Some(match Format::load(from)? {
                    $(Format::$format => Layout::$format(Saved::load(from)?),)+
                })
            }
        }

        impl Layout {
            /// The format, of those that the user did not rule out, whose header a line is.
            pub(crate) fn from_header(line: &[u8], chosen: Option<Format>) -> Option<Layout> {
                let may_be = |format| chosen.is_none_or(|chosen| chosen == format);
                None$(.or_else(|| {
                    let layout = if may_be(Format::$format) { <$module::$layout>::from_header(line) } else { None };
                    layout.map(Layout::$format)
                }))+
            }

            /// The format that a line without a header is of.
            pub(crate) fn from_record(seen: Seen<'_>) -> Option<Layout> {
                None$(.or_else(|| <$module::$layout>::from_record(seen).map(Layout::$format)))+
            }

            /// See [`LogFormat::quick_time`].
            #[inline]
            pub(crate) fn quick_time(&self, line: &[u8]) -> Option<Result<TimeNs, Skip>> {
                match self {
                    $(Layout::$format(layout) => layout.quick_time(line),)+
                }
            }

            /// See [`LogFormat::time`].
            pub(crate) fn time(&self, line: &[u8]) -> Result<TimeNs, Skip> {
                match self {
                    $(Layout::$format(layout) => layout.time(line),)+
                }
            }

            /// See [`LogFormat::record`].
            #[inline]
            pub(crate) fn record<'a>(
                &self,
                line: &'a [u8],
                scratch: &'a mut Vec<u8>,
            ) -> Result<Record<'a>, Skip> {
                match self {
                    $(Layout::$format(layout) => layout.record(line, scratch),)+
                }
            }

            /// See [`LogFormat::kind`].
            pub(crate) fn kind(&self) -> Option<LogKind> {
                match self {
                    $(Layout::$format(layout) => layout.kind(),)+
                }
            }
        }
    };
}

// The one table.
formats! {
    /// Zeek's logs
    Zeek(zeek::Log),
    /// Suricata's EVE
    Eve(eve::Events),
    /// Argus's flows by columns
    Argus(argus::Layout),
    /// nfdump's CSV, text or binary files
    Nfdump(nfdump::Layout),
}

impl Format {
    /// Its name as users write it.
    pub fn name(self) -> &'static str {
        Format::ALL.get(self as usize).map_or("", |row| row.name)
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.iter().find(|row| row.name == name).map(|row| row.format)
    }

    /// What formats are called, as an enumeration: `Zeek, EVE, Argus or nfdump`.
    pub fn titles() -> String {
        let titles: Vec<&str> = Format::ALL.iter().map(|row| row.title).collect();
        match titles.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

impl Saved for Format {
    fn save(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Format::ALL.get(usize::from(u8::load(from)?)).map(|row| row.format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_numbers_under_names_of_their_own() {
        for (at, row) in Format::ALL.iter().enumerate() {
            assert_eq!((row.format as usize, Format::from_name(row.name)), (at, Some(row.format)));
            let mut bytes = Vec::new();
            row.format.save(&mut bytes);
            assert_eq!(Format::load(&mut bytes.as_slice()), Some(row.format));
        }
        assert_eq!(Format::from_name("pcap"), None);
        let titles = Format::titles();
        assert!(titles.starts_with("Zeek, EVE, Argus"), "{titles}");
        assert_eq!(titles.matches(" or ").count(), 1, "{titles}");
    }
}
