//! A model's targets and classes, and which of them a tree adds to.

use super::super::budget::Budget;
use super::super::error::at;
use super::super::{ErrorKind, ImportError, Location};

/// A model's outputs: the classes of the first target, then those of the second, and so on. Each target has
/// as many outputs as the target with the most classes, so a target with fewer classes is padded.
#[derive(Clone, Debug)]
pub(super) struct Outputs {
    classes: Vec<usize>,
    most: usize,
    fewest: usize,
    /// The numbers of targets and of classes that a leaf has values for.
    leaf: [usize; 2],
    count: u32,
}

/// The outputs that a tree adds to: one target or all, and one class or all. `None` stands for all of
/// several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeOutputs {
    target: Option<usize>,
    class: Option<usize>,
}

impl Outputs {
    /// Builds the outputs from the number of classes of each target and the shape of a leaf.
    pub(super) fn new(
        classes: impl Iterator<Item = i32>,
        leaf: [i32; 2],
        budget: &Budget<'_>,
    ) -> Result<Self, ImportError> {
        let positive = |(t, classes): (usize, i32)| match usize::try_from(classes) {
            Ok(classes) if classes > 0 => Ok(classes),
            _ => Err(at(ErrorKind::Value, format!("num_class[{t}]"), format!("{classes} classes"))),
        };
        let classes = classes.enumerate().map(positive).collect::<Result<Vec<_>, _>>()?;
        let most = classes.iter().copied().max().unwrap_or(0);
        let fewest = classes.iter().copied().min().unwrap_or(0);
        let location = || Location::Field("num_class".into());
        let count = classes.len().saturating_mul(most);
        budget.outputs(count, location)?;
        let Ok(count) = u32::try_from(count) else {
            return Err(ImportError::limit(location(), format!("{count} outputs"), "outputs"));
        };
        let shape = leaf.map(|n| usize::try_from(n).unwrap_or(0));
        let fits = |n: usize, all: usize| n == 1 || n == all;
        if !fits(shape[0], classes.len()) || !fits(shape[1], most) {
            let cause = format!(
                "leaves of {} x {} values, but 1 or {} targets and 1 or {most} classes are possible",
                leaf[0],
                leaf[1],
                classes.len()
            );
            return Err(at(ErrorKind::Structure, "leaf_vector_shape", cause));
        }
        Ok(Self { most, fewest, leaf: shape, count, classes })
    }

    /// Returns the number of targets.
    pub(super) fn targets(&self) -> usize {
        self.classes.len()
    }

    /// Returns the number of classes of the target that has the most.
    pub(super) fn classes(&self) -> usize {
        self.most
    }

    /// Returns whether all targets have the same number of classes.
    pub(super) fn even(&self) -> bool {
        self.most == self.fewest
    }

    /// Returns the number of outputs, including padding.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number of values in a leaf.
    pub(super) fn leaf_width(&self) -> usize {
        self.leaf[0] * self.leaf[1]
    }

    /// Returns whether an output is a class of its target, and not padding.
    pub(super) fn is_class(&self, output: usize) -> bool {
        self.classes.get(output / self.most).is_some_and(|classes| output % self.most < *classes)
    }

    /// Returns the outputs that tree `t` adds to. A target or class of -1 stands for all.
    pub(super) fn reach(&self, t: usize, target: i32, class: i32) -> Result<TreeOutputs, ImportError> {
        let one = |field: &str, value: i32, of: usize| match usize::try_from(value) {
            Ok(value) if value < of => Ok(Some(value)),
            _ if value == -1 => Ok(if of == 1 { Some(0) } else { None }),
            _ => Err(at(
                ErrorKind::Value,
                format!("{field}[{t}]"),
                format!("{value}, but -1 or a number below {of} is expected"),
            )),
        };
        let target = one("target_id", target, self.targets())?;
        let class = match (class, target) {
            // A class of -1 means all classes, even if this target has only one.
            (-1, _) => one("class_id", -1, self.most)?,
            (_, Some(target)) => one("class_id", class, self.classes[target])?,
            (_, None) => one("class_id", class, self.fewest)?,
        };
        let leaf =
            [if target.is_none() { self.targets() } else { 1 }, if class.is_none() { self.most } else { 1 }];
        if leaf != self.leaf {
            let cause = format!(
                "a tree of {} targets and {} classes, but leaves have {} x {} values",
                leaf[0], leaf[1], self.leaf[0], self.leaf[1]
            );
            return Err(at(ErrorKind::Structure, format!("class_id[{t}]"), cause));
        }
        Ok(TreeOutputs { target, class })
    }

    /// Returns the output that each value of a leaf is added to, or `None` for padding.
    pub(super) fn of_leaf(&self, reach: TreeOutputs) -> impl Iterator<Item = Option<usize>> {
        let [_, classes] = self.leaf;
        (0..self.leaf_width()).map(move |i| {
            let target = reach.target.unwrap_or(i / classes);
            let output = target * self.most + reach.class.unwrap_or(i % classes);
            self.is_class(output).then_some(output)
        })
    }
}

/// The number of trees that add to each output. Counting them takes a constant time for each tree, however
/// many outputs it adds to.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    everywhere: usize,
    targets: Vec<usize>,
    classes: Vec<usize>,
    single: Vec<usize>,
}

impl Counts {
    pub(super) fn new(outputs: &Outputs, reaches: &[TreeOutputs]) -> Self {
        let mut counts = Self {
            everywhere: 0,
            targets: vec![0; outputs.targets()],
            classes: vec![0; outputs.classes()],
            single: vec![0; outputs.count() as usize],
        };
        for reach in reaches {
            match (reach.target, reach.class) {
                (None, None) => counts.everywhere += 1,
                (Some(target), None) => counts.targets[target] += 1,
                (None, Some(class)) => counts.classes[class] += 1,
                (Some(target), Some(class)) => counts.single[target * outputs.classes() + class] += 1,
            }
        }
        counts
    }

    /// Returns the number of trees that add to an output.
    pub(super) fn of(&self, output: usize) -> usize {
        let (target, class) = (output / self.classes.len(), output % self.classes.len());
        self.everywhere + self.targets[target] + self.classes[class] + self.single[output]
    }
}
