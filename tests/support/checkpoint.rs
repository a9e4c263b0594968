//! treelite checkpoints made by hand, field by field, so that a test can damage any one of them.

#![allow(dead_code)]

/// A node of a tree.
#[derive(Clone)]
pub enum Node {
    Leaf(f64),
    Vector(Vec<f64>),
    /// treelite's number of an operator, a column, a threshold, the default direction, two children.
    Test(u8, i32, f64, bool, i32, i32),
    /// A column, the default direction, categories, whether they go right, two children.
    In(i32, bool, Vec<u32>, bool, i32, i32),
}

/// A model in treelite's words.
#[derive(Clone)]
pub struct Model {
    /// Whether thresholds and leaves are `f64`.
    pub wide: bool,
    pub features: i32,
    pub task: u8,
    pub average: bool,
    pub classes: Vec<i32>,
    pub leaf: [i32; 2],
    /// Target and class of each tree.
    pub reach: Vec<(i32, i32)>,
    pub postprocessor: &'static str,
    pub sigmoid_alpha: f32,
    pub ratio_c: f32,
    pub base_scores: Vec<f64>,
    pub trees: Vec<Vec<Node>>,
}

impl Default for Model {
    /// A regressor of two trees: one asks for a number, the other for a category.
    fn default() -> Self {
        use Node::{In, Leaf, Test};
        let numbers = vec![Test(3, 0, 0.5, true, 1, 2), Leaf(0.25), Leaf(-1.5)];
        let categories = vec![In(2, false, vec![1, 3, 40], true, 1, 2), Leaf(2.0), Leaf(4.0)];
        Self {
            wide: false,
            features: 3,
            task: 1,
            average: false,
            classes: vec![1],
            leaf: [1, 1],
            reach: vec![(0, 0); 2],
            postprocessor: "identity",
            sigmoid_alpha: 1.0,
            ratio_c: 1.0,
            base_scores: vec![0.0],
            trees: vec![numbers, categories],
        }
    }
}

impl Model {
    /// The default model with these trees, all for the only output.
    pub fn of(trees: Vec<Vec<Node>>) -> Self {
        Self { reach: vec![(0, 0); trees.len()], trees, ..Self::default() }
    }

    pub fn bytes(&self) -> Vec<u8> {
        Checkpoint::of(self).bytes()
    }
}

/// The fields of a checkpoint, in their order.
#[derive(Clone)]
pub struct Checkpoint {
    fields: Vec<(String, Vec<u8>)>,
}

impl Checkpoint {
    pub fn of(model: &Model) -> Self {
        let kind = [2 + u8::from(model.wide)];
        let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
        let mut put = |name: &str, bytes: Vec<u8>| fields.push((name.to_owned(), bytes));
        for (name, number) in [("major_ver", 4i32), ("minor_ver", 8), ("patch_ver", 1)] {
            put(name, number.to_le_bytes().into());
        }
        put("threshold_type", kind.into());
        put("leaf_output_type", kind.into());
        put("num_tree", (model.trees.len() as u64).to_le_bytes().into());
        put("num_feature", model.features.to_le_bytes().into());
        put("task_type", vec![model.task]);
        put("average_tree_output", vec![u8::from(model.average)]);
        put("num_target", (model.classes.len() as i32).to_le_bytes().into());
        put("num_class", i32s(&model.classes));
        put("leaf_vector_shape", i32s(&model.leaf));
        let (targets, classes): (Vec<i32>, Vec<i32>) = model.reach.iter().copied().unzip();
        put("target_id", i32s(&targets));
        put("class_id", i32s(&classes));
        put("postprocessor", u8s(model.postprocessor.as_bytes()));
        put("sigmoid_alpha", model.sigmoid_alpha.to_le_bytes().into());
        put("ratio_c", model.ratio_c.to_le_bytes().into());
        put("base_scores", reals(&model.base_scores, true));
        put("attributes", u8s(b"{}"));
        put("num_opt_field_per_model", vec![0; 4]);
        for (t, nodes) in model.trees.iter().enumerate() {
            tree(nodes, model.wide, &mut |name, bytes| put(&format!("trees[{t}].{name}"), bytes));
        }
        Self { fields }
    }

    fn index(&self, field: &str) -> usize {
        self.fields.iter().position(|f| f.0 == field).unwrap_or_else(|| panic!("no field {field}"))
    }

    /// The same with other bytes in a field.
    #[must_use]
    pub fn with(mut self, field: &str, bytes: impl AsRef<[u8]>) -> Self {
        let index = self.index(field);
        self.fields[index].1 = bytes.as_ref().to_vec();
        self
    }

    /// The byte at which a field begins.
    pub fn begin(&self, field: &str) -> usize {
        self.fields[..self.index(field)].iter().map(|f| f.1.len()).sum()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.fields.iter().flat_map(|f| f.1.iter().copied()).collect()
    }
}

