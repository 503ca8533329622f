//! The limits of the rule language, each with its reason.

use gabion_record::limits;

limits! { "condition";
    /// Bytes of one condition after lists are inserted. The longest shipped rule has 12.5 KiB.
    pub const CONDITION_BYTES_MAX: usize = 1 << 20,
        Refuses("the condition");

    /// Parentheses inside parentheses, and transformers inside transformers. Falco's bound.
    pub const NESTING_MAX: usize = 100,
        Refuses("the condition");

    /// Parts inside parts of a condition whose macros are expanded. Shipped rules have fewer than 20.
    pub const EXPANDED_DEPTH_MAX: usize = 400,
        Refuses("the condition");

    /// Different parts of all conditions together; equal parts count once. Hundreds of times what the shipped rules have.
    pub const PROGRAM_NODES_MAX: usize = 1 << 20,
        Refuses("the condition");

    /// Bytes of a compiled regular expression: RE2's own bound is of this size.
    pub const REGEX_BYTES_MAX: usize = 1 << 20,
        Refuses("the regular expression");

    /// Bytes of one rule file. The largest shipped one has 151 KiB.
    pub const RULE_FILE_BYTES_MAX: usize = 16 << 20,
        Refuses("the file");

    /// Nodes inside nodes of a rule file's YAML. Rules need 6.
    pub const YAML_DEPTH_MAX: usize = 64,
        Refuses("the file");

    /// Nodes of a rule file's YAML, those of repeated aliases included. The largest shipped file has 4,449.
    pub const YAML_NODES_MAX: usize = 1 << 20,
        Refuses("the file");

    /// Characters of a line that a message shows, as in Falco.
    pub const SNIPPET_CHARS_MAX: usize = 160,
        Spares("`...` stands for the rest of the line");

    /// Bytes of a condition's text with its macros expanded, as descriptions of rules show it.
    pub const EXPANDED_TEXT_BYTES_MAX: usize = 4 << 20,
        Spares("the description has the text as written");

    /// Width of a field in an output format, as in `%10proc.name`.
    pub const FORMAT_WIDTH_MAX: usize = 4096,
        Spares("the field has this width");

    /// Bytes of one field's value in the text of an alert: command lines have up to 1 MiB.
    pub const OUTPUT_VALUE_BYTES_MAX: usize = 64 << 10,
        Loses("the rest of a value in the text of an alert");

    /// Types of events that a rule may be tried on before a warning says that it costs much. Falco's bound.
    pub const TYPES_WITHOUT_WARNING: usize = 100,
        Spares("a warning");

    /// Lines of an explanation: more than any shipped rule has.
    pub const EXPLAINED_LINES_MAX: usize = 10_000,
        Spares("`…` stands for the rest");

    /// Characters of a comparison, and of a value, in a line of an explanation.
    pub const EXPLAINED_VALUE_CHARS_MAX: usize = 160,
        Spares("`…` stands for the rest");
}
