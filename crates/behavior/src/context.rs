//! What a detector sees at a record, at a moment that it asked for and at the end of a window, and how it says what
//! it found.

use crate::evidence::{EvidenceBuilder, Times};
use crate::outlet::Outlet;
use crate::repeats::{REPEATED, Repeats};
use crate::rita::Signature;
use crate::settings::Settings;
use crate::site::Facts;
use crate::sketch::{hash_ip, mix};
use gabion_record::Ip;
use gabion_record::evidence::{Evidence, EvidenceType, Party, ThreatLevel};
use gabion_record::logs::{Record, TimeNs};

/// What a detector sees at one record, and where it says what it found.
pub(crate) struct Context<'a, 'r> {
    /// The record.
    pub record: &'a Record<'r>,
    /// What the site knows.
    pub facts: &'a Facts,
    /// Thresholds.
    pub settings: &'a Settings,
    /// Whose profile this is.
    pub profile: Ip,
    /// Repeats of this window.
    pub repeats: &'a mut Repeats,
    /// The source has been found to scan ports in this window.
    pub is_scanner: &'a mut bool,
    /// What the record says of the signature of its source's program, where it says something.
    pub signature: Option<Signature>,
    /// The earliest moment a detector wants to be asked again.
    pub timer: &'a mut TimeNs,
    /// What was found.
    pub out: &'a mut Outlet,
}

impl Context<'_, '_> {
    /// Asks for [`crate::detect::Detector::wake`] at that moment.
    pub(crate) fn wake(&mut self, at: TimeNs) {
        *self.timer = (*self.timer).min(at);
    }

    /// Begins evidence about the record's source, at the record's moment.
    pub(crate) fn find(&self, kind: &'static EvidenceType) -> EvidenceBuilder {
        let r = self.record;
        let mut finding = EvidenceBuilder::new(kind, self.profile, r.ts, self.facts.window);
        finding.0.proto = r.proto;
        finding.1.has_flow = true;
        finding
    }

    /// Begins the last report of something that was found in that window, seen last at `last`, and is counted no
    /// further.
    pub(crate) fn find_last(
        &self,
        kind: &'static EvidenceType,
        window: i64,
        last: TimeNs,
    ) -> EvidenceBuilder {
        EvidenceBuilder::new(kind, self.profile, last, window).for_good()
    }

    /// Says it.
    pub(crate) fn say(&mut self, finding: EvidenceBuilder) {
        self.out.put(finding, self.record.uid, |finding| finding);
    }

    /// Says it; `complete` adds the words of its sentence, and is asked only where somebody may read them.
    pub(crate) fn say_in_words(
        &mut self,
        finding: EvidenceBuilder,
        complete: impl FnOnce(EvidenceBuilder) -> EvidenceBuilder,
    ) {
        self.out.put(finding, self.record.uid, complete);
    }

    /// Reports it at the 1st, 10th, 100th … time in this window; `what` distinguishes one thing from
    /// another of the same type.
    pub(crate) fn say_damped(&mut self, what: u64, make: impl FnOnce(&Self) -> EvidenceBuilder) {
        let finding = make(self);
        self.damp(what, finding);
    }

    fn damp(&mut self, what: u64, finding: EvidenceBuilder) {
        if let Some(times) = self.is_due(finding.0.kind, what) {
            self.say(finding.seen(times));
        }
    }

    /// Counts a repeat; returns the times so far when it is to be reported. Cheaper than making evidence that
    /// is not reported.
    pub(crate) fn is_due(&mut self, kind: &'static EvidenceType, what: u64) -> Option<Times> {
        let (count, key) = self.repeats.count(kind, what)?;
        Some(Times { count, repeat: mix(key ^ hash_ip(self.profile)) })
    }

    /// The pair of an observation: evidence of the source, and of the other end named by `attacker`
    /// in the profile of `ip`.
    /// Whether it was made whole: last numbers of what was only counted are reported nowhere.
    pub(crate) fn say_pair(
        &mut self,
        src: EvidenceBuilder,
        attacker: Party,
        ip: Ip,
        level: ThreatLevel,
    ) -> bool {
        self.out.put_pair(src, self.record.uid, (self.profile, attacker, ip), level)
    }

    /// Says evidence twice: of the source as attacker, and of the destination as attacker, each
    /// with its level and naming the other.
    /// Whether it was made whole.
    pub(crate) fn say_both(
        &mut self,
        mut finding: EvidenceBuilder,
        src: ThreatLevel,
        dst: ThreatLevel,
    ) -> bool {
        let peer = self.record.dst;
        finding.0.level = src;
        self.say_pair(finding, Party::destination(peer), peer, dst)
    }
}

/// What a detector sees when its moment has come.
pub(crate) struct Waking<'a> {
    /// Event time.
    pub now: TimeNs,
    /// Nothing will follow: what waits is to be decided.
    pub is_end: bool,
    /// Thresholds.
    pub settings: &'a Settings,
    /// Whose profile this is.
    pub profile: Ip,
    /// The earliest moment a detector wants to be asked again.
    pub timer: &'a mut TimeNs,
    /// What was found.
    pub out: &'a mut Outlet,
}

impl Waking<'_> {
    /// Begins evidence about something seen at `ts` in that window.
    pub(crate) fn find(
        &self,
        kind: &'static EvidenceType,
        ts: TimeNs,
        window: i64,
    ) -> EvidenceBuilder {
        EvidenceBuilder::new(kind, self.profile, ts, window)
    }

    /// Says it.
    pub(crate) fn say(&mut self, finding: EvidenceBuilder) {
        self.out.put(finding, b"", |finding| finding);
    }
}

/// What a detector sees when a window is over.
pub(crate) struct Closing<'a> {
    /// Event time.
    pub now: TimeNs,
    /// Nothing will follow: the input is over, or the profile is evicted.
    pub is_end: bool,
    /// The window.
    pub window: i64,
    /// Thresholds.
    pub settings: &'a Settings,
    /// Whose profile this is.
    pub profile: Ip,
    /// Last numbers.
    pub out: &'a mut Vec<Evidence>,
}

impl Closing<'_> {
    /// Returns how often things were seen by now. Nothing else is known of them here: the stage that reports them has
    /// the rest.
    pub(crate) fn say_repeats(&mut self, repeats: &Repeats) {
        for (key, times) in repeats.grown() {
            let mut finding = self.find(&REPEATED, self.window, self.now).at_last();
            (finding.0.times, finding.0.repeat) = (times, mix(key ^ hash_ip(self.profile)));
            self.say(finding);
        }
    }

    /// Begins the last report of something that was found in that window and seen last at `last`.
    pub(crate) fn find(
        &self,
        kind: &'static EvidenceType,
        window: i64,
        last: TimeNs,
    ) -> EvidenceBuilder {
        let finding = EvidenceBuilder::new(kind, self.profile, last, window);
        if self.is_end { finding.for_good() } else { finding.at_last() }
    }

    /// Says it.
    pub(crate) fn say(&mut self, finding: EvidenceBuilder) {
        finding.finish(self.out);
    }

    /// Says it of the source, and of the other end: see [`Context::say_pair`].
    pub(crate) fn say_pair(
        &mut self,
        finding: EvidenceBuilder,
        other: Party,
        ip: Ip,
        level: ThreatLevel,
    ) {
        let (of_src, of_other) = finding.pair(self.profile, other, ip, level);
        self.out.push(of_other);
        self.out.push(of_src);
    }
}