fn tree(nodes: &[Node], wide: bool, put: &mut dyn FnMut(&str, Vec<u8>)) {
    let each = |f: &dyn Fn(&Node) -> i32| nodes.iter().map(f).collect::<Vec<i32>>();
    let bytes = |f: &dyn Fn(&Node) -> u8| u8s(&nodes.iter().map(f).collect::<Vec<u8>>());
    let numbers = |f: &dyn Fn(&Node) -> f64| reals(&nodes.iter().map(f).collect::<Vec<f64>>(), wide);
    let among = nodes.iter().any(|n| matches!(n, Node::In(..)));
    put("num_nodes", (nodes.len() as i32).to_le_bytes().into());
    put("has_categorical_split", vec![u8::from(among)]);
    put(
        "node_type",
        bytes(&|n| match n {
            Node::Leaf(_) | Node::Vector(_) => 0,
            Node::Test(..) => 1,
            Node::In(..) => 2,
        }),
    );
    put(
        "cleft",
        i32s(&each(&|n| match n {
            Node::Test(_, _, _, _, left, _) | Node::In(_, _, _, _, left, _) => *left,
            _ => -1,
        })),
    );
    put(
        "cright",
        i32s(&each(&|n| match n {
            Node::Test(_, _, _, _, _, right) | Node::In(_, _, _, _, _, right) => *right,
            _ => -1,
        })),
    );
    put(
        "split_index",
        i32s(&each(&|n| match n {
            Node::Test(_, feature, ..) | Node::In(feature, ..) => *feature,
            _ => -1,
        })),
    );
    put(
        "default_left",
        bytes(&|n| match n {
            Node::Test(_, _, _, left, ..) | Node::In(_, left, ..) => u8::from(*left),
            _ => 0,
        }),
    );
    put("leaf_value", numbers(&|n| if let Node::Leaf(value) = n { *value } else { 0.0 }));
    put("threshold", numbers(&|n| if let Node::Test(_, _, t, ..) = n { *t } else { 0.0 }));
    put("cmp", bytes(&|n| if let Node::Test(operator, ..) = n { *operator } else { 0 }));
    put("category_list_right_child", bytes(&|n| matches!(n, Node::In(_, _, _, true, ..)).into()));
    let vectors: Vec<&[f64]> =
        nodes.iter().map(|n| if let Node::Vector(values) = n { &values[..] } else { &[] }).collect();
    put("leaf_vector", reals(&vectors.concat(), wide));
    let [begin, end] = bounds(vectors.iter().map(|v| v.len()));
    put("leaf_vector_begin", begin);
    put("leaf_vector_end", end);
    let sets: Vec<&[u32]> =
        nodes.iter().map(|n| if let Node::In(_, _, members, ..) = n { &members[..] } else { &[] }).collect();
    put("category_list", u32s(&sets.concat()));
    let [begin, end] = bounds(sets.iter().map(|s| s.len()));
    put("category_list_begin", begin);
    put("category_list_end", end);
    for statistic in ["data_count", "sum_hess", "gain"] {
        put(statistic, vec![0; 8]);
        put(&format!("{statistic}_present"), vec![0; 8]);
    }
    put("num_opt_field_per_tree", vec![0; 4]);
    put("num_opt_field_per_node", vec![0; 4]);
}

fn bounds(lengths: impl Iterator<Item = usize>) -> [Vec<u8>; 2] {
    let mut at = 0u64;
    let next = |length: usize| {
        at += length as u64;
        (at - length as u64, at)
    };
    let (begin, end): (Vec<u64>, Vec<u64>) = lengths.map(next).unzip();
    [u64s(&begin), u64s(&end)]
}

/// An array as it stands in a file: its length, then its items.
pub fn list<const W: usize>(items: impl ExactSizeIterator<Item = [u8; W]>) -> Vec<u8> {
    (items.len() as u64).to_le_bytes().into_iter().chain(items.flatten()).collect()
}

pub fn u8s(items: &[u8]) -> Vec<u8> {
    list(items.iter().map(|v| [*v]))
}

pub fn i32s(items: &[i32]) -> Vec<u8> {
    list(items.iter().map(|v| v.to_le_bytes()))
}

pub fn u32s(items: &[u32]) -> Vec<u8> {
    list(items.iter().map(|v| v.to_le_bytes()))
}

pub fn u64s(items: &[u64]) -> Vec<u8> {
    list(items.iter().map(|v| v.to_le_bytes()))
}

pub fn reals(items: &[f64], wide: bool) -> Vec<u8> {
    match wide {
        true => list(items.iter().map(|v| v.to_le_bytes())),
        false => list(items.iter().map(|v| (*v as f32).to_le_bytes())),
    }
}
