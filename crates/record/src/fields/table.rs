//! The table of all fields: name, type, flags, class and description, read once from `fields.tsv`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The position of a field in the table. [`super::ids`] has a constant for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId(pub(super) u16);

impl FieldId {
    /// The field of this name, without argument.
    pub fn by_name(name: &str) -> Option<FieldId> {
        TABLE.by_name.get(name).copied()
    }

    /// The row of the table.
    pub fn field(self) -> &'static Field {
        &TABLE.rows[self.0 as usize]
    }

    /// The position as an index, below the number of rows.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The name of the field.
    pub fn name(self) -> &'static str {
        super::ids::NAMES[self.0 as usize]
    }
}

/// The type of a field's value, which decides how rules write values to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Text.
    Text,
    /// A buffer of data.
    Bytes,
    /// A number with sign of 16, 32 or 64 bits.
    Signed(u8),
    /// A number without sign of 32 or 64 bits.
    Unsigned(u8),
    /// A floating-point number.
    Float,
    /// Yes or no.
    Bool,
    /// An address.
    Ip,
    /// An address that rules compare with a network.
    Net,
    /// A port.
    Port,
    /// A point in time, in nanoseconds.
    Time,
    /// A span of time, in nanoseconds.
    Duration,
    /// The type depends on the argument: `evt.rawarg`.
    Dynamic,
}

impl Kind {
    fn parse(word: &str) -> Option<Kind> {
        Some(match word {
            "charbuf" | "string" => Kind::Text,
            "bytebuf" => Kind::Bytes,
            "int16" => Kind::Signed(16),
            "int32" => Kind::Signed(32),
            "int64" => Kind::Signed(64),
            "uint32" => Kind::Unsigned(32),
            "uint64" => Kind::Unsigned(64),
            "double" => Kind::Float,
            "bool" => Kind::Bool,
            "ipaddr" => Kind::Ip,
            "ipnet" => Kind::Net,
            "port" => Kind::Port,
            "abstime" => Kind::Time,
            "reltime" => Kind::Duration,
            "dyn" => Kind::Dynamic,
            _ => return None,
        })
    }

    /// The type's name in messages and lists of fields, as Falco prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Text => "CHARBUF",
            Kind::Bytes => "BYTEBUF",
            Kind::Signed(16) => "INT16",
            Kind::Signed(32) => "INT32",
            Kind::Signed(_) => "INT64",
            Kind::Unsigned(32) => "UINT32",
            Kind::Unsigned(_) => "UINT64",
            Kind::Float => "DOUBLE",
            Kind::Bool => "BOOL",
            Kind::Ip => "IPADDR",
            Kind::Net => "IPNET",
            Kind::Port => "PORT",
            Kind::Time => "ABSTIME",
            Kind::Duration => "RELTIME",
            Kind::Dynamic => "DYN",
        }
    }
}

/// What a field allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Rules can't be written with it; it is printed only.
    pub print_only: bool,
    /// Rules may name it, outputs may not.
    pub filter_only: bool,
    /// Falco has it in tables only: it has no value for rules.
    pub table_only: bool,
    /// Falco warns about it.
    pub deprecated: bool,
    /// It can't be on the right of a comparison.
    pub no_right_hand: bool,
    /// Transformers can't be applied to it.
    pub no_transformer: bool,
    /// It takes an argument.
    pub argument_allowed: bool,
    /// It needs an argument.
    pub argument_required: bool,
    /// The argument may be a number (with `argument_key` unset: only a number).
    pub argument_index: bool,
    /// The argument may be a name.
    pub argument_key: bool,
    /// It has several values.
    pub list: bool,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, such as `proc.name`.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// The type's word in the table: `charbuf` and `string` differ here only.
    pub kind_word: &'static str,
    /// What it allows.
    pub flags: Flags,
    /// The group it is listed under: `evt`, `process`, `fd`, `container`.
    pub class: &'static str,
    /// One or two sentences on what it holds.
    pub description: &'static str,
}

impl Field {
    /// All fields in order; a field's position is its [`FieldId`].
    pub fn all() -> impl Iterator<Item = (FieldId, &'static Field)> {
        TABLE.rows.iter().enumerate().map(|(i, row)| (FieldId(i as u16), row))
    }
}

struct Table {
    rows: Vec<Field>,
    by_name: HashMap<&'static str, FieldId>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let rows: Vec<Field> = include_str!("fields.tsv").lines().skip(1).map(parse_row).collect();
    let by_name = rows.iter().enumerate().map(|(i, row)| (row.name, FieldId(i as u16))).collect();
    Table { rows, by_name }
});

fn parse_row(line: &'static str) -> Field {
    let mut columns = line.split('\t');
    let mut next = || columns.next().expect("fields.tsv has five columns");
    let (name, kind, flags, class, description) = (next(), next(), next(), next(), next());
    let mut row = Field {
        name,
        kind: Kind::parse(kind).expect("fields.tsv has known types"),
        kind_word: kind,
        flags: Flags::default(),
        class,
        description,
    };
    for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
        let flags = &mut row.flags;
        match flag {
            "print_only" => flags.print_only = true,
            "filter_only" => flags.filter_only = true,
            "table_only" => flags.table_only = true,
            "deprecated" => flags.deprecated = true,
            "no_rhs" => flags.no_right_hand = true,
            "no_transformer" => flags.no_transformer = true,
            "arg_allowed" => flags.argument_allowed = true,
            "arg_required" | "required" => {
                (flags.argument_allowed, flags.argument_required) = (true, true)
            }
            "index" => flags.argument_index = true,
            "key" => flags.argument_key = true,
            "is_list" => flags.list = true,
            // It says how long Falco's pointers to the value stay valid.
            "no_ptr_stability" => {}
            other => panic!("fields.tsv has an unknown flag: {other}"),
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::super::ids;
    use super::*;

    #[test]
    fn the_constants_have_the_order_of_the_table() {
        let names: Vec<&str> = Field::all().map(|(_, field)| field.name).collect();
        assert_eq!(names, ids::NAMES);
        assert_eq!(ids::PROC_NAME.name(), "proc.name");
        assert_eq!(FieldId::by_name("proc.name"), Some(ids::PROC_NAME));
        assert_eq!(FieldId::by_name("proc.nosuch"), None);
    }

    /// The count is that of Falco's libs at schema 4.5.1 with the plugin `container` 0.7.1.
    #[test]
    fn all_of_falcos_fields_are_listed() {
        assert_eq!(Field::all().filter(|(_, field)| field.class != "gabion").count(), 293);
        let aname = ids::PROC_ANAME.field();
        assert!(
            aname.flags.argument_allowed
                && !aname.flags.argument_required
                && aname.flags.no_right_hand
        );
        assert_eq!(ids::PROC_DURATION.field().kind, Kind::Duration);
        assert_eq!(ids::PROC_PID.field().kind.name(), "INT64");
    }
}
