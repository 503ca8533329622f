//! Makes alerts of events that rules match, writes them to all outputs and counts them.

use gabion_condition::rules::{Priority, Rule, RuleSet};
use gabion_outputs::{Output, Record};
use gabion_record::fields::{Fields, Scratch};
use gabion_record::syscall::{AlertField, AlertValue, SyscallAlert};

/// Alerts written so far, by rule and by priority.
#[derive(Clone, Debug, Default)]
pub(super) struct AlertCounts {
    /// All of them.
    pub(super) total: u64,
    /// For each priority, from the most urgent.
    pub(super) by_priority: [u64; 8],
    /// For each rule, by its position.
    pub(super) by_rule: Vec<u64>,
}

/// The outputs with what is used again for each alert.
pub(super) struct Alerts {
    outputs: Vec<Output>,
    scratch: Scratch,
    message: Vec<u8>,
    fields: Vec<AlertField>,
    wants_fields: bool,
    pub(super) counts: AlertCounts,
    /// What outputs could not write, each cause once.
    pub(super) faults: Vec<String>,
}

impl Alerts {
    pub(super) fn new(outputs: Vec<Output>, wants_fields: bool) -> Alerts {
        Alerts {
            outputs,
            scratch: Scratch::new(),
            message: Vec::new(),
            fields: Vec::new(),
            wants_fields,
            counts: AlertCounts::default(),
            faults: Vec::new(),
        }
    }

    /// Writes the alert of a rule for an event.
    pub(super) fn of_rule(&mut self, rules: &RuleSet, position: u32, fields: &dyn Fields) {
        let Some(rule) = rules.rules().get(position as usize) else { return };
        self.message.clear();
        self.fields.clear();
        rule.output.write(fields, &mut self.scratch, &mut self.message);
        if self.wants_fields {
            rule.output.values(fields, &mut self.scratch, &mut self.fields);
            self.add_extra_fields(rule, fields);
        }
        self.counts.total += 1;
        let at = Priority::ALL.iter().position(|priority| *priority == rule.priority);
        if let Some(count) = at.and_then(|at| self.counts.by_priority.get_mut(at)) {
            *count += 1;
        }
        self.counts.by_rule.resize(rules.rules().len(), 0);
        if let Some(count) = self.counts.by_rule.get_mut(position as usize) {
            *count += 1;
        }
        let alert = SyscallAlert {
            time_ns: fields.event_time(),
            priority: rule.priority.name(),
            rule: &rule.name,
            source: &rule.source,
            tags: &rule.tags,
            message: &self.message,
            fields: &self.fields,
        };
        self.outputs.iter_mut().for_each(|output| output.take(&Record::SyscallAlert(&alert)));
        self.note_faults();
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
        };
        self.outputs.iter_mut().for_each(|output| output.take(&Record::SyscallAlert(&alert)));
        self.note_faults();
    }

    fn note_faults(&mut self) {
        for output in &mut self.outputs {
            if let Err(error) = output.flush() {
                let text = error.to_string();
                if !self.faults.contains(&text)
                    && self.faults.len() < crate::limits::OUTPUT_FAULTS_KEPT
                {
                    self.faults.push(text);
                }
            }
        }
    }
}
