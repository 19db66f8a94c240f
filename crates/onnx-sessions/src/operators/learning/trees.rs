//! Ensembles of decision trees.

use std::collections::HashMap;

use lessen_base::Result;

use super::transforms::{Transform, transformed};
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("ai.onnx.ml", "TreeEnsemble", ensemble),
    ("ai.onnx.ml", "TreeEnsembleRegressor", regressor),
];

/// The most votes of all rows together.
const MOST_VOTES: usize = 1 << 28;

/// How a feature is compared.
#[derive(Clone, Debug)]
enum Mode {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
    Above(f64),
    Equal(f64),
    Unequal(f64),
    Among(Vec<f64>),
}

impl Mode {
    fn holds(&self, x: f64) -> bool {
        match self {
            Mode::AtMost(split) => x <= *split,
            Mode::Below(split) => x < *split,
            Mode::AtLeast(split) => x >= *split,
            Mode::Above(split) => x > *split,
            Mode::Equal(split) => x == *split,
            Mode::Unequal(split) => x != *split,
            Mode::Among(all) => all.contains(&x),
        }
    }
}

/// Where a comparison leads.
#[derive(Clone, Copy)]
enum Branch {
    Node(usize),
    Leaf(usize),
}

/// A comparison.
struct Node {
    feature: usize,
    mode: Mode,
    /// Whether NaN counts as if the comparison holds.
    takes_nan: bool,
    yes: Branch,
    no: Branch,
}

/// How the votes of trees for a target become one number.
#[derive(Clone, Copy, PartialEq)]
enum Aggregate {
    Average,
    Sum,
    Least,
    Most,
}

/// Trees whose leaves vote for targets.
struct Forest {
    nodes: Vec<Node>,
    roots: Vec<Branch>,
    /// The targets that each leaf votes for, with its weights.
    leaves: Vec<Vec<(usize, f64)>>,
    targets: usize,
    aggregate: Aggregate,
    /// What is added to each target at last.
    base: Vec<f64>,
    transform: Transform,
}

impl Forest {
    /// The leaf of a tree that a row of features leads to; none where features or nodes are missing or go in a circle.
    fn leaf(&self, root: Branch, row: &[f64]) -> Option<&[(usize, f64)]> {
        let mut at = root;
        for _ in 0..=self.nodes.len() {
            match at {
                Branch::Leaf(leaf) => return self.leaves.get(leaf).map(Vec::as_slice),
                Branch::Node(node) => {
                    let node = self.nodes.get(node)?;
                    let x = *row.get(node.feature)?;
                    let holds = node.mode.holds(x) || (node.takes_nan && x.is_nan());
                    at = if holds { node.yes } else { node.no };
                }
            }
        }
        None
    }

    /// The votes for each target, for each row of features.
    fn run(&self, call: &HostCall<'_>, element: Element) -> Result<Vec<HostValue>> {
        let input = call.tensor(0)?;
        let &[rows, columns] = input.shape() else {
            return call.refused("its input is no matrix");
        };
        let is_whole = self.leaves.iter().flatten().all(|(target, _)| *target < self.targets);
        if !is_whole || !(self.base.is_empty() || self.base.len() == self.targets) {
            return call.refused(format!(
                "its votes and base values are not for {} targets",
                self.targets
            ));
        }
        if rows.saturating_mul(self.targets) > MOST_VOTES {
            return call.refused(format!(
                "{rows} rows with votes for {} targets are too many",
                self.targets
            ));
        }
        let mut votes = Vec::with_capacity(rows * self.targets);
        for row in input.data().to_f64().chunks_exact(columns.max(1)) {
            let mut own: Vec<Option<f64>> = vec![None; self.targets];
            for root in &self.roots {
                let Some(leaf) = self.leaf(*root, row) else {
                    return call.refused("one of its trees names a feature, a node or a leaf that is not there");
                };
                for (target, weight) in leaf {
                    own[*target] = Some(match (own[*target], self.aggregate) {
                        (None, _) => *weight,
                        (Some(old), Aggregate::Sum | Aggregate::Average) => old + weight,
                        (Some(old), Aggregate::Least) => old.min(*weight),
                        (Some(old), Aggregate::Most) => old.max(*weight),
                    });
                }
            }
            let count = match self.aggregate {
                Aggregate::Average => self.roots.len().max(1) as f64,
                _ => 1.0,
            };
            let base = self.base.iter().copied().chain(std::iter::repeat(0.0));
            let own = own
                .into_iter()
                .zip(base)
                .map(|(own, base)| own.unwrap_or(0.0) / count + base);
            votes.extend(transformed(self.transform, own.collect()));
        }
        one(HostTensor::new(
            &[rows, self.targets],
            Data::of_f64(element, votes.into_iter()),
        )?)
    }
}

