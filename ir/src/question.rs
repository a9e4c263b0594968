//! What a node can ask besides a threshold: the top bits of the first word of such a question.

/// A category set: a value below 0 is no category, any other is truncated. The low bits count the set's words.
pub const NOT_NEGATIVE: u32 = 0;
/// A category set: values are truncated first, so that -0.5 is category 0.
pub const TRUNCATED: u32 = 1 << 28;
/// A category set: only whole numbers are categories.
pub const WHOLE: u32 = 2 << 28;
/// Below a threshold, or else in the zone of zeros. The threshold follows.
pub const ZERO_ASIDE: u32 = 3 << 28;
/// Equal to a value, which follows.
pub const EQUAL: u32 = 4 << 28;
/// The bits that tell them apart.
pub const KIND: u32 = 15 << 28;

/// Values of at most this magnitude are zeros where [`ZERO_ASIDE`] puts zeros on the other side.
pub const ZERO_ZONE: f32 = 1e-35;
