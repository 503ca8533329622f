//! suricata-verify: each test is a folder with a `test.yaml`, mostly a capture and rules; the program
//! under test is run over it and what it wrote is checked.
//!
//! [`yaml`] reads the description, [`case`] gives it its meaning, [`requires`] decides whether it
//! applies, [`execute`] runs it, [`checks`] and [`matching`] judge the output, [`results`] adds up and
//! [`report`] writes it down. The tests were written for a Python program, so values are read and
//! compared as Python does: YAML 1.1 as PyYAML's safe loader resolves it, `True == 1`, `1 == 1.0`.

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
