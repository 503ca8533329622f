//! Rewrites files of any age as files with exit events alone.
//!
//! Where the enter event of open, creat, openat, openat2 or connect says something else than the exit event, its values
//! are written, as Falco's engine prefers them; how often the two differed is counted.

use std::io::{self, Write};

use crate::decoder::Item;
use crate::error::Error;
use crate::event::{Event, Values};
use crate::made::Made;
use crate::merger::Merger;
use crate::reader::Reader;
use crate::table::types;
use crate::writer::Writer;

/// Why a file was not rewritten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The input is no scap file.
    #[error("{0}")]
    Input(#[from] Error),
    /// The output refuses.
    #[error("cannot write: {0}")]
    Output(#[source] io::Error),
}

/// What was done besides what reader and merger count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Events written.
    pub events: u64,
    /// Of these, events with a value of the enter event that the exit event had otherwise.
    pub differing: u64,
    /// Of these, events with a value of the enter event that the exit event lacked.
    pub completed: u64,
}

/// Reads all items, merges events and writes what remains. The counts of both are with `reader` and `merger` then.
///
/// # Errors
/// The input is not scap, or the output refuses. What was written before is whole.
pub fn convert<W: Write>(
    reader: &mut Reader,
    merger: &mut Merger,
    writer: &mut Writer<W>,
) -> Result<Converted, ConvertError> {
    let mut done = Converted::default();
    let mut made = Made::default();
    while let Some(item) = reader.next_item()? {
        let written = match item {
            Item::Event(event) => {
                let Some(event) = merger.merge(&event) else { continue };
                done.events += 1;
                let values = resolve(&event, &mut made, &mut done);
                writer.event(&Event { values, enter: None, ..event })
            }
            item => {
                if matches!(item, Item::Section { .. }) {
                    merger.finish();
                }
                writer.write(&item)
            }
        };
        written.map_err(ConvertError::Output)?;
    }
    merger.finish();
    Ok(done)
}

/// For an exit event: the places of its path, of flags and of the folder, and those of the enter event.
struct Places {
    /// The value that says whether the enter event could be read: path or address.
    main: (usize, usize),
    /// The flags of an open.
    flags: Option<(usize, usize)>,
    /// The descriptor of the folder.
    directory: Option<(usize, usize)>,
}

const fn places(exit: u16) -> Option<Places> {
    Some(match exit {
        types::OPEN_X => Places { main: (1, 0), flags: Some((2, 1)), directory: None },
        types::CREAT_X => Places { main: (1, 0), flags: None, directory: None },
        types::OPENAT_2_X | types::OPENAT2_X => {
            Places { main: (2, 1), flags: Some((3, 2)), directory: Some((1, 0)) }
        }
        types::CONNECT_X => Places { main: (3, 1), flags: None, directory: None },
        _ => return None,
    })
}

/// Flags of an open that only the exit event has: that a file was created, and layers of an overlay.
const EXIT_FLAGS: u32 = !(16_384 - 1);

/// The values of an exit event with those of its enter event where Falco's engine takes them.
fn resolve<'a>(event: &Event<'a>, made: &'a mut Made, done: &mut Converted) -> Values<'a> {
    let (Some(enter), Some(places)) = (event.enter, places(event.kind().number)) else {
        return event.values;
    };
    let is_known = |raw: &[u8]| !raw.is_empty() && raw != b"<NA>\0";
    let Some(main) = enter.raw(places.main.1).filter(|raw| is_known(raw)) else {
        return event.values;
    };
    let u32_of = |raw: &[u8]| raw.first_chunk().map(|b| u32::from_le_bytes(*b));
    let flags = places.flags.and_then(|(exit_place, enter_place)| {
        let exit = event.raw(exit_place).and_then(u32_of).unwrap_or(0);
        let enter = enter.raw(enter_place).and_then(u32_of)?;
        Some((exit_place, (enter | (exit & EXIT_FLAGS)).to_le_bytes()))
    });
    let directory = places
        .directory
        .and_then(|(exit, from)| Some((exit, enter.raw(from).filter(|d| !d.is_empty())?)));
    let value = |place: usize, own: &'a [u8]| -> Option<&[u8]> {
        if place == places.main.0 {
            return Some(main);
        }
        match (&flags, directory) {
            (Some((at, flags)), _) if *at == place => Some(flags),
            (_, Some((at, directory))) if at == place => Some(directory),
            _ => Some(own),
        }
    };
    let (mut differs, mut completes) = (false, false);
    for (place, own) in event.values.iter().enumerate() {
        let is_other = value(place, own) != Some(own);
        differs |= is_other && !own.is_empty();
        completes |= is_other && own.is_empty();
    }
    if !differs && !completes {
        return event.values;
    }
    done.differing += u64::from(differs);
    done.completed += u64::from(completes && !differs);
    made.begin(event.kind());
    for (place, own) in event.values.iter().enumerate() {
        made.push(value(place, own).unwrap_or(own));
    }
    made.values().unwrap_or(event.values)
}
