//! A folder that already holds what an earlier run wrote: nothing of it is overwritten or added to
//! unless the command line asks for it.

use crate::command_line::ReadOptions;
use crate::exit::{Exit, Fault};
use crate::log::folders::state_of;
use gabion_outputs::{kinds, profile_store};
use gabion_reports::RUN_FILE;
use gabion_runtime::files::NamedFiles;
use gabion_runtime::output::{self, Existing, clear, refuse_link, write_whole};
use gabion_sensor::flows::Resumed;
use gabion_sensor::packets::Input;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What `gabion read` does with the outputs of an earlier run in its folder: what `--append` or
/// `--overwrite` ask for, or nothing if there are none.
///
/// # Errors
/// When there are some and neither option is given; when an output is something that the run reads, or two are the
/// same file; when the summary is a link that others could have
/// made, or can't be removed.
pub(crate) fn outputs(o: &ReadOptions, files: &[PathBuf]) -> Result<Existing, Fault> {
    check_places(o, files)?;
    let Some(folder) = &o.log_dir else { return Ok(Existing::Truncate) };
    let run = folder.join(RUN_FILE);
    let refuse = |e: std::io::Error| {
        Fault::environment(format!("{}: {e}: choose another folder with -l", run.display()))
    };
    // An error before a long run is better than one after it. A folder that is not there yet is made later.
    if folder.is_dir() {
        refuse_link(&run).map_err(refuse)?;
    }
    if o.append || continues(o, folder) || restarts(o) {
        return Ok(Existing::Append);
    }
    let found = || files.iter().chain([&run]).find(|path| is_there(path));
    if !o.overwrite
        && let Some(path) = found()
    {
        let folder = folder.display();
        let name = path.strip_prefix(folder.to_string()).unwrap_or(path).display();
        return Err(Fault::usage(format!(
            "{folder}: holds what an earlier run wrote ({name}): add --append to continue after it, \
             --overwrite to replace it, or choose another folder with -l"
        )));
    }
    // A run that is cut off must not leave the summary of another run next to its records.
    if folder.is_dir() {
        clear(&run).map_err(refuse)?;
    }
    Ok(Existing::Truncate)
}

/// Refuses outputs that would destroy what the run reads or what else it writes.
fn check_places(o: &ReadOptions, files: &[PathBuf]) -> Result<(), Fault> {
    let mut named = NamedFiles::default();
    // A file of a folder is read where its name promises a capture; a page of an earlier run may lie next to it.
    let inputs = Input::list(&o.inputs).unwrap_or_default().into_iter().map(|input| input.path);
    named.keep("is read by this run", inputs.filter(|path| Input::has_capture_name(path)));
    named.keep("is read by this run", o.inputs.iter().chain(&o.intel).chain(&o.whitelist));
    named.keep("is read by this run", o.engine.rules.iter().chain(&o.engine.config));
    if let Some(log) = &o.seal {
        named.keep_folder("belongs to the sealed log", log);
        named.keep_folder("belongs to the sealed log", &state_of(log, None));
    }
    let run = o.log_dir.as_ref().map(|folder| folder.join(RUN_FILE));
    // Two outputs of the configuration may add to one file.
    let files: BTreeSet<&PathBuf> = files.iter().collect();
    let files = files.into_iter().chain(&run).chain(&o.report).chain(&o.alert_pcap);
    refuse_destroyers(named, files).map_err(Fault::usage)
}

/// Refuses outputs that would destroy a named file, or one another, with the text of the refusal.
pub(crate) fn refuse_destroyers<'p>(
    mut named: NamedFiles,
    outputs: impl IntoIterator<Item = &'p PathBuf>,
) -> Result<(), String> {
    outputs.into_iter().try_for_each(|path| {
        let refusal = |e| format!("{}: {e}: choose another place", path.display());
        named.add_output(path).map_err(refusal)
    })
}

/// A page that can't be written is better reported before a long run than after it.
pub(crate) fn check_report(path: &Path) -> Result<(), Fault> {
    output::check(path)
        .map_err(|e| Fault::environment(format!("{}: {e}: choose another place", path.display())))
}

/// Writes a file about the run, and prints the error when that fails.
pub(crate) fn leave(path: &Path, text: &str) -> Exit {
    let Err(e) = write_whole(path, text.as_bytes()) else { return Exit::Done };
    eprintln!("{}", Fault::environment(format!("{}: {e}: choose another place", path.display())));
    Exit::Environment
}

/// Whether a run continues where an earlier one in this folder stopped, so that its outputs are added to
/// without being asked: a checkpoint of `--follow` is there.
fn continues(o: &ReadOptions, folder: &Path) -> bool {
    o.follow && Resumed::has_checkpoint(folder)
}

/// Whether a run is one that a supervisor starts again after it was killed: it reads interfaces. What it wrote before is
/// kept and added to, as by Suricata.
fn restarts(o: &ReadOptions) -> bool {
    !o.interfaces.is_empty() && !o.overwrite
}

/// The files that the behaviour engine writes into this folder.
pub(crate) fn of_behavior(folder: &Path) -> Vec<PathBuf> {
    let mut all = kinds::finding_file_paths(folder);
    all.push(profile_store::path_in(folder));
    all
}

/// Whether a file holds something. A pipe or a device holds nothing that could be lost.
pub(crate) fn is_there(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.len() > 0)
}

#[cfg(test)]
mod tests;
