//! Captures that come into a folder while it is read: the folder is looked into again and again until
//! the run is asked to stop.
//!
//! What was read is known by its time of change, so that a folder of any size takes no memory; a
//! capture that is written on is read again. A file is left alone until it was not changed for a while:
//! its writer may not be done.

use super::input::{Input, InputDone};
use gabion_runtime::{Pulse, StopFlag, clock};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long one wait lasts before the request to stop is looked at.
const SLICE: Duration = Duration::from_millis(50);

/// A folder to be looked into.
#[derive(Clone)]
pub struct Arrivals {
    /// The folder.
    pub folder: PathBuf,
    /// Folders below it too.
    pub recursive: bool,
    /// Time between two looks.
    pub every: Duration,
    /// How long a file must not have changed.
    pub delay: Duration,
    /// Called with each capture that was read, on the thread that reads.
    pub on_read: Arc<dyn Fn(&InputDone) + Send + Sync>,
}

/// Inputs one after the other.
pub(crate) struct Queue {
    listed: VecDeque<Input>,
    given: usize,
    arrivals: Option<Arrivals>,
    /// The latest time of change among those read, and the files that have it.
    latest: Option<(SystemTime, Vec<PathBuf>)>,
}

impl Queue {
    /// These inputs, then what arrives.
    pub(crate) fn new(inputs: &[Input], arrivals: Option<Arrivals>) -> Queue {
        Queue { listed: inputs.to_vec().into(), given: 0, arrivals, latest: None }
    }

    /// The next input with its number, waited for if more may arrive; none at the end or when the run
    /// is to stop. `before_wait` is called when all there is was read.
    pub(crate) fn next(
        &mut self,
        stop: &StopFlag,
        pulse: &Pulse,
        before_wait: &mut dyn FnMut(),
    ) -> Option<(usize, Input)> {
        let mut is_first = self.latest.is_none();
        loop {
            if stop.is_set() {
                return None;
            }
            if let Some(input) = self.listed.pop_front() {
                self.given += 1;
                return Some((self.given - 1, input));
            }
            let every = self.arrivals.as_ref()?.every;
            if !std::mem::take(&mut is_first) {
                before_wait();
                let since = clock::now();
                while since.elapsed() < every && !stop.is_set() {
                    pulse.rest(|| std::thread::sleep(SLICE.min(every)));
                }
            }
            self.list_new();
        }
    }

    /// Whether the run was asked to stop before all there is was read.
    pub(crate) fn is_cut(&self, stop: &StopFlag) -> bool {
        stop.is_set() && (self.arrivals.is_some() || !self.listed.is_empty())
    }

    /// An input was read: it is kept for the report, or reported at once where there is no end to them.
    pub(crate) fn done(&self, input: InputDone, all: &mut Vec<InputDone>) {
        match &self.arrivals {
            Some(arrivals) => (arrivals.on_read)(&input),
            None => all.push(input),
        }
    }

    /// Lists what has arrived, in the order of the last change.
    fn list_new(&mut self) {
        let Some(arrivals) = &self.arrivals else { return };
        let list = if arrivals.recursive {
            gabion_capture::list_recursive(&arrivals.folder)
        } else {
            gabion_capture::list(&arrivals.folder)
        };
        // A folder that is away for a moment may come back.
        let list = list.unwrap_or_default();
        let now = SystemTime::UNIX_EPOCH + clock::since_epoch();
        let settled = now.checked_sub(arrivals.delay).unwrap_or(now);
        let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|m| m.modified()).ok();
        let mut found: Vec<(SystemTime, PathBuf)> = list
            .into_iter()
            .filter_map(|path| Some((changed(&path)?, path)))
            .filter(|(time, path)| {
                let is_new = match &self.latest {
                    Some((latest, there)) => {
                        time > latest || (time == latest && !there.contains(path))
                    }
                    None => true,
                };
                is_new && *time <= settled
            })
            .collect();
        found.sort();
        for (time, path) in found {
            match &mut self.latest {
                Some((latest, there)) if *latest == time => there.push(path.clone()),
                latest => *latest = Some((time, vec![path.clone()])),
            }
            self.listed.push_back(Input::capture(path, false));
        }
        // Nothing yet: from now on waits come between looks.
        self.latest.get_or_insert((SystemTime::UNIX_EPOCH, Vec::new()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn name(input: &Input) -> String {
        input.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    #[test]
    fn what_arrives_is_read_once_in_the_order_of_change() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, seconds: u64| {
            let file = std::fs::File::create(dir.path().join(name)).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            file.set_modified(time).unwrap();
        };
        put("b.pcap", 10);
        put("a.pcap", 20);
        let reported = Arc::new(Mutex::new(Vec::new()));
        let (stop, pulse) = (StopFlag::new(), Pulse::unwatched());
        let listens = Arc::clone(&reported);
        let arrivals = Arrivals {
            folder: dir.path().to_path_buf(),
            recursive: false,
            every: Duration::from_millis(1),
            delay: Duration::from_secs(30),
            on_read: Arc::new(move |done| listens.lock().unwrap().push(done.path.clone())),
        };
        let mut queue = Queue::new(&[], Some(arrivals));
        let mut next =
            || queue.next(&stop, &pulse, &mut || ()).map(|(at, input)| (at, name(&input)));
        assert_eq!(next(), Some((0, "b.pcap".to_string())));
        assert_eq!(next(), Some((1, "a.pcap".to_string())));
        put("older.pcap", 15);
        put("same.pcap", 20);
        put("c.pcap", 30);
        // One that is still being written.
        std::fs::File::create(dir.path().join("z.pcap")).unwrap();
        assert_eq!(next(), Some((2, "same.pcap".to_string())));
        assert_eq!(next(), Some((3, "c.pcap".to_string())));
        stop.set();
        assert_eq!(next(), None);
        let mut all = Vec::new();
        queue.done(InputDone { path: "c.pcap".into(), ..InputDone::default() }, &mut all);
        assert!(all.is_empty());
        assert_eq!(*reported.lock().unwrap(), [PathBuf::from("c.pcap")]);
    }

    #[test]
    fn without_a_folder_the_list_is_all() {
        let inputs = [Input::capture("x".into(), true)];
        let mut queue = Queue::new(&inputs, None);
        let (stop, pulse) = (StopFlag::new(), Pulse::unwatched());
        assert_eq!(queue.next(&stop, &pulse, &mut || ()).map(|(at, _)| at), Some(0));
        assert!(queue.next(&stop, &pulse, &mut || ()).is_none());
    }
}
