//! All filters of the corpus compile, and those that Falco's engine 0.63.0 refuses are refused in its words.

mod corpus;

use gabion_condition::compile::Filter;

#[test]
fn filters_are_compiled_or_refused_as_falco_does() {
    let test = "filters_are_compiled_or_refused_as_falco_does";
    let Some(path) = corpus::corpus(test, "scap/expected-filters.tsv") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let (mut compiled, mut refused, mut wrong) = (0, 0, Vec::new());
    for line in text.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        if let ["ERR", message, filter] = columns[..] {
            match Filter::new(filter) {
                Err(error) if error.to_string() == message => refused += 1,
                other => wrong.push(format!(
                    "{filter}: expected {message}: {:?}",
                    other.err().map(|e| e.to_string())
                )),
            }
        } else if let [_, _, _, filter] = columns[..] {
            match Filter::new(filter) {
                Ok(_) => compiled += 1,
                Err(error) => wrong.push(format!("{filter}: {error}")),
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(refused, 25);
    assert!(compiled >= 174, "{compiled} filters compile");
}
