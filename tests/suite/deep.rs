//! A tree that is one long chain, and a forest of many nodes: nothing recurses on a model's say-so, and what is done once a
//! node is not done once a path.

use fangorn::{
    Forest, Predictor,
    cpu::Rows,
    file::Contents,
    forest::{CompareType, Side, reference},
    import::{LoadOptions, parse},
    schedule::Preset,
};

const DEPTH: u32 = 100_000;

/// `x < 1` is a leaf, otherwise `x < 2` is a leaf, and so on.
fn chain() -> Forest {
    let mut forest = Forest::builder(1, 1);
    let mut tree = forest.tree(0);
    for d in 0..DEPTH {
        tree.split(0, CompareType::F32.less(f64::from(d + 1)), Side::Right, 2 * d + 1, 2 * d + 2);
        tree.leaf(d, &[f64::from(d % 7)]);
    }
    tree.leaf(DEPTH, &[1.0]);
    forest.build().expect("a chain is a tree")
}

#[test]
fn a_chain_goes_through_every_stage() {
    let forest = chain();
    assert_eq!(forest.stats().depths.len(), DEPTH as usize + 1);
    assert!(forest.to_text().lines().count() > 2 * DEPTH as usize);
    let bytes = Contents::new(forest.clone()).to_bytes();
    assert_eq!(parse(&bytes, &LoadOptions::default()).expect("what was written"), forest);
    let x = [0.5f32, 1.0, 77_777.5, 1e9, f32::NAN];
    let expected: Vec<u32> = x.iter().flat_map(|x| reference::leaf_ids(&forest, &[*x])).collect();
    assert_eq!(expected, [0, 1, 77_777, DEPTH, DEPTH]);
    let rows = Rows::new(&x, 1).expect("rows");
    for preset in Preset::ALL {
        match Predictor::builder(&forest).schedule(preset.schedule(&forest, false)).build() {
            Ok(predictor) => {
                assert_eq!(predictor.leaf_ids(&rows).expect("rows"), expected, "{}", preset.name())
            }
            // A full tree of that depth has no room anywhere.
            Err(refused) => assert!(refused.to_string().contains("layout(sparse)"), "{refused}"),
        }
    }
    let predictor = Predictor::new(&forest).expect("the default takes any forest");
    assert_eq!(predictor.leaf_ids(&rows).expect("rows"), expected);
}

/// XGBoost's JSON of a chain.
fn chain_json(depth: u32) -> String {
    let nodes = 2 * depth + 1;
    let inner = |n: u32| n.is_multiple_of(2) && n + 1 < nodes;
    let list = |of: &dyn Fn(u32) -> String| (0..nodes).map(of).collect::<Vec<_>>().join(",");
    let left = list(&|n| if inner(n) { (n + 1).to_string() } else { "-1".into() });
    let right = list(&|n| if inner(n) { (n + 2).to_string() } else { "-1".into() });
    let parents = list(&|n| match n {
        0 => "2147483647".into(),
        n if n % 2 == 1 => (n - 1).to_string(),
        n => (n - 2).to_string(),
    });
    let zeros = list(&|_| "0".into());
    let conditions = list(&|n| n.to_string());
    format!(
        r#"{{"version":[3,2,0],"learner":{{"objective":{{"name":"reg:squarederror"}},
        "learner_model_param":{{"base_score":"0","num_class":"0","num_feature":"1"}},
        "gradient_booster":{{"name":"gbtree","model":{{"gbtree_model_param":{{"num_trees":"1"}},"tree_info":[0],
        "trees":[{{"tree_param":{{"num_nodes":"{nodes}"}},"left_children":[{left}],"right_children":[{right}],
        "parents":[{parents}],"split_indices":[{zeros}],"split_conditions":[{conditions}],"default_left":[{zeros}]}}]
        }}}}}}}}"#
    )
}

#[test]
fn a_chain_is_read() {
    let forest =
        parse(chain_json(DEPTH).as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(forest.trees[0].depth(), DEPTH);
    assert_eq!(reference::leaf_ids(&forest, &[-1.0f32]), [1]);
    assert_eq!(reference::leaf_ids(&forest, &[1e9f32]), [2 * DEPTH]);
}
