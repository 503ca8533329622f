//! Output formats over made events: what is absent, widths, transformers, limits.

mod made;

use gabion_condition::format::Format;
use gabion_condition::limits::{OUTPUT_VALUE_BYTES_MAX, reached};
use gabion_condition::rules::{Loader, Settings, explain_rule};
use gabion_record::fields::Scratch;
use gabion_record::syscall::AlertValue;
use made::{Made, MadeEvent};

fn text(template: &str, event: &MadeEvent) -> String {
    let mut out = Vec::new();
    Format::new(template).unwrap().write(event, &mut Scratch::new(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn fields_are_written_where_the_template_names_them() {
    let event = MadeEvent::new(&[
        ("proc.name", Made::Text("Cat")),
        ("fd.num", Made::Signed(-1)),
        ("evt.arg.flags", Made::Text("O_RDONLY")),
        ("proc.aname[2]", Made::Text("init")),
    ]);
    assert_eq!(text("100%% of %proc.name, %fd.num.", &event), "100% of Cat, -1.");
    assert_eq!(text("[%6proc.name|%2proc.name]", &event), "[Cat   |Ca]");
    assert_eq!(
        text("%tolower(proc.name) %evt.arg.flags %proc.aname[2]", &event),
        "cat O_RDONLY init"
    );
    assert_eq!(text("%proc.pname %container.info%user.name", &event), "<NA> <NA>");
    for wrong in ["%not_a_real_field", "%proc.nobody", "%fd.ip", "% x"] {
        assert!(Format::new(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn fields_of_json_keep_their_types() {
    let event = MadeEvent::new(&[
        ("proc.name", Made::Text("cat")),
        ("fd.num", Made::Signed(-1)),
        ("evt.is_open_read", Made::Bool(true)),
    ]);
    let format =
        Format::new("%proc.name %fd.num %evt.is_open_read %evt.time %proc.tty %fd.num").unwrap();
    let mut fields = Vec::new();
    format.values(&event, &mut Scratch::new(), &mut fields);
    let values: Vec<_> = fields.into_iter().map(|field| (field.name, field.value)).collect();
    let expected = [
        ("proc.name", AlertValue::Text(b"cat".to_vec())),
        ("fd.num", AlertValue::Signed(-1)),
        ("evt.is_open_read", AlertValue::Bool(true)),
        ("evt.time", AlertValue::Unsigned(1_470_327_477_881_785_348)),
        ("proc.tty", AlertValue::Absent),
    ];
    assert_eq!(values, expected.map(|(name, value)| (name.to_string(), value)));
}

#[test]
fn a_value_is_cut_at_its_limit() {
    let long: &'static str = Box::leak("x".repeat(OUTPUT_VALUE_BYTES_MAX + 10).into_boxed_str());
    let event = MadeEvent::new(&[("proc.cmdline", Made::Text(long))]);
    assert_eq!(text("%proc.cmdline", &event).len(), OUTPUT_VALUE_BYTES_MAX);
    assert_eq!(reached::OUTPUT_VALUE_BYTES_MAX.full_name(), "condition.output_value_bytes_max");
    assert_eq!(
        gabion_record::limits::take_reached().times_reached(&reached::OUTPUT_VALUE_BYTES_MAX),
        1
    );
}

#[test]
fn an_explanation_has_each_comparison_with_its_value() {
    let file = "\
- macro: shell
  condition: proc.name in (bash, sh)
- rule: r
  desc: d
  condition: evt.type = openat and shell and not fd.name = /etc/passwd and proc.pname != x
  output: o
  priority: INFO
";
    let mut loader = Loader::new(Settings::default());
    assert!(loader.load("a.yaml", file).is_successful());
    let event = MadeEvent::new(&[
        ("evt.type", Made::Text("openat")),
        ("proc.name", Made::Text("bash")),
        ("fd.name", Made::Text("/etc/passwd")),
    ]);
    let text = explain_rule(loader.rules(), "r", &event).unwrap();
    assert_eq!(
        text,
        "false and\n\
         true    evt.type = openat    [openat]\n\
         true    macro shell\n\
         true      proc.name in (bash, sh)    [bash]\n\
         false   not\n\
         true      fd.name = /etc/passwd    [/etc/passwd]\n\
         false   proc.pname != x    [absent: not-applicable]\n"
    );
    assert_eq!(explain_rule(loader.rules(), "none", &event), None);
}