/// The integers of an attribute as places.
fn places(call: &HostCall<'_>, name: &str) -> Result<Vec<usize>> {
    let all = call
        .ints(name)
        .unwrap_or_default()
        .into_iter()
        .map(|place| usize::try_from(place).ok());
    match all.collect() {
        Some(places) => Ok(places),
        None => call.refused(format!("its attribute {name} has a negative number")),
    }
}

/// The numbers of an attribute that is a tensor, or of floats by another name; none where neither is there.
fn numbers(call: &HostCall<'_>, tensor: &str, floats: &str) -> Result<Vec<f64>> {
    Ok(match call.stored(tensor)? {
        Some(tensor) => tensor.data().to_f64(),
        None => call
            .floats(floats)
            .unwrap_or_default()
            .into_iter()
            .map(f64::from)
            .collect(),
    })
}

fn targets(call: &HostCall<'_>) -> Result<usize> {
    match usize::try_from(call.int("n_targets", 1)) {
        Ok(targets @ 1..=MOST_VOTES) => Ok(targets),
        _ => call.refused("its number of targets is none"),
    }
}

fn ensemble(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let features = places(call, "nodes_featureids")?;
    let splits = numbers(call, "nodes_splits", "")?;
    let modes = numbers(call, "nodes_modes", "")?;
    let (yes, no) = (places(call, "nodes_truenodeids")?, places(call, "nodes_falsenodeids")?);
    let (yes_leaf, no_leaf) = (places(call, "nodes_trueleafs")?, places(call, "nodes_falseleafs")?);
    let takes_nan = call.ints("nodes_missing_value_tracks_true").unwrap_or_default();
    let members = numbers(call, "membership_values", "")?;
    let mut members = members.split(|x| x.is_nan());
    let count = features.len();
    let others = [
        splits.len(),
        modes.len(),
        yes.len(),
        no.len(),
        yes_leaf.len(),
        no_leaf.len(),
    ];
    if others != [count; 6] || !(takes_nan.is_empty() || takes_nan.len() == count) {
        return call.refused("its attributes of nodes are not equally many");
    }
    let branch = |at: usize, is_leaf: usize| {
        if is_leaf != 0 {
            Branch::Leaf(at)
        } else {
            Branch::Node(at)
        }
    };
    let mut nodes = Vec::with_capacity(count);
    for at in 0..count {
        let mode = match modes[at] as i64 {
            0 => Mode::AtMost(splits[at]),
            1 => Mode::Below(splits[at]),
            2 => Mode::AtLeast(splits[at]),
            3 => Mode::Above(splits[at]),
            4 => Mode::Equal(splits[at]),
            5 => Mode::Unequal(splits[at]),
            6 => match members.next() {
                Some(own) => Mode::Among(own.to_vec()),
                None => return call.refused("it has fewer sets of members than nodes that need one"),
            },
            mode => return call.refused(format!("the mode {mode} of nodes is not known")),
        };
        nodes.push(Node {
            feature: features[at],
            mode,
            takes_nan: takes_nan.get(at).is_some_and(|takes| *takes != 0),
            yes: branch(yes[at], yes_leaf[at]),
            no: branch(no[at], no_leaf[at]),
        });
    }
    let (voted, weights) = (places(call, "leaf_targetids")?, numbers(call, "leaf_weights", "")?);
    if voted.len() != weights.len() {
        return call.refused("its attributes of leaves are not equally many");
    }
    let forest = Forest {
        nodes,
        roots: places(call, "tree_roots")?.into_iter().map(Branch::Node).collect(),
        leaves: voted.into_iter().zip(weights).map(|vote| vec![vote]).collect(),
        targets: targets(call)?,
        aggregate: match call.int("aggregate_function", 1) {
            0 => Aggregate::Average,
            1 => Aggregate::Sum,
            2 => Aggregate::Least,
            3 => Aggregate::Most,
            other => return call.refused(format!("the aggregate function {other} is not known")),
        },
        base: Vec::new(),
        transform: match call.int("post_transform", 0) {
            0 => Transform::None,
            1 => Transform::Softmax,
            2 => Transform::Logistic,
            other => return call.refused(format!("the transform {other} of votes is not known")),
        },
    };
    let element = call.tensor(0)?.element().filter(|element| element.is_float());
    match element {
        Some(element) => forest.run(call, element),
        None => call.refused("its input has no floats"),
    }
}

