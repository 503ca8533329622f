//! Runs the project's rules over this repository: one test per rule, so that a failure shows the
//! rule.

use gabion_tidy::{
    Fault, arrows, circles, clones, counts, documents, examples, habits, limits, listing,
    manifests, modules, open_fields, openings, protocols, sources, surface, text_keys, threads,
    tree, words,
};
use std::path::Path;
use std::process::Command;

/// Fails with the list of all places that break the rule.
fn hold(faults: Vec<Fault>) {
    let count = faults.len();
    assert!(faults.is_empty(), "{count} places break the rule:\n{}", listing(faults));
}

fn page() -> String {
    std::fs::read_to_string(tree::root().join(arrows::PAGE)).unwrap()
}

#[test]
fn files_begin_with_a_description_and_have_no_forbidden_words() {
    hold(tree::files(&tree::root()).iter().flat_map(sources::check).collect());
}

#[test]
fn crates_use_only_the_crates_of_the_architecture() {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(tree::root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata = serde_json::from_slice(&out.stdout).unwrap();
    let there = arrows::read_metadata(&metadata);
    assert!(there.len() > 5, "crates are found: {there:?}");
    hold(arrows::check(&arrows::read_table(&page()), &there));
}

#[test]
fn dependencies_have_reasons_and_versions_in_one_place() {
    let files = tree::files(&tree::root());
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        match file.path.as_str() {
            "Cargo.toml" => faults.extend(manifests::reasons(file)),
            path if path.starts_with("fuzz/") => {} // a workspace of its own
            _ => faults.extend(manifests::member(file)),
        }
    }
    hold(faults);
}

#[test]
fn the_lock_file_of_the_fuzz_programs_is_not_stale() {
    let root = tree::root();
    let path = "fuzz/Cargo.lock";
    let text = std::fs::read_to_string(root.join(path)).unwrap();
    let mut manifests = tree::files(&root);
    manifests.retain(|file| file.path.ends_with("Cargo.toml"));
    hold(manifests::stale_lock(&tree::File { path: path.to_owned(), text }, &manifests));
}

#[test]
fn unsafe_code_is_only_where_the_architecture_allows_it() {
    hold(manifests::unsafe_code(&tree::files(&tree::root()), &arrows::read_table(&page())));
}

#[test]
fn a_protocol_is_one_folder_and_one_line() {
    let files = tree::files(&tree::root());
    assert!(protocols::folders(&files).len() >= 2, "protocols are found");
    hold(protocols::check(&files));
}

#[test]
fn threads_clocks_and_sockets_stand_where_the_architecture_says() {
    hold(threads::check(&tree::files(&tree::root())));
}

#[test]
fn libraries_open_no_files_and_sockets_of_sources_and_outputs() {
    hold(openings::check(&tree::files(&tree::root())));
}

#[test]
fn traits_with_one_implementation_are_named_by_the_page() {
    hold(habits::lonely_traits(&tree::files(&tree::root()), &page()));
}

#[test]
fn wildcard_arms_for_enums_of_our_own_are_listed_with_their_reason() {
    let root = tree::root();
    let list = std::fs::read_to_string(root.join(habits::WILDCARDS)).unwrap();
    hold(habits::unlisted_wildcards(&tree::files(&root), &list));
}

#[test]
fn tests_sleep_only_where_they_drive_a_process_or_a_thread() {
    hold(habits::sleeping_tests(&tree::files(&tree::root())));
}

/// Patches of toys apply as `scripts/toys.sh` applies them, which only `make toys` runs: code near a patch that moves is
/// found here first.
#[test]
fn patches_of_toys_apply() {
    let root = tree::root();
    let mut patches = 0;
    for toy in std::fs::read_dir(root.join("tests/toys")).unwrap().flatten() {
        let files = std::fs::read_dir(toy.path()).into_iter().flatten().flatten();
        for patch in files.map(|f| f.path()).filter(|p| p.extension().is_some_and(|e| e == "patch"))
        {
            let mut check = Command::new("git");
            check.args(["apply", "--check", "-C1"]).arg(&patch).current_dir(&root);
            let out = check.output().unwrap();
            let why = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{}: {why}", patch.display());
            patches += 1;
        }
    }
    assert!(patches > 10, "patches are found: {patches}");
}

#[test]
fn every_source_file_is_listed_by_a_module() {
    hold(modules::unlisted(&tree::files(&tree::root())));
}

#[test]
fn no_path_attribute_reaches_the_source_of_another_crate() {
    hold(modules::foreign(&tree::files(&tree::root())));
}

#[test]
fn examples_are_short() {
    hold(examples::too_long(&tree::files(&tree::root())));
}

#[test]
fn at_most_three_clones_of_the_review_stand() {
    let standing = clones::standing(&tree::files(&tree::root()));
    assert!(standing.len() <= clones::STANDING_MAX, "{standing:#?}");
}

#[test]
fn limits_stand_in_their_tables() {
    hold(limits::outside(&tree::files(&tree::root())));
}

#[test]
fn limits_that_lose_something_are_counted_and_reached() {
    hold(limits::uncounted(&tree::files(&tree::root())));
}

#[test]
fn documents_have_no_dead_links() {
    let root = tree::root();
    let files = tree::files(&root);
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    hold(
        documents
            .flat_map(|f| documents::dead_links(f, &|path| root.join(path).exists()))
            .collect(),
    );
}

