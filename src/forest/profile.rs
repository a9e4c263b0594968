//! Profiles: how many rows reach each leaf, counted on rows that are similar to those to be predicted.

use serde::{Deserialize, Serialize};

use super::{Forest, Node, Predicate, Side};

/// How many rows have reached each leaf of a forest. Schedules that need leaf probabilities read it.
///
/// A profile is plain data that serde reads and writes. Its JSON form is the file that `fangorn profile`
/// writes:
///
/// ```json
/// {"fangorn_profile":1,"forest":"5d2c90a1","rows":200,"visits":[12,188,103,97]}
/// ```
///
/// `forest` is [`Forest::fingerprint`]. `visits` is indexed by leaf slot, and the visits of each tree add up
/// to `rows`.
///
/// ```
/// use fangorn::{Forest, forest::{CompareType, Profile, Side}};
///
/// let mut forest = Forest::builder(1, 1);
/// let mut tree = forest.tree(0);
/// tree.split(0, CompareType::F32.at_most(0.0), Side::Left, 1, 2);
/// tree.leaf(1, &[-1.0]);
/// tree.leaf(2, &[1.0]);
/// let forest = forest.build()?;
/// let mut profile = Profile::new(&forest);
/// profile.count(&forest, &[1, 1, 0])?; // the slots of three rows, one tree each
/// assert_eq!(profile.visits(), [1, 2]);
/// let text = serde_json::to_string(&profile)?;
/// assert_eq!(serde_json::from_str::<Profile>(&text)?.checked(&forest)?, profile);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The version of the file format.
    fangorn_profile: u32,
    forest: String,
    rows: u64,
    visits: Vec<u64>,
}

/// The version of the file format that this program writes and reads.
const VERSION: u32 = 1;

/// Why a profile can't be used with a forest, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The file has another version.
    #[error("profile: version {found}, this fangorn reads {VERSION}; make it again with fangorn profile")]
    Version {
        /// The file's version.
        found: u32,
    },
    /// The profile was counted on another forest.
    #[error(
        "profile: counted on a forest with the fingerprint {found}, this one has {expected}; make one of this forest with \
         fangorn profile"
    )]
    Forest {
        /// The fingerprint that the profile holds.
        found: String,
        /// The fingerprint of the forest.
        expected: String,
    },
    /// The forest has no trees, only a base score.
    #[error("profile: the forest has no trees, so there is no leaf to count; leave the profile out")]
    NoTrees,
    /// The counts are inconsistent: no set of rows can give them.
    #[error("profile: {0}; make it again with fangorn profile")]
    Counts(String),
}

impl Profile {
    /// Returns a profile that has counted no rows.
    pub fn new(forest: &Forest) -> Self {
        let visits = vec![0; forest.leaf_count()];
        Self { fangorn_profile: VERSION, forest: forest.fingerprint(), rows: 0, visits }
    }

    /// Returns a profile with the counts `visits`, by leaf slot. For a `.fangorn` file,
    /// [`Contents::profile`](crate::file::Contents) holds them.
    ///
    /// # Errors
    /// Refuses counts that no set of rows can give.
    pub fn of_visits(forest: &Forest, visits: Vec<u64>) -> Result<Self, ProfileError> {
        let slots = forest.trees.first().into_iter().flat_map(|t| t.nodes.iter().filter_map(Node::slot));
        let rows =
            slots.filter_map(|slot| visits.get(slot as usize)).fold(0u64, |all, n| all.saturating_add(*n));
        Self { rows, visits, ..Self::new(forest) }.checked(forest)
    }

