//! What a signature does when it matches.

pub use crate::post::{
    BitCommand, ConfigAction, ConfigKind, ConfigScope, ConfigSubsystem, FilestoreDirection,
    FilestoreScope, FlowintCommand, PostMatch, Reference, Suppression, Tag, TagMetric, TagScope,
    Target, Threshold, ThresholdKind, ThresholdTrack,
};
