//! Where evidence and alerts go: files, what the summary shows, and the page about the run.

use super::checkpoint::{self, Tag, Writing};
use super::paged::Paged;
use super::places::AddressBook;
use super::sealed_ids::{SealedIds, SharedIds, lock_ids, sealing_output};
use crate::limits::{REPORTED_FINDINGS_MAX, reached};
use crate::sealed_findings::Sealer;
use crate::{Error, Notices};
use foldhash::fast::RandomState;
use gabion_behavior::Kept;
use gabion_behavior::Output;
use gabion_behavior::catalog::ALL;
use gabion_outputs::AlreadyWritten;
use gabion_outputs::Outputs;
use gabion_outputs::idmef;
use gabion_outputs::page::Page;
use gabion_outputs::profile_store::{ProfileWriter, StoredProfile, Written};
use gabion_outputs::triage::{self, CalleeRef, Rank};
use gabion_record::evidence::{Alert, Evidence, FindingId, Indicator, Party, Role, ThreatLevel};
use gabion_record::files::FileOpener;
use gabion_record::limits::{self, Limit, Reached};
use gabion_record::logs::TimeNs;
use gabion_record::saved::Saved;
use gabion_record::{Ip, saved};
use gabion_runtime::output::{Existing, make_folder};
use gabion_runtime::{Signals, clock};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What one host has shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Sum of threat levels by confidence.
    pub score: f64,
    /// Evidence by level.
    pub levels: [u64; 5],
}

/// What a run found, for the summary.
#[derive(Default)]
pub struct Found {
    /// Evidence by type and level.
    pub evidence: Kinds,
    /// Alerts by profile and window.
    pub alerts: Vec<(Ip, i64, f64)>,
    /// Hosts with evidence above info.
    pub hosts: HashMap<Ip, Shown, RandomState>,
    /// The addresses that hosts call, and which host is the worst.
    pub rank: Rank,
    /// The weightiest findings with the last line of each, where somebody wants them in JSON.
    pub lines: Option<Lines>,
}