/// `CHANGELOG.md` may name what was removed since.
#[test]
fn documents_name_only_what_exists() {
    let root = tree::root();
    let files = tree::files(&root);
    let names = documents::Names::new(&files);
    let pages = files.iter().filter(|f| f.path.ends_with(".md") && f.path != "CHANGELOG.md");
    let exists = |path: &Path| root.join(path).exists();
    hold(pages.flat_map(|page| documents::missing_names(page, &names, &exists)).collect());
}

/// Lines with words of the table "Replaced words" of the glossary.
fn replaced_words(files: &[tree::File]) -> Vec<Fault> {
    let page = files.iter().find(|f| f.path == words::PAGE).expect("invariant: the page exists");
    let table = words::read_table(&page.text);
    assert!(table.len() > 10, "words are found: {table:?}");
    files.iter().flat_map(|f| words::check(f, &table)).collect()
}

#[test]
fn no_word_that_the_glossary_replaces_is_used() {
    hold(replaced_words(&tree::files(&tree::root())));
}

/// The corpus is found by `tests/corpus` alone.
#[test]
fn the_corpus_is_looked_up_in_one_place() {
    let variable = concat!("\"GABION_", "CORPUS\"");
    let files = tree::files(&tree::root());
    let others =
        files.iter().filter(|f| f.path.ends_with(".rs") && !f.path.starts_with("tests/corpus/"));
    hold(
        others
            .filter(|f| f.text.contains(variable))
            .map(|f| Fault::new(&f.path, 0, "use gabion_corpus to find the corpus"))
            .collect(),
    );
}

/// `UPDATE=1` lowers the kept counts.
#[test]
fn counts_only_fall() {
    let root = tree::root();
    let path = root.join(counts::PATH);
    let kept = counts::kept(&std::fs::read_to_string(&path).unwrap());
    let files = tree::files(&root);
    let mut now = counts::all(&files);
    let replaced = replaced_words(&files);
    now.insert("places with words that the glossary replaces".to_owned(), replaced.len());
    now.extend(surface::crowded(&files));
    now.extend(habits::counts(&files));
    now.extend(open_fields::counts(&files));
    let quoted = protocols::quoted(&files);
    now.insert(
        "lines with a protocol's name in quotes outside its folder".to_owned(),
        quoted.len(),
    );
    println!("{}", listing(quoted));
    let keys = [text_keys::evidence_names(&files), text_keys::compared_names(&files)].concat();
    now.insert("lines that decide by a text of another crate".to_owned(), keys.len());
    println!("{}", listing(keys));
    let texts = text_keys::errors_of_text(&files);
    now.insert("errors that are a text alone, outside cli".to_owned(), texts.len());
    println!("{}", listing(texts));
    let clones = clones::standing(&files);
    now.insert("clones of the review that stand".to_owned(), clones.len());
    println!("clones that stand: {clones:#?}");
    for (name, surface) in surface::surfaces(&files) {
        println!("{name} opens {} names, by module: {:?}", surface.root, surface.modules);
    }
    for circle in circles::circles(&files) {
        println!("circle of {}: {}", circle.crate_name, circle.files.join(" "));
    }
    println!("{now:#?}");
    let risen = counts::risen(&kept, &now);
    assert!(risen.is_empty(), "counts that rose:\n{}", risen.join("\n"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, counts::lowered(&kept, &now)).unwrap();
    }
}

/// Installed and packaged files include all targets of the documents' links and all files that
/// units name.
#[test]
fn installed_files_include_all_they_name() {
    let root = tree::root();
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let binary = folder.join("gabion");
    std::fs::write(&binary, "").unwrap();
    let to = folder.join("to");
    let done = Command::new(root.join("scripts/install.sh"))
        .arg(&binary)
        .env("DESTDIR", &to)
        .env("STRIP", "true")
        .env_remove("PREFIX")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let documents = to.join("usr/share/doc/gabion");
    let mut missing = Vec::new();
    let mut links = 0;
    let mut look_at = vec![documents.clone()];
    while let Some(place) = look_at.pop() {
        for file in std::fs::read_dir(place).unwrap().flatten().map(|f| f.path()) {
            if file.is_dir() {
                look_at.push(file);
                continue;
            }
            if file.extension().is_none_or(|e| e != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            for link in text.split("](").skip(1).filter_map(|l| l.split([')', '#', ' ']).next()) {
                if link.is_empty() || link.contains("://") {
                    continue;
                }
                links += 1;
                if !file.parent().unwrap().join(link).exists() {
                    missing.push(format!("{}: {link}", file.display()));
                }
            }
        }
    }
    assert!(links > 40, "links are found: {links}");
    let units = to.join("usr/lib/systemd/system");
    let mut names = 0;
    for unit in std::fs::read_dir(units).unwrap().flatten() {
        let text = std::fs::read_to_string(unit.path()).unwrap();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let named = line
                .split(['=', ' '])
                .filter_map(|word| word.strip_prefix("file://").or(Some(word)));
            for path in named.filter(|path| path.starts_with("/usr/")) {
                names += 1;
                if !to.join(path.trim_start_matches('/')).exists() {
                    missing.push(format!("{}: {path}", unit.path().display()));
                }
            }
        }
        if let Some(user) = text.lines().find_map(|l| l.strip_prefix("User=")) {
            let users = std::fs::read_to_string(to.join("usr/lib/sysusers.d/gabion.conf")).unwrap();
            assert!(users.lines().any(|l| l.starts_with(&format!("u {user} "))), "{user}");
        }
    }
    assert!(names >= 4 && missing.is_empty(), "{names} {missing:?}");
}
