//! Rewrites rule files in place, with a copy of what was there.

use gabion_condition::migrate_rules;
use gabion_runtime::{operator_file, output};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Rewrites a rule file so that it names no enter events. The old text stays in a file with `.old` after its name. Returns
/// what was done, as lines for the operator, and whether nothing is left to do by hand.
///
/// # Errors
/// The file can't be read or written.
pub fn migrate_rule_file(path: &Path) -> io::Result<(String, bool)> {
    let most = gabion_condition::limits::RULE_FILE_BYTES_MAX as u64;
    let bytes = operator_file::bytes(path, most)?;
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "is not text in UTF-8"));
    };
    let migrated = migrate_rules(&text);
    let shown = path.display();
    let mut report = format!("{shown}: {} conditions rewritten\n", migrated.changed);
    for line in &migrated.enter_events {
        let _ = writeln!(
            report,
            "{shown}:{line}: the rule was tried when the call began; now it is tried when the call has ended"
        );
    }
    for line in &migrated.left {
        let _ =
            writeln!(report, "{shown}:{line}: still names evt.dir: rewrite the condition by hand");
    }
    if migrated.text != text {
        let mut old = path.as_os_str().to_owned();
        old.push(".old");
        output::write_whole(&PathBuf::from(old), text.as_bytes())?;
        output::write_whole(path, migrated.text.as_bytes())?;
    }
    Ok((report, migrated.left.is_empty()))
}