/// How much evidence there is by type and level. There are few types, and each finding looks for its own: the
/// address of a type's name says which it is in nearly all cases.
#[derive(Default)]
pub struct Kinds(Vec<(&'static str, [u64; 5])>);

impl Kinds {
    fn add(&mut self, name: &'static str, level: ThreatLevel, n: u64) {
        let known = self.0.iter().position(|(of, _)| std::ptr::eq(*of, name));
        let at = match known.or_else(|| self.0.iter().position(|(of, _)| *of == name)) {
            Some(at) => at,
            None => {
                self.0.push((name, [0; 5]));
                self.0.len() - 1
            }
        };
        if let Some(count) = self.0.get_mut(at).and_then(|(_, by)| by.get_mut(level as usize)) {
            *count += n;
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Type, level and how many, in order of names and levels.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, ThreatLevel, u64)> {
        let mut names: Vec<_> = self.0.iter().collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        names.into_iter().flat_map(|(name, by)| {
            let counts = ThreatLevel::ALL.iter().zip(by).filter(|(_, n)| **n > 0);
            counts.map(|(level, n)| (*name, *level, *n))
        })
    }
}

impl Found {
    pub(super) fn evidence(&mut self, e: &Evidence) {
        self.evidence.add(e.kind.name, e.level, 1);
        self.rank(e);
        let score = e.level.weight() * e.confidence;
        let count = self.hosts.len();
        let has_room = || score > 0.0 && reached::SCORED_HOSTS_MAX.has_room(count);
        let host = match self.hosts.entry(e.profile) {
            Entry::Occupied(host) => host.into_mut(),
            Entry::Vacant(place) if has_room() => place.insert(Shown::default()),
            Entry::Vacant(_) => return,
        };
        host.score += score;
        if let Some(n) = host.levels.get_mut(e.level as usize) {
            *n += 1;
        }
    }

    /// A finding as it is reported: with its final numbers at its window's end.
    fn take_finding(&mut self, e: &Evidence) {
        self.rank(e);
        if let Some(lines) = &mut self.lines {
            lines.take_evidence(e);
        }
    }

    fn rank(&mut self, e: &Evidence) {
        let is_call = e.kind.topic.is_call();
        let callee = e.party(Role::Destination).filter(|_| is_call);
        let m = &e.measures;
        self.rank.rank_finding(&triage::Seen {
            kind: e.kind.name,
            topic: e.kind.topic,
            level: e.level,
            // As lines have it, so that tables made of them are the same.
            confidence: idmef::round(e.confidence),
            host: e.profile,
            src: e.party(Role::Source).and_then(Party::ip),
            dst: callee.map(|party| match &party.what {
                Indicator::Ip(ip) => CalleeRef::Ip(*ip),
                Indicator::Domain(text) | Indicator::Url(text) | Indicator::Md5(text) => {
                    CalleeRef::from_text(text)
                }
            }),
            port: e.dst_port.unwrap_or(0),
            threat: idmef::round(m.threat),
            count: m.count,
            bytes: m.bytes,
            seconds: m.duration_ns as f64 / 1e9,
            span: (m.first.seconds(), m.last.max(e.ts).seconds()),
        });
    }

    pub(super) fn alert(&mut self, a: &Alert) {
        if reached::REPORTED_ALERTS_MAX.has_room(self.alerts.len()) {
            self.alerts.push((a.profile, a.window, a.accumulated));
        }
    }
}

/// How much a finding weighs, when it was found, and its line.
type Line = (f64, TimeNs, Vec<u8>);

/// Findings of a run for JSON: the weightiest, each as it was reported last.
#[derive(Default)]
pub struct Lines {
    by_id: BTreeMap<FindingId, Line>,
}

impl Lines {
    fn take_evidence(&mut self, e: &Evidence) {
        let mut line = Vec::new();
        idmef::evidence(e, 0.0, None, &mut line);
        self.by_id.insert(e.id, (e.level.weight() * e.confidence, e.ts, line));
        if self.by_id.len() >= 2 * REPORTED_FINDINGS_MAX {
            let all = std::mem::take(self);
            let kept = all.sorted();
            let kept = kept
                .into_iter()
                .take(REPORTED_FINDINGS_MAX)
                .map(|(id, found)| (*id, found.clone()));
            self.by_id = kept.collect();
        }
    }

    fn sorted(&self) -> Vec<(&FindingId, &Line)> {
        let mut all: Vec<_> = self.by_id.iter().collect();
        all.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then((a.1.1, a.0).cmp(&(b.1.1, b.0))));
        all
    }

    /// The weightiest first, an object each.
    pub fn objects(&self) -> impl Iterator<Item = &[u8]> {
        self.sorted()
            .into_iter()
            .take(REPORTED_FINDINGS_MAX)
            .map(|(_, found)| found.2.trim_ascii_end())
    }
}

/// What the page about a run is made of.
pub struct GatheredPage {
    paged: Paged,
    known: AddressBook,
}

impl GatheredPage {
    /// Adds it to the page.
    pub fn fill(self, found: &Found, page: &mut Page) {
        self.paged.page(found, &self.known, page);
    }
}

/// Takes what is found.
#[derive(Default)]
pub struct Sink {
    /// For the summary.
    pub(crate) found: Found,
    /// `alerts.json`, `alerts.log`, the sealed log.
    pub(crate) outputs: Outputs,
    /// Past windows of profiles.
    pub(crate) profiles: Option<ProfileWriter>,
    /// For the page, when one is wanted.
    pub(crate) paged: Option<Paged>,
    /// What is known of addresses, for the page.
    pub(crate) known: AddressBook,
    /// The log that findings are sealed in.
    pub(crate) sealed: Option<Sealer>,
    /// Which findings are sealed, of a run that another one may continue from.
    pub(crate) sealed_ids: SharedIds,
    /// Requests from outside, when this is who answers them.
    pub(crate) signals: Option<Signals>,
    /// Where checkpoints go, of a run that another one may continue from.
    pub(crate) folder: Option<PathBuf>,
    /// Files were opened by their names again: a checkpoint is to say how long those are.
    pub(crate) is_asked: Arc<AtomicBool>,
    /// The one that is being written.
    pub(crate) saving: Option<Writing>,
    /// Why a checkpoint could not be written, when it was reported.
    pub(crate) unsaved: Option<String>,
    /// Limits that were reached in what was found up to now, as far as the threads that count them have reported. With
    /// those of the runs that this one continues from.
    pub(crate) limits: Reached,
    /// Where what a person should know is reported.
    pub(crate) notices: Notices,
}

/// Which outputs a run has for its findings.
#[derive(Clone, Debug)]
pub struct FindingOutputs<'a> {
    /// What opens files.
    pub files: &'a FileOpener,
    /// The folder of `alerts.json`, `alerts.log` and the database of profiles.
    pub folder: Option<&'a Path>,
    /// What happens to files that an earlier run left there.
    pub existing: Existing,
    /// The weightiest findings are kept as lines of JSON.
    pub keeps_lines: bool,
    /// What the page about the run shows is gathered.
    pub keeps_page: bool,
}

/// What is left of a sink at the end of a run.
pub struct FindingsDone {
    /// What was found.
    pub found: Found,
    /// Whether all that was buffered was written.
    pub flushed: Result<(), Error>,
    /// Profiles in the folder's database, or why they can't be there.
    pub stored: Option<Result<Written, Error>>,
    /// A checkpoint could not be written, which was reported.
    pub is_unsaved: bool,
    /// What the page about the run is made of.
    pub page: Option<GatheredPage>,
    /// Fixed limits that were reached, by all threads.
    pub limits: Reached,
}

/// What a checkpoint has to say of where findings go.
struct SavedSink {
    marks: [u64; 2],
    already_written: AlreadyWritten,
    evidence: Vec<(String, ThreatLevel, u64)>,
    alerts: Vec<(Ip, (i64, f64))>,
    hosts: BTreeMap<Ip, Shown>,
    rank: Rank,
    /// Findings that an earlier run sealed and that were not found again yet.
    sealed: Vec<FindingId>,
    /// Limits that were reached, by name.
    limits: Vec<(String, u64)>,
}

saved! {
    Shown { score, levels }
    SavedSink { marks, already_written, evidence, alerts, hosts, rank, sealed, limits }
}

/// What a run that was cut off had written and sealed.
#[derive(Default)]
pub(crate) struct Before {
    /// Bytes of `alerts.json` and `alerts.log` at the checkpoint.
    pub(crate) marks: [u64; 2],
    /// What of them was not found again by then.
    pub(crate) already_written: AlreadyWritten,
    /// The same of what is sealed.
    pub(crate) sealed: Vec<FindingId>,
}

/// What a checkpoint says of that.
pub(crate) fn before(saved: &[u8]) -> Option<Before> {
    let SavedSink { marks, already_written, sealed, .. } = SavedSink::load(&mut { saved })?;
    Some(Before { marks, already_written, sealed })
}

/// The limit of that name, of whatever counts in a run over flows.
fn limit_named(name: &str) -> Option<&'static Limit> {
    let tables = [
        gabion_behavior::limits::TABLE,
        gabion_flowlog::limits::TABLE,
        gabion_outputs::limits::TABLE,
        gabion_runtime::limits::TABLE,
        gabion_seal::limits::TABLE,
        crate::limits::TABLE,
    ];
    tables.into_iter().flatten().copied().find(|limit| limit.full_name() == name)
}

