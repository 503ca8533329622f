//! The limits of the rule language, each with its reason.

use gabion_record::limits;

limits! { "condition";
    /// Bytes of one condition after lists are inserted. The longest shipped rule has 12 KiB.
    pub const CONDITION_BYTES_MAX: usize = 1 << 20,
        Refuses("the condition");

    /// Parentheses inside parentheses, and transformers inside transformers. Falco's bound.
    pub const NESTING_MAX: usize = 100,
        Refuses("the condition");

    /// Parts inside parts of a condition whose macros are expanded. A shipped rule has 12.
    pub const EXPANDED_DEPTH_MAX: usize = 400,
        Refuses("the condition");

    /// Different parts of all conditions together; equal parts count once. The shipped rules have 2,000.
    pub const PROGRAM_NODES_MAX: usize = 1 << 20,
        Refuses("the condition");

    /// Bytes of a compiled regular expression: RE2's own bound is of this size.
    pub const REGEX_BYTES_MAX: usize = 1 << 20,
        Refuses("the regular expression");
}
