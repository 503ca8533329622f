//! Falco's rule language: rule files, conditions and output formats of any text, and its configuration.

use crate::naive_condition::{self, TypedEvent};
use crate::seeds::Seeds;
use gabion_condition::compile::{Builder, Evaluator, Filter};
use gabion_condition::format::Format;
use gabion_condition::lang;
use gabion_condition::rules::{Loader, Settings, describe_all, results_json};
use gabion_record::fields::{Argument, FieldId, Fields, Missing, Scratch, Value};
use std::path::Path;

/// Events on which each condition is compared with its second opinion.
pub const SALTS: usize = 5;

/// An event whose fields have values that come from their numbers: texts, numbers, lists, or none.
struct AnyEvent;

impl Fields for AnyEvent {
    fn field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Value<'a>, Missing> {
        let salt = match argument {
            Argument::None => 0,
            Argument::Index(n) => n as usize,
            Argument::Key(key) => key.len(),
        };
        match (field.index() + salt) % 9 {
            0 => Err(Missing::NeverSeen),
            1 => Ok(Value::Signed(-1)),
            2 => Ok(Value::Unsigned(u64::MAX)),
            3 => Ok(Value::Bool(true)),
            4 => Ok(Value::EitherPort(22, u16::MAX)),
            5 => {
                scratch.text();
                scratch.push(b"bash");
                scratch.push(b"\xff\n/usr/bin");
                Ok(scratch.as_list())
            }
            6 => Ok(Value::Float(0.5)),
            _ => Ok(Value::Text(b"/etc/passwd")),
        }
    }

    fn event_type(&self) -> u16 {
        307
    }

    fn event_number(&self) -> u64 {
        1
    }

    fn event_time(&self) -> u64 {
        u64::MAX
    }
}

/// Compiles the text as a condition. A fault has one line; brackets and a double negation change no answer; a walk over the
/// tree gives the same answer for events with values of their kinds; the text of the compiled condition does not change when
/// it is compiled again.
pub fn condition(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut filter = match Filter::new(&text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a fault has a message");
            return;
        }
    };
    let answer = filter.matches(&AnyEvent);
    for other in [format!("({text})"), format!("not (not ({text}))")] {
        // The depth is limited, so further brackets may be refused.
        if let Ok(mut other) = Filter::new(&other) {
            assert_eq!(other.matches(&AnyEvent), answer, "{text:?}");
        }
    }
    let Ok(expr) = lang::parse(&text) else { return };
    for salt in 0..SALTS {
        let event = TypedEvent { salt };
        if let Some(holds) = naive_condition::holds(&expr, &event) {
            assert_eq!(filter.matches(&event), holds, "{text:?} with salt {salt}");
        }
    }
    let mut builder = Builder::new();
    let (Ok(first), Ok(second)) = (builder.add(&expr), builder.add(&expr)) else { return };
    assert_eq!(first, second, "equal conditions are one node");
    let types = builder.types(first);
    let program = builder.finish();
    let mut evaluator = Evaluator::new(&program);
    evaluator.begin_event();
    let holds = evaluator.holds(&program, first, &AnyEvent);
    assert!(!holds || types.contains(AnyEvent.event_type()), "{text:?} names the event's type");
}

/// Loads the text as a rule file, twice. Every message has a place, and everything printed is JSON.
pub fn rules(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut loader = Loader::new(Settings::default());
    let results = [loader.load("a.yaml", &text), loader.load("b.yaml", &text)];
    for message in results.iter().flat_map(|result| result.errors.iter().chain(&result.warnings)) {
        assert!(!message.locations.is_empty() && message.snippet.contains('^'), "{message:?}");
    }
    let is_json = |json: &str| serde_json::from_str::<serde_json::Value>(json).is_ok();
    assert!(is_json(&results_json(&results)), "results are JSON");
    assert!(is_json(&describe_all(loader.rules())), "descriptions are JSON");
}

/// Compiles the text as an output format, and writes it for an event.
pub fn format(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(format) = Format::new(&text) else { return };
    let (mut out, mut fields, mut scratch) = (Vec::new(), Vec::new(), Scratch::new());
    format.write(&AnyEvent, &mut scratch, &mut out);
    format.values(&AnyEvent, &mut scratch, &mut fields);
    assert_eq!(fields.len(), format.field_names().len(), "each field once");
}

