//! A second opinion: random conditions are evaluated by walking their tree, without a program, shared parts or sets, and
//! must give the same answer as the compiled ones.

mod made;

use gabion_condition::compile::{Builder, Evaluator, resolve_field};
use gabion_condition::lang::{self, Expr, Op, Operand, Quantifier, Right};
use gabion_record::fields::{Fields, Scratch, Value};
use made::{Made, MadeEvent};
use proptest::prelude::*;

const TEXTS: [&str; 8] = ["cat", "bash", "sh", "", "/etc/passwd", "/etc", "-c id", "SSHD"];

fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&TEXTS[..])
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn check() -> impl Strategy<Value = String> {
    let field =
        prop::sample::select(vec!["proc.name", "fd.name", "proc.pname", "proc.aname", "proc.args"]);
    let op = prop::sample::select(vec![
        "=",
        "!=",
        "contains",
        "icontains",
        "startswith",
        "endswith",
        "glob",
        "<",
    ]);
    let list_op = prop::sample::select(vec![
        "in",
        "intersects",
        "pmatch",
        "contains oneof",
        "startswith allof",
    ]);
    let list = prop::collection::vec(value(), 0..7);
    let texts = (field.clone(), op, value()).prop_filter_map("numbers", |(field, op, value)| {
        (op != "<").then(|| format!("{field} {op} {}", quoted(value)))
    });
    let lists = (field.clone(), list_op, list).prop_map(|(field, op, list)| {
        let list: Vec<String> = list.into_iter().map(quoted).collect();
        format!("{field} {op} ({})", list.join(", "))
    });
    let number_field = prop::sample::select(vec!["fd.num", "proc.pid", "fd.port", "proc.tty"]);
    let number_op = prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let numbers =
        (number_field, number_op, 0..4u16).prop_map(|(field, op, n)| format!("{field} {op} {n}"));
    let exists = field.prop_map(|field| format!("{field} exists"));
    let types = prop::sample::select(vec![
        "evt.type = openat",
        "evt.type in (open, close)",
        "evt.type != close",
    ]);
    prop_oneof![4 => texts, 4 => lists, 3 => numbers, 1 => exists, 1 => types.prop_map(str::to_string)]
}

fn condition() -> impl Strategy<Value = String> {
    check().prop_recursive(5, 60, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..5)
                .prop_map(|parts| format!("({})", parts.join(" and "))),
            prop::collection::vec(inner.clone(), 2..5)
                .prop_map(|parts| format!("({})", parts.join(" or "))),
            inner.prop_map(|part| format!("not {part}")),
        ]
    })
}

fn event() -> impl Strategy<Value = MadeEvent> {
    let text = || prop::option::of(value().prop_map(Made::Text));
    let number = || prop::option::of((0..4i64).prop_map(Made::Signed));
    let list = prop::option::of(prop::collection::vec(value(), 0..4).prop_map(Made::List));
    let ports = prop::option::of((0..4u16, 0..4u16).prop_map(|(a, b)| Made::Ports(a, b)));
    let types = prop::sample::select(vec![(307u16, "openat"), (3, "open"), (5, "close")]);
    (text(), text(), text(), text(), list, (number(), number(), ports), types).prop_map(
        |(name, path, parent, args, names, (num, pid, ports), (number, event_type))| {
            let all = [
                ("proc.name", name),
                ("fd.name", path),
                ("proc.pname", parent),
                ("proc.args", args),
                ("proc.aname", names),
                ("fd.num", num),
                ("proc.pid", pid),
                ("fd.port", ports),
                ("evt.type", Some(Made::Text(event_type))),
            ];
            let values: Vec<(&str, Made)> =
                all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            MadeEvent { event_type: number, ..MadeEvent::new(&values) }
        },
    )
}

/// Walks the tree.
fn naive(expr: &Expr, event: &MadeEvent) -> bool {
    match expr {
        Expr::And(parts) => parts.iter().all(|part| naive(part, event)),
        Expr::Or(parts) => parts.iter().any(|part| naive(part, event)),
        Expr::Not(inner) => !naive(inner, event),
        Expr::Exists(operand, _) => !values(operand, event).is_empty(),
        Expr::Compare { left, op, quantifier, right, .. } => {
            let values = values(left, event);
            let right = match right {
                Right::Text(text) => std::slice::from_ref(text),
                Right::List(texts) => texts,
                Right::Operand(_) => panic!("conditions of this test compare with values"),
            };
            let holds = |value: &String| match quantifier {
                Some(Quantifier::AllOf) => {
                    !right.is_empty() && right.iter().all(|r| compare(value, *op, r))
                }
                Some(Quantifier::OneOf) => {
                    right.iter().filter(|r| compare(value, *op, r)).count() == 1
                }
                _ => right.iter().any(|r| compare(value, *op, r)),
            };
            let is_ports = matches!(left, Operand::Field(field, _) if field.name == "fd.port");
            if is_ports && *op == Op::NotEqual {
                !values.is_empty() && values.iter().all(holds)
            } else {
                values.iter().any(holds)
            }
        }
        Expr::Macro(..) | Expr::Expanded(..) => panic!("conditions of this test have no macros"),
    }
}

