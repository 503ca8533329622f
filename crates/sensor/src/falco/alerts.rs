//! Makes alerts of events that rules match, writes them to all outputs and counts them.

use super::context::processes;
use super::findings::Findings;
use gabion_condition::rules::{Priority, Rule, RuleSet};
use gabion_outputs::{Output, OutputError, Record};
use gabion_record::fields::{Argument, Fields, Scratch, Value, ids};
use gabion_record::syscall::{AlertField, AlertValue, ProcessLine, SyscallAlert};

/// Alerts written so far, by rule and by priority.
#[derive(Clone, Debug, Default)]
pub struct AlertCounts {
    /// All of them.
    pub total: u64,
    /// For each priority, from the most urgent.
    pub by_priority: [u64; 8],
    /// For each rule that alerted, by its name, in the order of the files.
    pub by_rule: Vec<(String, u64)>,
    /// Those with something that is not known.
    pub partial: u64,
}

/// A rule that matched an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matched {
    /// Its position.
    pub(super) position: u32,
    /// It matched by the path of the file that the kernel opened, and not by the name that the call gave.
    pub(super) is_by_opened: bool,
    /// Something that it asks for is not known.
    pub(super) is_partial: bool,
}

/// The outputs with what is used again for each alert.
pub(super) struct Alerts {
    outputs: Vec<Output>,
    scratch: Scratch,
    message: Vec<u8>,
    fields: Vec<AlertField>,
    wants_fields: bool,
    /// Alerts that are kept for reports, and the ancestors of their processes.
    pub(super) findings: Option<Findings>,
    /// For each rule of the set at hand, by its position.
    by_position: Vec<u64>,
    pub(super) counts: AlertCounts,
    /// What outputs could not write, each cause once.
    pub(super) faults: Vec<OutputError>,
}

impl Alerts {
    pub(super) fn new(outputs: Vec<Output>, wants_fields: bool) -> Alerts {
        Alerts {
            outputs,
            scratch: Scratch::new(),
            message: Vec::new(),
            fields: Vec::new(),
            wants_fields,
            findings: None,
            by_position: Vec::new(),
            counts: AlertCounts::default(),
            faults: Vec::new(),
        }
    }

    /// From now on positions are those of other rules: what was counted for `rules` is kept by name.
    pub(super) fn leave(&mut self, rules: &RuleSet) {
        for (rule, count) in rules.rules().iter().zip(self.by_position.drain(..)) {
            match self.counts.by_rule.iter_mut().find(|(name, _)| *name == rule.name) {
                _ if count == 0 => {}
                Some((_, sum)) => *sum += count,
                None => self.counts.by_rule.push((rule.name.clone(), count)),
            }
        }
    }

    /// Alerts of the rules of the set at hand, by position.
    pub(super) fn by_position(&self) -> &[u64] {
        &self.by_position
    }

    /// From now on alerts go to these outputs.
    pub(super) fn set_outputs(&mut self, outputs: Vec<Output>, wants_fields: bool) {
        self.end();
        (self.outputs, self.wants_fields) = (outputs, wants_fields);
    }

    /// Writes the alert of a rule for an event.
    pub(super) fn of_rule(&mut self, rules: &RuleSet, matched: Matched, fields: &dyn Fields) {
        let Matched { position, is_by_opened, is_partial } = matched;
        let Some(rule) = rules.rules().get(position as usize) else { return };
        self.message.clear();
        self.fields.clear();
        rule.output.write(fields, &mut self.scratch, &mut self.message);
        if self.wants_fields {
            rule.output.values(fields, &mut self.scratch, &mut self.fields);
            self.add_extra_fields(rule, fields);
        }
        if is_by_opened {
            // The name in the message is not the one that the call gave.
            self.message.extend_from_slice(b" evt.tried_name=opened");
        }
        self.counts.total += 1;
        self.counts.partial += u64::from(is_partial);
        let at = Priority::ALL.iter().position(|priority| *priority == rule.priority);
        if let Some(count) = at.and_then(|at| self.counts.by_priority.get_mut(at)) {
            *count += 1;
        }
        self.by_position.resize(rules.rules().len(), 0);
        if let Some(count) = self.by_position.get_mut(position as usize) {
            *count += 1;
        }
        let mut ancestors: Vec<ProcessLine> = Vec::new();
        let mut host = Vec::new();
        if self.findings.is_some() {
            processes(fields, &mut self.scratch, &mut ancestors);
            let name = fields.field(ids::EVT_HOSTNAME, Argument::None, &mut self.scratch);
            if let Ok(Value::Text(name)) = name {
                host.extend_from_slice(name);
            }
        }
        let alert = SyscallAlert {
            time_ns: fields.event_time(),
            priority: rule.priority.name(),
            rule: &rule.name,
            source: &rule.source,
            tags: &rule.tags,
            message: &self.message,
            fields: &self.fields,
            number: fields.event_number(),
            host: &host,
            processes: &ancestors,
            is_partial,
        };
        self.outputs
            .iter_mut()
            .for_each(|output| output.take_record(&Record::SyscallAlert(&alert)));
        if let Some(findings) = &mut self.findings {
            findings.add(&alert);
        }
        self.note_faults(Output::flush);
    }

    fn add_extra_fields(&mut self, rule: &Rule, fields: &dyn Fields) {
        for (name, format) in &rule.extra_fields {
            let mut values = Vec::new();
            format.values(fields, &mut self.scratch, &mut values);
            let is_one_field =
                format.text().strip_prefix('%') == values.first().map(|v| v.name.as_str());
            let value = match values.pop() {
                Some(field) if is_one_field => field.value,
                _ => {
                    let mut text = Vec::new();
                    format.write(fields, &mut self.scratch, &mut text);
                    AlertValue::Text(text)
                }
            };
            self.fields.push(AlertField { name: name.clone(), value });
        }
    }

    /// Writes an alert of the sensor about itself. It counts for no rule.
    pub(super) fn internal(
        &mut self,
        time_ns: u64,
        rule: &str,
        priority: Priority,
        text: &str,
        fields: &[AlertField],
    ) {
        let alert = SyscallAlert {
            time_ns,
            priority: priority.name(),
            rule,
            source: "internal",
            tags: &[],
            message: text.as_bytes(),
            fields,
            ..SyscallAlert::default()
        };
        self.outputs
            .iter_mut()
            .for_each(|output| output.take_record(&Record::SyscallAlert(&alert)));
        self.note_faults(Output::flush);
    }

    /// No more alerts come for these outputs: keeps what could not be written.
    pub(super) fn end(&mut self) {
        self.note_faults(Output::end);
    }

    fn note_faults(&mut self, ask: fn(&mut Output) -> Result<(), OutputError>) {
        for output in &mut self.outputs {
            if let Err(error) = ask(output) {
                let text = error.to_string();
                if self.faults.len() < crate::limits::OUTPUT_FAULTS_KEPT
                    && !self.faults.iter().any(|kept| kept.to_string() == text)
                {
                    self.faults.push(error);
                }
            }
        }
    }
}
