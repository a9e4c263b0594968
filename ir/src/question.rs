//! Kinds of questions that a node can ask instead of comparing with a threshold. The top bits of a question's
//! first word hold its kind.

/// Asks for membership in a category set. A value below 0 is no category, any other value is truncated. The
/// low bits of the word are the number of the set's words, which follow.
pub const NOT_NEGATIVE: u32 = 0;
/// Asks for membership in a category set. Values are truncated first, so that -0.5 is category 0.
pub const TRUNCATED: u32 = 1 << 28;
/// Asks for membership in a category set. Only whole numbers are categories.
pub const WHOLE: u32 = 2 << 28;
/// Asks whether a value is below a threshold or in the zone of zeros, but not both. So values in the zone are
/// on the other side of the threshold. The threshold follows.
pub const ZERO_ASIDE: u32 = 3 << 28;
/// Asks whether a value equals a constant, which follows.
pub const EQUAL: u32 = 4 << 28;
/// The bits of the word that hold the kind.
pub const KIND: u32 = 15 << 28;

/// Largest magnitude of a value in the zone of zeros: see [`ZERO_ASIDE`].
pub const ZERO_ZONE: f32 = 1e-35;
