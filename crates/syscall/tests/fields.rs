//! The fields of every event of the corpus's captures are those that Falco's engine gives (libs, schema 4.5.1).

mod replay;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gabion_record::budget::Budget;
use gabion_record::fields::{Argument, FieldId, Fields as _, Scratch, Value, ids};
use gabion_syscall::{Options, State, View};

/// Cells that equal the reference, of all 85,223 rows with 92 columns: where Falco's mistakes are repeated, and as
/// fields are given to users. They only rise; what is left is explained in `docs/syscall-differences.md`.
const EQUAL_FLOORS: [(bool, u64); 2] = [(true, 7_840_077), (false, 7_837_061)];

/// A column of the expected files: a field and its argument.
fn column(name: &str) -> (FieldId, Option<String>) {
    match name.split_once('[') {
        Some((field, rest)) => {
            (FieldId::by_name(field).unwrap(), Some(rest.trim_end_matches(']').to_owned()))
        }
        None => (FieldId::by_name(name).unwrap(), None),
    }
}

/// The value as the reference prints it.
fn printed(field: FieldId, value: &Value<'_>, to: &mut Vec<u8>) {
    let mut text = String::new();
    match *value {
        Value::Text(bytes) | Value::Bytes(bytes) => {
            to.extend_from_slice(bytes);
            return;
        }
        Value::Unsigned(n) | Value::Time(n) | Value::Duration(n) => write!(text, "{n}").unwrap(),
        Value::Signed(n) if field == ids::FD_DEV => write!(text, "{n:X}").unwrap(),
        Value::Signed(n) => write!(text, "{n}").unwrap(),
        Value::Float(n) => write!(text, "{n}").unwrap(),
        Value::Bool(is) => write!(text, "{is}").unwrap(),
        Value::Ip(ip) => write!(text, "{ip}").unwrap(),
        Value::Port(port) => write!(text, "{port}").unwrap(),
        Value::EitherIp(..) | Value::EitherPort(..) | Value::List(_) => text.push('?'),
    }
    to.extend_from_slice(text.as_bytes());
}

/// The rows of an expected file. A value may hold line breaks.
fn rows(text: &[u8]) -> (Vec<String>, Vec<Vec<Vec<u8>>>) {
    let mut lines = text.split(|b| *b == b'\n');
    let head = String::from_utf8(lines.next().unwrap().to_vec()).unwrap();
    let names: Vec<String> = head.split('\t').map(str::to_owned).collect();
    let mut rows = Vec::new();
    let mut row: Vec<u8> = Vec::new();
    let mut is_open = false;
    for line in lines {
        if is_open {
            row.push(b'\n');
        }
        row.extend_from_slice(line);
        is_open = !row.is_empty();
        if row.iter().filter(|b| **b == b'\t').count() + 1 >= names.len() {
            rows.push(row.split(|b| *b == b'\t').map(<[u8]>::to_vec).collect());
            row.clear();
            is_open = false;
        }
    }
    (names, rows)
}

/// What was compared, and what differs by column and type of event.
#[derive(Default)]
struct Outcome {
    rows: u64,
    cells: u64,
    equal: u64,
    /// Rows for which there was no event.
    lost: u64,
    wrong: BTreeMap<(String, String), (u64, String)>,
}

impl Outcome {
    fn differs(&mut self, column: &str, row: &[Vec<u8>], got: &[u8], of: &str, expected: &[u8]) {
        let kind = String::from_utf8_lossy(&row[3]).into_owned();
        let entry = self.wrong.entry((column.to_owned(), kind)).or_insert_with(|| {
            let (got, expected) = (String::from_utf8_lossy(got), String::from_utf8_lossy(expected));
            let number = String::from_utf8_lossy(&row[0]);
            (0, format!("{of} {number}: {got:?} expected {expected:?}"))
        });
        entry.0 += 1;
    }

    fn print(&self) {
        let mut list: Vec<_> = self.wrong.iter().collect();
        list.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for ((column, kind), (count, first)) in list.iter().take(80) {
            let first: String = first.chars().take(400).collect();
            eprintln!("{count:7} {column} {kind}: {first}");
        }
        eprintln!(
            "{} rows, {} without an event, {} of {} cells equal: {:.4} %",
            self.rows,
            self.lost,
            self.equal,
            self.cells,
            self.equal as f64 * 100.0 / self.cells as f64
        );
    }
}

/// Compares the fields of one event with its row.
fn compare(
    of: &str,
    view: View<'_>,
    columns: &[(String, FieldId, Option<String>)],
    row: &[Vec<u8>],
    outcome: &mut Outcome,
) {
    let (mut got, mut scratch) = (Vec::new(), Scratch::new());
    for ((name, field, argument), expected) in columns.iter().zip(row) {
        let argument = match argument {
            None => Argument::None,
            Some(text) => match text.parse() {
                Ok(index) => Argument::Index(index),
                Err(_) => Argument::Key(text),
            },
        };
        got.clear();
        match view.field(*field, argument, &mut scratch) {
            Ok(value) => printed(*field, &value, &mut got),
            Err(_) => got.extend_from_slice(b"<NA>"),
        }
        outcome.cells += 1;
        if got == *expected {
            outcome.equal += 1;
        } else {
            outcome.differs(name, row, &got, of, expected);
        }
    }
}

#[test]
fn fields_are_those_of_falcos_engine() {
    let Some(folder) = replay::corpus("fields_are_those_of_falcos_engine") else { return };
    let mut files: Vec<_> = std::fs::read_dir(folder.join("expected-fields"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut outcomes = [Outcome::default(), Outcome::default()];
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().trim_end_matches(".tsv.zst");
        let text = zstd::decode_all(std::fs::File::open(&file).unwrap()).unwrap();
        let (names, rows) = rows(&text);
        let columns: Vec<_> = names
            .iter()
            .map(|name| {
                let (field, argument) = column(name);
                (name.clone(), field, argument)
            })
            .collect();
        let capture = folder.join("captures").join(format!("{name}.scap"));
        for (outcome, (as_falco, _)) in outcomes.iter_mut().zip(EQUAL_FLOORS) {
            let options = Options { as_falco, ..Options::default() };
            let mut rows = rows.iter().peekable();
            let mut state = State::new(options, Budget::standalone("threads", 256 << 20));
            replay::run(&capture, &mut state, |state, event| {
                let number = event.number.to_string();
                if let Some(row) = rows.next_if(|row| row[0] == number.as_bytes()) {
                    outcome.rows += 1;
                    compare(name, state.view(event), &columns, row, outcome);
                }
            });
            outcome.lost += rows.count() as u64;
        }
    }
    for (outcome, (as_falco, floor)) in outcomes.iter().zip(EQUAL_FLOORS) {
        eprintln!("with Falco's mistakes: {as_falco}");
        outcome.print();
        assert_eq!((outcome.rows, outcome.lost), (85_223, 0));
        assert!(outcome.equal >= floor, "{} cells are equal", outcome.equal);
    }
}
