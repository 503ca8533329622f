//! Records the system calls of this host into a scap file.

use crate::{Error, LostTrack};
use gabion_probe::host::{self, Before, HostCounts};
use gabion_probe::syscalls::{Counts, Interest, Session, Settings};
use gabion_runtime::StopFlag;
use gabion_runtime::clock;
use gabion_scap::{Item, Writer};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// How long the reader sleeps when all rings are empty.
const PAUSE: Duration = Duration::from_millis(2);

/// What is recorded, and for how long.
pub struct Recording {
    /// The calls, and the memory of the rings.
    pub settings: Settings,
    /// Where `proc` and `etc` of the host are.
    pub root: PathBuf,
    /// After this time the recording ends.
    pub lasting: Option<Duration>,
    /// After this number of events the recording ends.
    pub events: Option<u64>,
    /// Asks to end it.
    pub stop: StopFlag,
}

/// What was recorded.
#[derive(Debug)]
pub struct Recorded {
    /// Events in the file.
    pub events: u64,
    /// What existed before the first one.
    pub before: HostCounts,
    /// The counters of the kernel's programs.
    pub counts: Counts,
    /// What the kernel refused, a line for each.
    pub absent: Vec<String>,
}

impl Recorded {
    /// Whether each call that was received is an event, or shed and counted.
    ///
    /// # Errors
    /// [`Error::Unbalanced`] if not.
    pub fn balance(&self) -> Result<(), Error> {
        let total = self.counts.total();
        let known = total.passed + total.shed_ring + total.shed_size;
        let read = self.events + self.counts.undecodable;
        if total.received == known && total.passed == read {
            return Ok(());
        }
        Err(Error::Unbalanced {
            stage: "system calls".to_owned(),
            what: LostTrack::Calls {
                received: total.received,
                passed: total.passed,
                shed: total.shed_ring + total.shed_size,
                read,
            },
        })
    }
}

impl Recording {
    /// Records until the time is over or somebody asks to stop.
    ///
    /// # Errors
    /// The kernel refuses the programs, or the destination refuses.
    pub fn write(&self, to: impl Write) -> Result<Recorded, Error> {
        let mut session = Session::start(&self.settings)?;
        let refused = |e: io::Error| Error::File { path: "recording".into(), source: e };
        let mut writer = Writer::new(to);
        // The programs are attached before the lists are read, so that no thread is missed in between.
        let before = self.lists(&mut writer).map_err(refused)?;
        let end = self.lasting.map(|lasting| clock::now() + lasting);
        let (mut events, mut failure) = (0, None);
        let mut drain = |session: &mut Session| {
            session.poll(&mut |call| {
                events += 1;
                if failure.is_none()
                    && let Err(error) = writer.event(&call.event)
                {
                    failure = Some(error);
                }
            });
            (events, failure.is_some())
        };
        loop {
            let seen = drain(&mut session);
            let is_over = end.is_some_and(|end| clock::now() >= end)
                || self.events.is_some_and(|most| seen.0 >= most)
                || self.stop.is_set()
                || seen.1;
            if is_over {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        // What is in the rings when the last call was recorded is read to its end.
        session.set_interest(&Interest::none());
        std::thread::sleep(PAUSE);
        while drain(&mut session).0 < session.counts().total().passed {
            if session.counts().undecodable > 0 {
                break;
            }
        }
        if let Some(error) = failure {
            return Err(refused(error));
        }
        writer.finish().map_err(refused)?;
        let absent = session.absent().iter().map(ToString::to_string).collect();
        Ok(Recorded { events, before, counts: session.counts(), absent })
    }

    /// Writes what existed before the first event.
    fn lists<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<HostCounts> {
        writer.section()?;
        let mut result = Ok(());
        let counts = host::read(&self.root, &mut |before| {
            let item = match before {
                Before::Machine(machine) => Item::Machine(machine),
                Before::Thread(entry) => Item::Process(entry),
                Before::Fd(entry) => Item::Fd(entry),
                Before::User(entry) => Item::User(entry),
            };
            if result.is_ok() {
                result = writer.write(&item);
            }
        });
        result.map(|()| counts)
    }
}
