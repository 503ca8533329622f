//! The tree of a condition, as the parser returns it: names and values are still text.

use std::sync::Arc;

/// A place in the text of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// Bytes before it.
    pub index: u32,
    /// Its line, from 1.
    pub line: u32,
    /// Its column in bytes, from 1.
    pub column: u32,
}

/// A condition or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// All must hold; at least two.
    And(Vec<Expr>),
    /// One must hold; at least two.
    Or(Vec<Expr>),
    /// It must not hold.
    Not(Box<Expr>),
    /// The operand has a value.
    Exists(Operand, Position),
    /// A comparison.
    Compare {
        /// What is compared.
        left: Operand,
        /// How.
        op: Op,
        /// How many of the values on the right must match, where the rule says so.
        quantifier: Option<Quantifier>,
        /// With what.
        right: Right,
        /// Where the comparison begins.
        position: Position,
        /// Where its right side begins.
        right_position: Position,
    },
    /// The name of a macro.
    Macro(String, Position),
    /// What a macro stands for.
    Expanded(String, Arc<Expr>),
}

/// A field, as a rule writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRef {
    /// The name with everything before the brackets: `evt.arg.flags`, `proc.aname`.
    pub name: String,
    /// What the brackets hold.
    pub argument: Option<String>,
    /// Whether the argument was in quotes.
    pub is_quoted: bool,
}

/// What is compared: a field, or something made of fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A field.
    Field(FieldRef, Position),
    /// A transformer with its arguments.
    Apply(Transformer, Vec<Argument>, Position),
}

impl Operand {
    /// Where it begins.
    pub fn position(&self) -> Position {
        match self {
            Operand::Field(_, position) | Operand::Apply(_, _, position) => *position,
        }
    }
}

/// An argument of a transformer.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A field or another transformer.
    Operand(Operand),
    /// Text.
    Text(String),
    /// Several in parentheses.
    List(Vec<Argument>),
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Right {
    /// One value.
    Text(String),
    /// Several values in parentheses.
    List(Vec<String>),
    /// A field (written as `val(field)`) or a transformer.
    Operand(Operand),
}

/// Declares an enum of words of the language with its table.
macro_rules! words {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$inner])* $variant,)+ }

        impl $name {
            /// All of them, in the order in which messages list them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// How rules write it.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// The one of this word.
            pub fn by_word(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

words! {
    /// How two values are compared.
    Op {
        /// At most.
        LessEqual = "<=",
        /// Less.
        Less = "<",
        /// At least.
        GreaterEqual = ">=",
        /// More.
        Greater = ">",
        /// Equal, in its other spelling.
        EqualEqual = "==",
        /// Equal.
        Equal = "=",
        /// Not equal.
        NotEqual = "!=",
        /// A file name pattern.
        Glob = "glob",
        /// The same without regard to case.
        GlobAnyCase = "iglob",
        /// The value on the right is a part.
        Contains = "contains",
        /// The same without regard to case.
        ContainsAnyCase = "icontains",
        /// The same with the value in hexadecimal digits.
        ContainsBytes = "bcontains",
        /// It begins with the value on the right.
        StartsWith = "startswith",
        /// The same with the value in hexadecimal digits.
        StartsWithBytes = "bstartswith",
        /// It ends with the value on the right.
        EndsWith = "endswith",
        /// A regular expression that must match as a whole.
        Regex = "regex",
        /// The lists have a value in common.
        Intersects = "intersects",
        /// It is one of the list.
        In = "in",
        /// It is below one of the paths of the list.
        PathMatch = "pmatch",
    }
}

impl Op {
    /// Whether the right side is a list.
    pub const fn takes_list(self) -> bool {
        matches!(self, Op::Intersects | Op::In | Op::PathMatch)
    }

    /// Whether the right side is a number.
    pub const fn takes_number(self) -> bool {
        matches!(self, Op::LessEqual | Op::Less | Op::GreaterEqual | Op::Greater)
    }

    /// Whether the right side is one text, so that a quantifier may follow.
    pub const fn takes_text(self) -> bool {
        !self.takes_list() && !self.takes_number()
    }
}

words! {
    /// How many of the values of a list a string operator must match.
    Quantifier {
        /// One.
        OneOf = "oneof",
        /// One, in its other spelling.
        AnyOf = "anyof",
        /// All.
        AllOf = "allof",
    }
}

words! {
    /// A function over values.
    Transformer {
        /// The value itself; marks a field on the right side.
        Val = "val",
        /// Small letters.
        ToLower = "tolower",
        /// Capital letters.
        ToUpper = "toupper",
        /// What base64 text stands for.
        Base64 = "b64",
        /// The last component of a path.
        BaseName = "basename",
        /// The number of bytes, or of values in a list.
        Length = "len",
        /// The values of a list with a separator between them.
        Join = "join",
        /// Values one after the other.
        Concat = "concat",
        /// The values that options of a command line have.
        GetOption = "getopt",
    }
}
