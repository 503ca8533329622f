//! Compiles each `bpf/*.bpf.c` with clang and writes the list of the objects. Without clang the list says so, and the
//! crate is built without programs. No object is committed: it would not be seen when its source changes.
//!
//! The calls that are marked in `recipes.tsv` get a function of their own, which is written here from their recipe.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=GABION_CLANG");
    println!("cargo::rerun-if-env-changed=GABION_WITHOUT_CLANG");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    println!("cargo::rerun-if-changed={}", folder.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang = env::var("GABION_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let is_here = env::var_os("GABION_WITHOUT_CLANG").is_none()
        && Command::new(&clang).arg("--version").output().is_ok_and(|o| o.status.success());

    let mut sources: Vec<PathBuf> = fs::read_dir(&folder)
        .map(|entries| entries.filter_map(|e| Some(e.ok()?.path())).collect())
        .unwrap_or_default();
    sources.retain(|path| path.to_string_lossy().ends_with(".bpf.c"));
    sources.sort();

    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/syscalls/recipes.tsv");
    println!("cargo::rerun-if-changed={}", recipes.display());
    let recipes = fs::read_to_string(recipes).expect("the recipes are there");
    let (functions, numbers) = native_code(&recipes);
    fs::write(out.join("native.h"), functions).expect("OUT_DIR is writable");
    fs::write(out.join("native.rs"), numbers).expect("OUT_DIR is writable");

    let table = table_hash(&folder.join("../crates/scap/src/table"));
    let mut list = String::from("static COMPILED: &[(&str, &[u8])] = &[\n");
    if is_here {
        for source in &sources {
            let stem =
                source.file_name().unwrap_or_default().to_string_lossy().replace(".bpf.c", "");
            let object = out.join(format!("{stem}.o"));
            compile(&clang, source, &object, &out, table);
            list += &format!("    ({stem:?}, aya::include_bytes_aligned!({object:?})),\n");
        }
    } else {
        println!(
            "cargo::warning={clang} is missing: built without BPF programs, nothing live works"
        );
    }
    list += "];\n";
    fs::write(out.join("kinds.rs"), kinds(&folder.join("syscalls.h")))
        .expect("OUT_DIR is writable");
    fs::write(out.join("objects.rs"), list).expect("OUT_DIR is writable");
}

/// The hash of the event table (FNV-1a), as `gabion_scap::table::hash` computes it: it goes into the programs, whose loader
/// refuses those of another table. It is written here once more, as a script that is built on a crate of this workspace
/// would run again, clang too, after each change of that crate.
fn table_hash(folder: &Path) -> u64 {
    let names = ["events", "flags", "calls", "ia32", "conversion"];
    names.iter().fold(0xcbf2_9ce4_8422_2325, |hash, name| {
        let path = folder.join(format!("{name}.tsv"));
        println!("cargo::rerun-if-changed={}", path.display());
        let table = fs::read(&path).expect("the event table is there");
        table
            .iter()
            .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    })
}

/// The names of `enum kind` in the header, in their order, so that recipes name what the programs implement.
fn kinds(header: &Path) -> String {
    let text = fs::read_to_string(header).expect("bpf/syscalls.h is there");
    let after = text.split("enum kind {").nth(1).unwrap_or_default();
    let body = after.split('}').next().unwrap_or_default();
    let names = body.lines().filter_map(|line| line.trim().strip_prefix("K_")?.split(',').next());
    let mut list = String::from(
        "/// The kinds of values by name; the place is the number.\npub(crate) static KINDS: &[&str] = &[\n",
    );
    for name in names {
        list += &format!("    {name:?},\n");
    }
    list += "];\n";
    list
}

/// From the recipes: a function in C for each call that has code of its own, with a `switch` by its number, and the
/// numbers in Rust. They begin with `NATIVE_FIRST` of `bpf/syscalls.h`.
fn native_code(recipes: &str) -> (String, String) {
    const NATIVE_FIRST: usize = 3;
    let mut functions = String::from("/* Made from recipes.tsv by the build of probe. */\n");
    let mut switch = String::from(
        "INLINE void put_native(struct building *b, u32 number)\n{\n\tswitch (number) {\n",
    );
    let mut list = String::from(
        "/// The calls that have code of their own in the kernel; the place and `NATIVE_FIRST` make the number.\n\
         pub(crate) static NATIVE: &[&str] = &[\n",
    );
    let mut number = NATIVE_FIRST;
    for row in recipes.lines().filter(|row| !row.starts_with('#')) {
        let mut cells = row.split('\t');
        let (call, code) = (cells.next().unwrap_or_default(), cells.nth(1));
        let put = match code {
            Some("native") => {
                functions += &native_function(call, cells.next().unwrap_or_default());
                format!("native_{call}(b)")
            }
            Some("opens") => format!("put_open(b, OPEN_{})", call.to_uppercase()),
            _ => continue,
        };
        // The end of a thread is no call, and its program has no switch.
        if call != "procexit" {
            switch += &format!("\tcase {number}:\n\t\t{put};\n\t\tbreak;\n");
        }
        list += &format!("    {call:?},\n");
        number += 1;
    }
    switch += "\t}\n}\n";
    list += "];\n";
    list += &format!(
        "/// The number of the first of them.\npub(crate) const NATIVE_FIRST: usize = {NATIVE_FIRST};\n"
    );
    (functions + &switch, list)
}

/// The function that writes the values of a recipe one after the other.
fn native_function(call: &str, values: &str) -> String {
    let words: Vec<&str> = values.split_whitespace().filter(|word| *word != "|").collect();
    let mut body = format!("\tBEGIN_RECORD({});\n\n", words.len());
    for (place, word) in words.iter().enumerate() {
        let mut parts = word.split('~').next().unwrap_or_default().split(':');
        let kind = parts.next().unwrap_or_default().to_uppercase();
        let (first, second) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
        body += &format!("\tVALUE({place}, K_{kind}, {first}, {second});\n");
    }
    format!(
        "\nNOINLINE u32 native_{call}(struct building *b)\n{{\n{body}\tEND_RECORD();\n\treturn 0;\n}}\n"
    )
}

/// Compiles one program, and takes the debugger's sections away, which only make the binary larger.
fn compile(clang: &str, source: &Path, object: &Path, out: &Path, table: u64) {
    let status = Command::new(clang)
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-DEVENT_TABLE={table}ULL"))
        .arg("-I")
        .arg(out)
        .args(["-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-unused-function", "-c"])
        .arg(source)
        .arg("-o")
        .arg(object)
        .status()
        .expect("clang was started before");
    assert!(status.success(), "clang can't compile {}", source.display());
    let _ = Command::new("llvm-strip").arg("-g").arg(object).status();
}