impl Found {
    /// Continues with what was found up to a checkpoint.
    fn restore(&mut self, sink: SavedSink) {
        let types = ALL.iter().flat_map(|(_, about)| about.types);
        let names: BTreeSet<&'static str> = types.map(|kind| kind.name).collect();
        for (name, level, n) in sink.evidence {
            // A type that this version knows no more is not counted any further.
            if let Some(name) = names.get(name.as_str()) {
                self.evidence.add(name, level, n);
            }
        }
        self.alerts = sink.alerts.into_iter().map(|(ip, (w, sum))| (ip, w, sum)).collect();
        self.hosts = sink.hosts.into_iter().collect();
        self.rank = sink.rank;
    }
}

impl Sink {
    /// Opens outputs for findings.
    ///
    /// # Errors
    /// When the folder or a file in it can't be made.
    pub fn open(
        outputs: &FindingOutputs<'_>,
        sealed: Option<Sealer>,
        notices: Notices,
    ) -> Result<Sink, Error> {
        let (mut files, mut profiles) = (Outputs::default(), None);
        if let Some(folder) = outputs.folder {
            make_folder(folder)
                .map_err(|source| Error::Folder { path: folder.to_owned(), source })?;
            files = Outputs::for_findings(outputs.files, folder, outputs.existing)
                .map_err(Error::FolderOutput)?;
            let writer = ProfileWriter::create(outputs.files, folder, outputs.existing);
            profiles = Some(writer.map_err(Error::FolderOutput)?);
        }
        let sealed_ids = SharedIds::default();
        if let Some(to) = &sealed {
            files.add(sealing_output(to.clone(), Arc::clone(&sealed_ids)));
        }
        Ok(Sink {
            outputs: files,
            sealed_ids,
            paged: outputs.keeps_page.then(Paged::default),
            profiles,
            sealed,
            found: Found { lines: outputs.keeps_lines.then(Lines::default), ..Found::default() },
            notices,
            ..Sink::default()
        })
    }