    /// Counts rows. `slots` holds the leaf slots that the rows have reached, `rows x trees` values with the
    /// trees in the producer's order.
    ///
    /// # Errors
    /// Refuses a forest without trees, whose rows reach no leaf. Refuses `slots` whose length is no whole
    /// number of rows, and slots that the forest doesn't have.
    pub fn count(&mut self, forest: &Forest, slots: &[u32]) -> Result<(), ProfileError> {
        let trees = forest.trees.len();
        if trees == 0 {
            return Err(ProfileError::NoTrees);
        }
        if !slots.len().is_multiple_of(trees) {
            let what = format!("{} slots are no whole number of rows of {trees} trees", slots.len());
            return Err(ProfileError::Counts(what));
        }
        if let Some(slot) = slots.iter().find(|s| **s as usize >= self.visits.len()) {
            return Err(ProfileError::Counts(format!("slot {slot} of {}", self.visits.len())));
        }
        slots.iter().for_each(|slot| self.visits[*slot as usize] += 1);
        self.rows += (slots.len() / trees) as u64;
        Ok(())
    }

    /// Returns how many rows were counted.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns how many rows have reached each leaf, by leaf slot.
    pub fn visits(&self) -> &[u64] {
        &self.visits
    }

    /// Returns the profile if it is a profile of `forest`.
    ///
    /// # Errors
    /// Refuses a profile of another forest or of another version, and counts that no set of rows can give.
    pub fn checked(self, forest: &Forest) -> Result<Self, ProfileError> {
        self.check(forest).map(|()| self)
    }

    /// Checks that this is a profile of `forest`.
    ///
    /// # Errors
    /// Refuses what [`Profile::checked`] refuses.
    pub fn check(&self, forest: &Forest) -> Result<(), ProfileError> {
        if self.fangorn_profile != VERSION {
            return Err(ProfileError::Version { found: self.fangorn_profile });
        }
        let expected = forest.fingerprint();
        if self.forest != expected {
            // The fingerprint comes from a file and may be of any length, so the message shows at most 16
            // characters of it.
            let found = self.forest.chars().take(16).collect();
            return Err(ProfileError::Forest { found, expected });
        }
        if self.visits.len() != forest.leaf_count() {
            let what = format!("{} counts for {} leaves", self.visits.len(), forest.leaf_count());
            return Err(ProfileError::Counts(what));
        }
        for (t, tree) in forest.trees.iter().enumerate() {
            let slots = tree.nodes.iter().filter_map(|n| n.slot());
            let all = slots.map(|s| u128::from(self.visits[s as usize])).sum::<u128>();
            if all != u128::from(self.rows) {
                return Err(ProfileError::Counts(format!(
                    "tree {t} was visited {all} times by {} rows",
                    self.rows
                )));
            }
        }
        Ok(())
    }
}

impl Forest {
    /// Returns a fingerprint of everything that decides which leaf slot a row reaches: eight hexadecimal
    /// digits (CRC-32). Leaf values, names and the transform do not enter it.
    pub fn fingerprint(&self) -> String {
        let mut crc = crc32fast::Hasher::new();
        let mut add = |words: &[u64]| words.iter().for_each(|w| crc.update(&w.to_le_bytes()));
        let side = |side: Side| u64::from(side == Side::Right);
        let sizes = [self.features.len(), self.trees.len(), self.sets.len(), self.leaf_count()];
        add(&sizes.map(|n| n as u64));
        add(&[self.compare as u64]);
        for set in &self.sets {
            add(&[set.rule as u64, set.words.len() as u64]);
            set.words.iter().for_each(|word| add(&[u64::from(*word)]));
        }
        for tree in &self.trees {
            add(&[tree.nodes.len() as u64]);
            for node in &tree.nodes {
                match *node {
                    Node::Leaf { slot } => add(&[0, slot.into()]),
                    Node::Split { feature, predicate, missing, left, right } => {
                        let asked = match predicate {
                            Predicate::Less { threshold } => [1, threshold.0.to_bits()],
                            Predicate::LessZeroAside { threshold } => [2, threshold.0.to_bits()],
                            Predicate::Equal { value } => [3, value.0.to_bits()],
                            Predicate::InSet { set, inside } => [4 + side(inside), set.into()],
                            Predicate::Always => [6, 0],
                        };
                        add(&asked);
                        add(&[feature.into(), side(missing), left.into(), right.into()]);
                    }
                }
            }
        }
        format!("{:08x}", crc.finalize())
    }
}
