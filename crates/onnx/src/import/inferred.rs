//! Types of results of nodes that are not known, where the file does not say them.

use lessen_graph::Type;

use crate::model::Node;

/// What is known of an input of a node.
pub(super) struct Given {
    pub ty: Option<Type>,
    /// Its numbers, if they are few and known.
    pub numbers: Option<Vec<f64>>,
}

/// The type of the result of a `Resize` or an `Upsample`, whose sizes or factors are known.
pub(super) fn resized(node: &Node, opset: i64, inputs: &[Given]) -> Option<Type> {
    if !["Resize", "Upsample"].contains(&node.proto.op_type.as_str()) || !node.proto.domain.is_empty() {
        return None;
    }
    let x = inputs.first()?.ty.clone()?;
    let policy = node.attribute("keep_aspect_ratio_policy");
    if policy.is_some_and(|policy| !policy.s.is_empty() && policy.s != b"stretch") {
        return None;
    }
    let numbers = |input: usize| {
        inputs
            .get(input)?
            .numbers
            .as_deref()
            .filter(|numbers| !numbers.is_empty())
    };
    let in_attribute: Vec<f64> = node
        .attribute("scales")
        .map(|scales| scales.floats.iter().map(|x| f64::from(*x)).collect())
        .unwrap_or_default();
    let (sizes, factors) = match node.proto.op_type.as_str() {
        "Resize" if opset >= 11 => (numbers(3), numbers(2)),
        _ => (None, numbers(1).or(Some(&in_attribute[..]))),
    };
    let mut shape = x.shape.clone();
    let rank = shape.len() as i64;
    let axes: Vec<i64> = match node.attribute("axes").filter(|axes| !axes.ints.is_empty()) {
        Some(axes) => axes.ints.clone(),
        None => (0..rank).collect(),
    };
    let said = sizes.or(factors)?;
    if said.len() != axes.len() {
        return None;
    }
    for (axis, number) in axes.iter().zip(said) {
        let axis = usize::try_from(if *axis < 0 { axis.checked_add(rank)? } else { *axis }).ok()?;
        let extent = shape.get_mut(axis)?;
        let new = match sizes {
            Some(_) => *number,
            None => f64::from((*extent as f32 * *number as f32).floor()),
        };
        if !(0.0..1e9).contains(&new) {
            return None;
        }
        *extent = new as usize;
    }
    Some(Type::new(x.dtype, &shape))
}

/// The likeliest type of the first result of any node: that of its first input of floats.
pub(super) fn likeliest(output: usize, inputs: &[Given]) -> Option<Type> {
    let mut types = inputs.iter().filter_map(|input| input.ty.as_ref());
    types.find(|ty| ty.dtype.is_float()).filter(|_| output == 0).cloned()
}
