//! Gives the program the commit that it is built from, for `--version`. Sources without git, as in an archive,
//! are built all the same: then only the version is named, unless `GABION_COMMIT` says more.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=GABION_COMMIT");
    let given = std::env::var("GABION_COMMIT").ok().filter(|c| !c.is_empty());
    let commit = given.or_else(commit).map_or_else(String::new, |c| format!(" ({c})"));
    println!("cargo::rustc-env=GABION_BUILT_FROM={commit}");
}

/// The commit that is checked out, if the sources are the root of a work tree of git: an archive that was
/// unpacked inside of another is not of its commits.
fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    let git = |args: &[&str]| {
        let ran = Command::new("git").current_dir(&root).args(args).output().ok()?;
        let text = String::from_utf8(ran.stdout).ok()?;
        ran.status.success().then(|| text.trim().to_owned())
    };
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // Its last line changes with each commit and each change of branch.
    let log = root.join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.is_file() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}