/// Reads the text as `falco.yaml`, and its lines as options over it.
pub fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut config = gabion_record::Tree::default();
    for line in text.lines().take(64) {
        let _ = gabion_settings::falco::apply_override(&mut config, line);
    }
    let _ = gabion_settings::falco::read_falco_settings(&config);
    if let Ok(config) = gabion_settings::yaml::read_yaml_text("falco.yaml", &text) {
        let _ = gabion_settings::falco::read_falco_settings(&config);
    }
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Conditions of each kind, and those of the corpus.
pub fn condition_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all = texts(&[
        "evt.type in (open, openat) and not proc.name = cat",
        "fd.name pmatch (/etc, /usr/*/x) or fd.sip = 10.0.0.1",
        "fd.net in (10.0.0.0/8) and fd.sport >= 1024",
        "tolower(proc.name) = val(proc.pname) and len(proc.args) > 3",
        "join(\"-\", (proc.name, proc.pname)) contains x or concat(proc.exe, \"y\") exists",
        "proc.name regex \"[a-z]+\" or proc.name glob '*s?' or evt.buffer bcontains 474554",
        "proc.cmdline contains oneof (a, \"b c\") and proc.aname[2] startswith x",
        "fd.types in (bash, httpd) or fd.types intersects (O_RDONLY) or not fd.types exists",
        "fd.sport != 22 and fd.port in (22, 3) and evt.type != close and evt.is_wait = true",
        "proc.exepath pmatch (/usr/bin, /etc) or basename(fd.name) = passwd or proc.name iglob '*SH'",
    ]);
    if let Some(corpus) = &seeds.corpus
        && let Ok(text) = std::fs::read_to_string(corpus.join("scap/expected-filters.tsv"))
    {
        all.extend(text.lines().step_by(26).filter_map(|l| Some(l.rsplit('\t').next()?.into())));
    }
    all
}

/// Rule files: a small one, and the tests of the corpus.
pub fn rule_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all = texts(&[
        "- required_engine_version: 0.57.0\n- list: shells\n  items: [sh, bash]\n- macro: shell\n  condition: \
         proc.name in (shells)\n- rule: a\n  desc: d\n  condition: evt.type = execve and shell\n  output: x \
         %proc.name\n  priority: INFO\n  tags: [t]\n  exceptions:\n    - name: e\n      fields: [proc.name, \
         fd.name]\n      comps: [startswith oneof, =]\n      values:\n        - [[a, b], /x]\n- rule: a\n  \
         condition: and fd.num > 2\n  override:\n    condition: append\n",
    ]);
    all.extend(small_files(seeds, "falco-testing/rules"));
    all
}

/// The files of a folder of the corpus that are small enough for an input, in the order of their names.
fn small_files(seeds: &Seeds, folder: &str) -> Vec<Vec<u8>> {
    let folder = seeds.corpus.as_deref().map(|corpus| corpus.join(folder));
    let files = folder.as_deref().map(Path::read_dir).and_then(Result::ok);
    let mut paths: Vec<_> = files.into_iter().flatten().flatten().map(|file| file.path()).collect();
    paths.sort();
    let texts = paths.iter().filter_map(|path| std::fs::read(path).ok());
    texts.filter(|text| text.len() < 1 << 13).collect()
}

/// Output formats.
pub fn format_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    texts(&[
        "file=%fd.name 100%% %10proc.name",
        "%tolower(proc.name) %proc.aname[2]%evt.arg.flags",
        "%x",
    ])
}

/// Configurations and options, and those of the corpus.
pub fn configuration_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all = texts(&[
        "rules[].disable.rule=*\nengine.kind=replay\nappend_output[0].extra_fields[0]=x\na\\.b[2]=[1,2]\n",
        "rules_files: [a]\nmetrics:\n  enabled: true\n  interval: 2s\nsyscall_event_drops:\n  actions: [log]\n",
    ]);
    all.extend(small_files(seeds, "falco-testing/configs"));
    all
}
