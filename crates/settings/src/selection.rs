//! `--disable-conf`, `--enable-conf` and `--modify-conf`: which rules of the files are on, in suricata-update's formats.

use crate::error::{Error, Result};
use crate::limits::IDLE_LINES_SAID;
use crate::rule_file::{RuleFile, joined};
use gabion_rules::{Diagnostic, Selected, Selection, SelectionKind, Severity};
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_runtime::operator_file;
use std::path::{Path, PathBuf};

/// The three files.
#[derive(Clone, Debug, Default)]
pub struct SelectionFiles {
    /// Rules that are turned off, as in suricata-update's disable.conf.
    pub disable_conf: Option<PathBuf>,
    /// Rules that are turned on, also those that the first file turns off (enable.conf).
    pub enable_conf: Option<PathBuf>,
    /// Changes of rules (modify.conf).
    pub modify_conf: Option<PathBuf>,
}

/// What the files did to the rules.
#[derive(Clone, Debug)]
pub struct AppliedSelection {
    /// How many rules are on, off and changed, and which lines mean no rule.
    pub selected: Selected,
    /// Lines that can't be read; they have no effect, the others have.
    pub faults: Vec<Diagnostic>,
}

impl SelectionFiles {
    /// Reads the files and applies them to the rules; none where there is no file.
    ///
    /// # Errors
    /// The file that can't be read, and why.
    pub fn apply(&self, files: &mut [RuleFile]) -> Result<Option<AppliedSelection>> {
        let named = [
            (SelectionKind::Disable, &self.disable_conf),
            (SelectionKind::Enable, &self.enable_conf),
            (SelectionKind::Modify, &self.modify_conf),
        ];
        let mut selection = Selection::default();
        let mut faults = Vec::new();
        let mut is_any = false;
        for (kind, path) in named {
            let Some(path) = path else { continue };
            is_any = true;
            let bytes = operator_file::bytes(path, NAMED_FILE_BYTES_MAX).map_err(|source| {
                Error::Selection { kind: kind.name(), path: path.clone(), source }
            })?;
            let text = String::from_utf8_lossy(&bytes);
            faults.extend(selection.add(kind, &text, &path.display().to_string()));
        }
        if !is_any {
            return Ok(None);
        }
        // Patterns of paths mean the whole path, as in suricata-update.
        let whole: Vec<String> = files
            .iter()
            .map(|f| {
                Path::new(&f.name)
                    .canonicalize()
                    .map_or(f.name.clone(), |p| p.display().to_string())
            })
            .collect();
        let mut texts: Vec<String> =
            files.iter_mut().map(|f| joined(std::mem::take(&mut f.parts))).collect();
        let mut named: Vec<(&str, &mut String)> =
            whole.iter().map(String::as_str).zip(&mut texts).collect();
        let selected = selection.apply(&mut named);
        for (file, text) in files.iter_mut().zip(texts) {
            file.parts = vec![text];
        }
        Ok(Some(AppliedSelection { selected, faults }))
    }
}

impl AppliedSelection {
    /// How many rules became what.
    pub fn counts(&self) -> String {
        let Selected { disabled, enabled, modified, for_flowbits, .. } = &self.selected;
        let mut said = format!("{disabled} disabled, {enabled} enabled, {modified} modified");
        if *for_flowbits > 0 {
            said.push_str(&format!(
                ", {for_flowbits} on without alert for the flowbits that they set"
            ));
        }
        said
    }

    /// What is wrong with lines, and which mean no rule: of these the first few, and how many more there are.
    pub fn lines(&self, is_all: bool) -> Vec<(Severity, String)> {
        let most = if is_all { usize::MAX } else { IDLE_LINES_SAID };
        let mut said: Vec<_> =
            self.faults.iter().map(|d| (Severity::Error, d.to_string())).collect();
        let idle = &self.selected.said;
        said.extend(idle.iter().take(most).map(|d| (Severity::Warning, d.to_string())));
        if idle.len() > most {
            let more = idle.len() - most;
            said.push((Severity::Warning, format!("{more} lines more have no effect")));
        }
        said
    }
}
