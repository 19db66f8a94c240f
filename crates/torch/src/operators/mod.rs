//! The operators of PyTorch: a function and a line each, by subject.

mod activations;
mod attention;
mod comparisons;
mod einsum;
mod elementwise;
mod experts;
mod indexing;
mod joining;
mod losses;
mod movement;
mod norms;
mod numbers;
mod ordering;
mod padding;
mod products;
mod random;
mod recurrent;
mod reductions;
mod shapes;
mod sources;
mod windows;

use crate::call::{Operator, Operators};

/// All operators of PyTorch, by their names without namespace, overload and the underscore of operators in place.
const OPERATORS: &[Operators] = &[
    activations::OPERATORS,
    attention::OPERATORS,
    comparisons::OPERATORS,
    einsum::OPERATORS,
    elementwise::OPERATORS,
    experts::OPERATORS,
    indexing::OPERATORS,
    joining::OPERATORS,
    losses::OPERATORS,
    movement::OPERATORS,
    norms::OPERATORS,
    ordering::OPERATORS,
    padding::OPERATORS,
    products::OPERATORS,
    random::OPERATORS,
    recurrent::OPERATORS,
    reductions::OPERATORS,
    shapes::OPERATORS,
    sources::OPERATORS,
    windows::OPERATORS,
];

/// Other names of operators.
const ALIASES: &[(&str, &str)] = &[
    ("_softmax", "softmax"),
    ("_log_softmax", "log_softmax"),
    ("_unsafe_view", "view"),
    ("absolute", "abs"),
    ("clip", "clamp"),
    ("divide", "div"),
    ("fix", "trunc"),
    ("ger", "outer"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("linalg_matmul", "matmul"),
    ("moveaxis", "movedim"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("not_equal", "ne"),
    ("special_expit", "sigmoid"),
    ("special_expm1", "expm1"),
    ("special_log1p", "log1p"),
    ("logit", "special_logit"),
    ("subtract", "sub"),
    ("true_divide", "div"),
];

/// What works in place of operators that are not traced.
const INSTEAD: &[(&str, &str)] = &[
    (
        "nonzero",
        "keep all elements and multiply by a mask, since extents may not depend on values",
    ),
    (
        "masked_select",
        "keep all elements and multiply by a mask, since extents may not depend on values",
    ),
    (
        "unique",
        "count with one_hot and sum, since extents may not depend on values",
    ),
    ("complex", "keep real and imaginary parts as two tensors"),
    ("view_as_complex", "keep real and imaginary parts as two tensors"),
    ("conv3d", "use conv2d over slices, as three dimensions are not traced"),
    ("cdist", "write the squared distance as a sum of products"),
];

/// The part of an operator's name by which it is found.
fn base(name: &str) -> &str {
    let own = name.split('.').nth(1).unwrap_or(name);
    if own.starts_with("__") {
        own
    } else {
        own.strip_suffix('_').unwrap_or(own)
    }
}

/// The function of an operator such as `aten.add.Tensor`.
pub fn operator(name: &str) -> Option<Operator> {
    let own = base(name);
    let tables: &[Operators] = match name.split('.').next() {
        Some("aten" | "transformers") => OPERATORS,
        Some("python") => &[numbers::OPERATORS],
        _ => return None,
    };
    let alias = ALIASES.iter().find(|(alias, _)| *alias == own);
    let own = alias.map_or(own, |(_, name)| name);
    let mut all = tables.iter().copied().flatten();
    all.find(|(known, _)| *known == own).map(|(_, operator)| *operator)
}

/// The sentence about an operator that is not traced.
pub fn unknown(name: &str) -> String {
    let own = base(name);
    let instead = INSTEAD.iter().find(|(known, _)| *known == own);
    let instead = instead.map_or_else(|| nearest(own), |(_, instead)| (*instead).to_string());
    format!("Lessen does not have this operator; {instead}")
}

/// Advice by the known operator whose name begins most like one.
fn nearest(name: &str) -> String {
    let common = |known: &str| known.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
    let all = OPERATORS.iter().copied().flatten().map(|(known, _)| *known);
    match all.max_by_key(|known| common(known)).filter(|known| common(known) > 3) {
        Some(known) => format!("the nearest one that it has is `{known}`"),
        None => "write it with others, such as sums, products, gather and where".to_string(),
    }
}
