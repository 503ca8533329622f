//! Every capture of the shared corpus is read to its end or refused with one line, whole and in
//! pieces with the same result.

use gabion_capture::{Source, list_recursive};

#[test]
fn all_captures_are_read_or_refused_with_one_line() {
    let test = "all_captures_are_read_or_refused_with_one_line";
    let Some(captures) = gabion_corpus::find(test, "captures") else { return };
    let (mut files, mut frames, mut refused, mut torn) = (0, 0_u64, Vec::new(), 0);
    for path in list_recursive(&captures).unwrap() {
        let name = path.to_string_lossy().into_owned();
        if name.ends_with(".tsv") || name.ends_with(".md") {
            continue;
        }
        files += 1;
        match Source::from_file(std::fs::File::open(&path).unwrap()) {
            Ok(mut source) => {
                let mut refs = Vec::new();
                while let Some(block) = source.next_block(128, &mut refs) {
                    assert_eq!(block.frames, refs.len());
                    refs.clear();
                }
                source.ledger().balance().unwrap();
                frames += source.frames_total();
                torn += u32::from(source.notes_total() > 0);
                let both = gabion_capture::fuzz_entry(&std::fs::read(&path).unwrap());
                assert_eq!(both.unwrap(), source.frames_total() as usize, "{name}");
                for note in source.notes() {
                    eprintln!("{name}: at byte {}: {}", note.offset, note.text);
                }
            }
            Err(error) => {
                let line = error.to_string();
                assert!(!line.is_empty() && !line.contains('\n'), "{name}: {line:?}");
                eprintln!("{name}: {line}");
                refused.push(name);
            }
        }
    }
    eprintln!("{files} files, {frames} frames, {} refused, {torn} with notes", refused.len());
    assert!(files > 1000, "the corpus is incomplete");
}
