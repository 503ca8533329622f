//! `--disable-conf`, `--enable-conf` and `--modify-conf`: which rules of the files are on, in suricata-update's formats.

use crate::limits::{IDLE_LINES_SAID, NAMED_FILE_BYTES_MAX};
use crate::operator_file;
use crate::rules::RuleFile;
use clap::Args;
use gabion_rules::selection::{Kind, Selected, Selection};
use gabion_rules::{Diagnostic, Severity};
use std::path::{Path, PathBuf};

/// The three files.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectionOptions {
    /// Turn off the rules that this file names, in the format of suricata-update's disable.conf
    #[arg(long, value_name = "FILE")]
    pub(crate) disable_conf: Option<PathBuf>,
    /// Turn on the rules that this file names, also those that --disable-conf turns off (enable.conf)
    #[arg(long, value_name = "FILE")]
    pub(crate) enable_conf: Option<PathBuf>,
    /// Change rules as this file says (modify.conf)
    #[arg(long, value_name = "FILE")]
    pub(crate) modify_conf: Option<PathBuf>,
}

/// What was made of them.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) selected: Selected,
    /// Lines that can't be read; they have no effect, the others have.
    pub(crate) faults: Vec<Diagnostic>,
}

impl SelectionOptions {
    /// Reads the files and applies them to the rules; none where there is no file.
    ///
    /// # Errors
    /// The file that can't be read, and why.
    pub(crate) fn apply(&self, files: &mut [RuleFile]) -> Result<Option<Applied>, String> {
        let named = [
            (Kind::Disable, &self.disable_conf),
            (Kind::Enable, &self.enable_conf),
            (Kind::Modify, &self.modify_conf),
        ];
        let mut selection = Selection::default();
        let mut faults = Vec::new();
        let mut is_any = false;
        for (kind, path) in named {
            let Some(path) = path else { continue };
            is_any = true;
            let bytes = operator_file::bytes(path, NAMED_FILE_BYTES_MAX).map_err(|e| {
                format!("--{} {}: {e}: name a file of its lines", kind.name(), path.display())
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
        let mut texts: Vec<(&str, &mut String)> =
            whole.iter().map(String::as_str).zip(files.iter_mut().map(|f| &mut f.text)).collect();
        Ok(Some(Applied { selected: selection.apply(&mut texts), faults }))
    }
}

impl Applied {
    /// How many rules became what.
    pub(crate) fn counts(&self) -> String {
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
    pub(crate) fn lines(&self, is_all: bool) -> Vec<(Severity, String)> {
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