fn values(operand: &Operand, event: &MadeEvent) -> Vec<String> {
    let Operand::Field(field, _) = operand else {
        panic!("conditions of this test have fields only")
    };
    let (id, argument) = resolve_field(field).unwrap();
    let mut scratch = Scratch::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    match event.field(id, argument.borrow(), &mut scratch) {
        Ok(Value::Text(bytes)) => vec![text(bytes)],
        Ok(Value::List(list)) => list.iter().map(text).collect(),
        Ok(Value::Signed(n)) => vec![n.to_string()],
        Ok(Value::EitherPort(a, b)) => vec![a.to_string(), b.to_string()],
        Ok(other) => panic!("{other:?}"),
        Err(_) => Vec::new(),
    }
}

fn compare(left: &str, op: Op, right: &str) -> bool {
    let number = |text: &str| text.parse::<i64>().unwrap();
    match op {
        Op::Equal | Op::In | Op::Intersects => left == right,
        Op::NotEqual => left != right,
        Op::Contains => left.contains(right),
        Op::ContainsAnyCase => left.to_lowercase().contains(&right.to_lowercase()),
        Op::StartsWith => left.starts_with(right),
        Op::EndsWith => left.ends_with(right),
        // The patterns of this test have no special characters.
        Op::Glob => left == right,
        Op::Less => number(left) < number(right),
        Op::LessEqual => number(left) <= number(right),
        Op::Greater => number(left) > number(right),
        Op::GreaterEqual => number(left) >= number(right),
        Op::PathMatch => {
            let parts = |path: &str| -> Vec<String> {
                path.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect()
            };
            parts(left).starts_with(&parts(right))
        }
        other => panic!("conditions of this test do not have {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn compiled_conditions_answer_as_a_walk_over_their_trees(
        conditions in prop::collection::vec(condition(), 1..4),
        events in prop::collection::vec(event(), 1..6),
    ) {
        let trees: Vec<Expr> = conditions.iter().map(|text| lang::parse(text).unwrap()).collect();
        let mut builder = Builder::new();
        let nodes: Vec<_> = trees.iter().map(|tree| builder.add(tree).unwrap()).collect();
        let types: Vec<_> = nodes.iter().map(|node| builder.types(*node)).collect();
        let program = builder.finish();
        let mut evaluator = Evaluator::new(&program);
        for event in &events {
            evaluator.begin_event();
            for ((tree, node), types) in trees.iter().zip(&nodes).zip(&types) {
                let expected = naive(tree, event);
                prop_assert_eq!(evaluator.holds(&program, *node, event), expected, "{:?} on {:?}", tree, event);
                // A condition that holds for an event names the event's type.
                prop_assert!(!expected || types.contains(event.event_type));
            }
        }
    }

    #[test]
    fn the_text_of_a_condition_parses_to_the_same_condition(text in condition()) {
        // Empty values are shown as nothing, as Falco does.
        prop_assume!(!text.contains("\"\""));
        let tree = lang::parse(&text).unwrap();
        let shown = lang::text_of(&tree, usize::MAX).unwrap();
        let again = lang::parse(&shown).unwrap();
        prop_assert_eq!(lang::text_of(&again, usize::MAX).unwrap(), shown);
    }
}

/// Equal parts of rules are compared once for an event.
#[test]
fn shared_parts_are_evaluated_once() {
    let event =
        MadeEvent::new(&[("proc.name", Made::Text("cat")), ("fd.name", Made::Text("/etc"))]);
    let mut builder = Builder::new();
    let conditions = ["proc.name = cat and fd.name = /tmp", "fd.name = /tmp or proc.name = cat"];
    let nodes = conditions.map(|text| builder.add(&lang::parse(text).unwrap()).unwrap());
    let program = builder.finish();
    let mut evaluator = Evaluator::new(&program);
    evaluator.begin_event();
    assert_eq!(nodes.map(|node| evaluator.holds(&program, node, &event)), [false, true]);
    assert_eq!(evaluator.comparisons(), 2);
}