    /// Names addresses on the page by these tables.
    pub fn set_address_book(&mut self, known: AddressBook) {
        self.known = known;
    }

    /// Requests to open files by their names again (SIGHUP) come from here.
    pub fn set_signals(&mut self, signals: Option<Signals>) {
        self.signals = signals;
    }

    /// Ends it: writes what is buffered and closes the database of profiles.
    pub fn finish(&mut self) -> FindingsDone {
        self.reopen_if_asked();
        let flushed = self.outputs.flush();
        let stored = self.profiles.take().map(ProfileWriter::finish);
        let known = std::mem::take(&mut self.known);
        let page = self.paged.take().map(|paged| GatheredPage { paged, known });
        let mut limits = limits::take_all();
        limits.merge(&self.limits);
        FindingsDone {
            found: std::mem::take(&mut self.found),
            flushed: flushed.map_err(Error::Output),
            stored: stored.map(|written| written.map_err(Error::Output)),
            is_unsaved: self.unsaved.is_some(),
            page,
            limits,
        }
    }

    /// Continues with what was found up to a checkpoint, and with the limits that were reached by then.
    pub(crate) fn restore(&mut self, saved: &[u8]) -> Option<()> {
        let mut saved = SavedSink::load(&mut { saved })?;
        for (name, times) in std::mem::take(&mut saved.limits) {
            // One that this version does not have is not counted any further.
            if let Some(limit) = limit_named(&name) {
                self.limits.add(limit, times);
            }
        }
        self.found.restore(saved);
        Some(())
    }

    /// Takes one.
    pub(crate) fn take_finding(&mut self, finding: Output<'_>) {
        self.reopen_if_asked();
        match finding {
            Output::Evidence(e, _) => {
                self.found.evidence(e);
                if let Some(paged) = &mut self.paged {
                    paged.counts(e);
                }
            }
            Output::Report(e, sum) => {
                self.found.take_finding(e);
                if let Some(paged) = &mut self.paged {
                    paged.finding(e);
                }
                self.outputs.evidence(e, sum, created());
            }
            Output::Alert(a) => {
                self.found.alert(a);
                self.outputs.host_alert(a, created());
            }
        }
    }

    /// Opens files by their names again, for who rotates logs.
    pub(crate) fn reopen(&mut self) {
        if self.outputs.wants().evidence {
            self.outputs.reopen();
            self.is_asked.store(true, Ordering::Relaxed);
        }
    }

    /// The same when somebody asked for it (SIGHUP).
    pub(crate) fn reopen_if_asked(&mut self) {
        if self.signals.as_ref().is_some_and(Signals::take_reopen) {
            self.reopen();
        }
    }

    /// Nothing comes at the moment: what is buffered is written.
    pub(crate) fn idle(&mut self) {
        self.reopen_if_asked();
        if let Some(sealed) = &self.sealed {
            sealed.idle();
        }
        // A failure stays with the file and is reported at the end.
        self.outputs.flush_lines();
        self.say_unkept();
    }

