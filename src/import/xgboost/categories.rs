//! The category sets of splits, and the names of categories.

use super::super::budget::Budget;
use super::super::error::at;
use super::super::{ErrorKind, ImportError, Location};
use super::objective::Version;
use super::schema::{Categories, CategoryNames, Tree};
use crate::forest::{CategorySet, Coding, Feature, UnseenCategory};

/// Categories are below this number, where `f32` stops telling integers apart.
const LIMIT: u32 = 1 << 24;

/// A tree's category splits, in ascending order of their nodes.
pub(super) struct Splits<'t> {
    tree: &'t Tree,
    path: &'t str,
    next: usize,
}

impl<'t> Splits<'t> {
    /// Checks the lengths and the order of the tree's arrays of category splits.
    pub(super) fn new(tree: &'t Tree, path: &'t str) -> Result<Self, ImportError> {
        let splits = tree.categories_nodes.len();
        for (field, length) in [
            ("categories_segments", tree.categories_segments.len()),
            ("categories_sizes", tree.categories_sizes.len()),
        ] {
            if length != splits {
                let cause = format!("{length} entries for {splits} category splits");
                return Err(at(ErrorKind::Structure, format!("{path}.{field}"), cause));
            }
        }
        if let Some(i) = tree.categories_nodes.windows(2).position(|pair| pair[0] >= pair[1]) {
            let cause = "category splits must be in ascending order of their nodes";
            return Err(at(ErrorKind::Structure, format!("{path}.categories_nodes[{}]", i + 1), cause));
        }
        let nodes = tree.left_children.len();
        if let Some(last) = tree.categories_nodes.last().filter(|last| **last as usize >= nodes) {
            let cause = format!("node {last} of {nodes}");
            return Err(at(ErrorKind::Structure, format!("{path}.categories_nodes[{}]", splits - 1), cause));
        }
        Ok(Self { tree, path, next: 0 })
    }

    /// Returns the category set of a node. Callers must ask for nodes in ascending order.
    pub(super) fn set(&mut self, node: u32, budget: &mut Budget<'_>) -> Result<CategorySet, ImportError> {
        let nodes = &self.tree.categories_nodes;
        self.next += nodes[self.next..].iter().take_while(|n| **n < node).count();
        if nodes.get(self.next) != Some(&node) {
            let cause = "a split on categories, but `categories_nodes` does not list it";
            return Err(at(ErrorKind::Structure, format!("{}.split_type[{node}]", self.path), cause));
        }
        let categories = self.segment(self.next)?;
        let largest = categories.iter().copied().max().unwrap_or(0);
        let needed = largest as usize / 32 + 1;
        budget.category_words(needed, || Location::Field(format!("{}.categories", self.path)))?;
        let mut set = CategorySet { words: vec![0; needed], ..CategorySet::default() };
        for category in categories {
            set.words[*category as usize / 32] |= 1 << (category % 32);
        }
        Ok(set)
    }

    /// Returns the categories of the `i`th category split.
    fn segment(&self, i: usize) -> Result<&'t [u32], ImportError> {
        let all = &self.tree.categories;
        let (begin, size) = (self.tree.categories_segments[i], self.tree.categories_sizes[i]);
        let range = usize::try_from(begin)
            .ok()
            .zip(begin.checked_add(size).and_then(|end| usize::try_from(end).ok()));
        let Some(categories) = range.and_then(|(begin, end)| all.get(begin..end)) else {
            let cause = format!("categories {begin} and the next {size} of {}", all.len());
            return Err(at(ErrorKind::Structure, format!("{}.categories_segments[{i}]", self.path), cause));
        };
        if categories.is_empty() {
            let cause = "a split on categories needs at least one";
            return Err(at(ErrorKind::Structure, format!("{}.categories_sizes[{i}]", self.path), cause));
        }
        if let Some(c) = categories.iter().position(|category| *category >= LIMIT) {
            let cause = format!("category {} is not below 2^24", categories[c]);
            return Err(at(
                ErrorKind::Value,
                format!("{}.categories[{}]", self.path, begin as usize + c),
                cause,
            ));
        }
        Ok(categories)
    }
}

/// Gives features the names of their categories. The index of a name in its list is the category's code.
pub(super) fn name(
    features: &mut [Feature],
    cats: Categories,
    version: Version,
    path: &str,
) -> Result<(), ImportError> {
    if cats.enc.is_empty() {
        return Ok(());
    }
    if cats.enc.len() != features.len() {
        let cause = format!("{} entries for {} features", cats.enc.len(), features.len());
        return Err(at(ErrorKind::Structure, path, cause));
    }
    for (f, (feature, names)) in features.iter_mut().zip(cats.enc).enumerate() {
        let numbers = names.offsets.is_none();
        feature.categories = category_names(names, version, &format!("{path}[{f}]"))?;
        if !feature.categories.is_empty() {
            feature.coding = Coding::Indices { numbers, unseen: UnseenCategory::Refused, needed: false };
        }
    }
    Ok(())
}

fn category_names(names: CategoryNames, version: Version, path: &str) -> Result<Vec<String>, ImportError> {
    let Some(offsets) = names.offsets else {
        return Ok(names.values.iter().map(i64::to_string).collect());
    };
    // Before 3.4 XGBoost counts characters where it stores bytes. So a name that is not ASCII shifts the
    // boundaries of all later names, and truncates the list. A list without names
    // is better than a list with wrong ones.
    let bytes: Option<Vec<u8>> = names.values.iter().map(|v| byte(*v)).collect();
    let Some(bytes) = bytes.filter(|bytes| version >= (3, 4) || bytes.is_ascii()) else {
        return Ok(Vec::new());
    };
    let word = |(i, pair): (usize, &[u32])| {
        bytes.get(pair[0] as usize..pair[1] as usize).ok_or_else(|| {
            let cause = format!("a name from byte {} to byte {} of {}", pair[0], pair[1], bytes.len());
            at(ErrorKind::Structure, format!("{path}.offsets[{}]", i + 1), cause)
        })
    };
    let words: Vec<&[u8]> = offsets.windows(2).enumerate().map(word).collect::<Result<_, _>>()?;
    // If a name is not UTF-8, all names of the column are left out, because the index of a name is a code.
    let texts = words.into_iter().map(|word| std::str::from_utf8(word).ok().map(str::to_owned));
    Ok(texts.collect::<Option<_>>().unwrap_or_default())
}

/// Returns a byte of a name. In the file the byte may be a signed number.
fn byte(value: i64) -> Option<u8> {
    u8::try_from(value).ok().or_else(|| i8::try_from(value).ok().map(i8::cast_unsigned))
}