fn regressor(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (trees, ids) = (
        call.ints("nodes_treeids").unwrap_or_default(),
        call.ints("nodes_nodeids").unwrap_or_default(),
    );
    let features = places(call, "nodes_featureids")?;
    let splits = numbers(call, "nodes_values_as_tensor", "nodes_values")?;
    let modes = call.attribute("nodes_modes").map_or(&[][..], |modes| &modes.strings);
    let yes = call.ints("nodes_truenodeids").unwrap_or_default();
    let no = call.ints("nodes_falsenodeids").unwrap_or_default();
    let takes_nan = call.ints("nodes_missing_value_tracks_true").unwrap_or_default();
    let count = ids.len();
    let others = [
        trees.len(),
        features.len(),
        splits.len(),
        modes.len(),
        yes.len(),
        no.len(),
    ];
    if others != [count; 6] || !(takes_nan.is_empty() || takes_nan.len() == count) {
        return call.refused("its attributes of nodes are not equally many");
    }
    let by_id: HashMap<(i64, i64), usize> = trees.iter().copied().zip(ids.iter().copied()).zip(0..).collect();
    let is_leaf = |at: usize| modes[at] == b"LEAF";
    // A node that is not there leads beyond the nodes, which is refused when a row of features goes there.
    let branch = |tree: i64, id: i64| match by_id.get(&(tree, id)) {
        Some(at) if is_leaf(*at) => Branch::Leaf(*at),
        Some(at) => Branch::Node(*at),
        None => Branch::Node(count),
    };
    let mut nodes = Vec::with_capacity(count);
    let mut roots = Vec::new();
    for at in 0..count {
        if at == 0 || trees[at] != trees[at - 1] {
            roots.push(branch(trees[at], ids[at]));
        }
        let mode = match &modes[at][..] {
            b"BRANCH_LEQ" | b"LEAF" => Mode::AtMost(splits[at]),
            b"BRANCH_LT" => Mode::Below(splits[at]),
            b"BRANCH_GTE" => Mode::AtLeast(splits[at]),
            b"BRANCH_GT" => Mode::Above(splits[at]),
            b"BRANCH_EQ" => Mode::Equal(splits[at]),
            b"BRANCH_NEQ" => Mode::Unequal(splits[at]),
            other => {
                return call.refused(format!(
                    "the mode {} of nodes is not known",
                    String::from_utf8_lossy(other)
                ));
            }
        };
        nodes.push(Node {
            feature: features[at],
            mode,
            takes_nan: takes_nan.get(at).is_some_and(|takes| *takes != 0),
            yes: branch(trees[at], yes[at]),
            no: branch(trees[at], no[at]),
        });
    }
    let voting = call.ints("target_treeids").unwrap_or_default();
    let voting_nodes = call.ints("target_nodeids").unwrap_or_default();
    let voted = places(call, "target_ids")?;
    let weights = numbers(call, "target_weights_as_tensor", "target_weights")?;
    if [voting_nodes.len(), voted.len(), weights.len()] != [voting.len(); 3] {
        return call.refused("its attributes of targets are not equally many");
    }
    let mut leaves = vec![Vec::new(); count];
    for (vote, weight) in weights.into_iter().enumerate() {
        match by_id.get(&(voting[vote], voting_nodes[vote])) {
            Some(at) => leaves[*at].push((voted[vote], weight)),
            None => return call.refused("one of its votes is for a leaf that is not there"),
        }
    }
    let forest = Forest {
        nodes,
        roots,
        leaves,
        targets: targets(call)?,
        aggregate: match call.text("aggregate_function").as_deref() {
            None | Some("SUM") => Aggregate::Sum,
            Some("AVERAGE") => Aggregate::Average,
            Some("MIN") => Aggregate::Least,
            Some("MAX") => Aggregate::Most,
            Some(other) => return call.refused(format!("the aggregate function {other} is not known")),
        },
        base: numbers(call, "base_values_as_tensor", "base_values")?,
        transform: Transform::of(call)?,
    };
    forest.run(call, Element::F32)
}