    /// Reports that profiles can't be kept, when it happens; their number is reported at the end.
    fn say_unkept(&self) {
        if let Some(trouble) = self.profiles.as_ref().and_then(ProfileWriter::trouble) {
            self.notices.report(&format!(
                "{trouble}: the run continues, profiles that can't be kept are counted"
            ));
        }
    }

    /// Begins a checkpoint.
    pub(crate) fn begin_save(&mut self) {
        self.saving = None;
        if let Some(folder) = &self.folder {
            match Writing::begin(folder) {
                Ok(writing) => self.saving = Some(writing),
                Err(e) => self.not_saved(&e.to_string()),
            }
        }
    }

    /// Adds a section to it.
    pub(crate) fn save(&mut self, tag: Tag, bytes: &[u8]) {
        if let Some(writing) = &mut self.saving
            && let Err(e) = writing.section(tag, bytes)
        {
            self.not_saved(&e.to_string());
        }
    }

    /// Ends it: all that was found until then stands on the disk before it does.
    pub(crate) fn end_save(&mut self) {
        if self.saving.is_none() {
            return;
        }
        self.idle();
        if self.sealed.as_ref().is_some_and(|sealed| !sealed.commit()) {
            return self.not_saved("findings are not sealed");
        }
        if let Some(profiles) = &self.profiles {
            profiles.settle();
        }
        // Outputs that can't be written are reported at the end; what they hold is all that can be saved of them.
        let marks = match self.outputs.sync_findings() {
            Ok(marks) => <[u64; 2]>::try_from(marks).unwrap_or_default(),
            Err(e) => return self.not_saved(&e.to_string()),
        };
        // What this thread counted belongs to what was found up to here; others give theirs with what they find.
        self.limits.merge(&limits::take_reached());
        // Lines for JSON are those that this run reports.
        let Found { evidence, alerts, hosts, rank, lines: _ } = &self.found;
        let already_written = self.outputs.already_written();
        let saved = SavedSink {
            marks,
            already_written,
            evidence: evidence.each().map(|(kind, level, n)| (kind.to_owned(), level, n)).collect(),
            alerts: alerts.iter().map(|(ip, window, sum)| (*ip, (*window, *sum))).collect(),
            hosts: hosts.iter().map(|(ip, shown)| (*ip, *shown)).collect(),
            rank: rank.clone(),
            sealed: lock_ids(&self.sealed_ids).as_ref().map(SealedIds::left).unwrap_or_default(),
            limits: self.limits.iter().map(|(limit, n)| (limit.full_name(), n)).collect(),
        };
        let mut bytes = Vec::new();
        saved.save(&mut bytes);
        self.save(Tag::Sink, &bytes);
        match self.saving.take().map(Writing::finish) {
            Some(Err(e)) => self.not_saved(&e.to_string()),
            Some(Ok(_)) => {
                if let Some(ids) = &mut *lock_ids(&self.sealed_ids) {
                    ids.start_again();
                }
            }
            None => {}
        }
    }

    /// Says that the checkpoint before is the last one, once.
    fn not_saved(&mut self, why: &str) {
        self.saving = None;
        if self.unsaved.is_none()
            && let Some(folder) = &self.folder
        {
            let path = checkpoint::path_in(folder).display().to_string();
            self.notices.report(&format!(
                "{path}: {why}: a run that continues from here reads again what came since the last \
                 checkpoint: make space"
            ));
            self.unsaved = Some(format!("{path}: {why}"));
        }
    }

    /// Whether profiles are to be handed over at the end of their windows.
    pub(crate) fn keeps_windows(&self) -> bool {
        self.paged.is_some() || self.profiles.is_some()
    }

    /// Takes profiles at the end of their windows.
    pub(crate) fn keep(&mut self, kept: Vec<Kept>) {
        if let Some(paged) = &mut self.paged {
            paged.keep(&kept);
        }
        if let Some(profiles) = &self.profiles {
            let stored =
                |k: Kept| StoredProfile { ip: k.ip.to_bytes(), window: k.window, bytes: k.bytes };
            profiles.put(kept.into_iter().map(stored));
        }
        self.say_unkept();
    }
}

/// When a finding is written.
fn created() -> Option<TimeNs> {
    i64::try_from(clock::epoch_ns()).ok().map(TimeNs)
}
