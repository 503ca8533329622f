//! suricata-verify: each test is a folder with a `test.yaml`, usually with a capture and rules; the
//! program under test reads them, and its output is checked.
//!
//! [`yaml`] parses the description, [`case`] interprets it, [`requires`] decides whether it
//! applies, [`execute`] runs it, [`checks`] and [`matching`] check the output, [`results`] adds the
//! results up and [`report`] prints them. The tests were written for a Python program, so values
//! are read and compared as Python does: YAML 1.1 as PyYAML's safe loader resolves it, `True == 1`,
//! `1 == 1.0`.

pub mod case;
pub mod checks;
pub mod execute;
pub mod family;
pub mod matching;
pub mod process;
pub mod report;
pub mod requires;
pub mod results;
pub mod subject;
pub mod version;
pub mod yaml;
