//! AdamW of a table whose gradient is zeros but for a few rows, such as an embedding.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{IndexInput, Op, OutRole, Role, RowWise};
use crate::ops::index::combine_rows::first_rows;
use crate::ops::index::gather::row;
use crate::ops::optimizer::adamw::AdamW;
use crate::ops::optimizer::update::{check_scalars, check_update};
use crate::ops::rules::{arity, indexable};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// [`AdamW`] of all rows of a parameter, with the gradient in rows: inputs `p[V, rest..]`, `ids i32[..]`, `g[number of
/// ids, rest..]`, `m`, `v`, `lr[]`, `t[]`. The gradient of row `r` is the first row of `g` whose id is `r`; 0 where
/// there is none. Outputs `p'`, `m'`, `v'`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamWRows {
    /// The update of each element.
    pub rule: AdamW,
}

impl Named for AdamWRows {
    const NAME: &'static str = "adamw_rows";

    fn to_attrs(&self) -> Attrs {
        self.rule.to_attrs()
    }

    fn from_attrs(attrs: &Attrs) -> Result<AdamWRows> {
        let rule = AdamW::from_attrs(attrs)?;
        Ok(AdamWRows { rule })
    }
}

impl Op for AdamWRows {
    named!();

    facts! {
        in_place((0, 0) | (3, 1) | (4, 2));
        flops(20.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 7)?;
        let [p, ids, g, m, v] = [0, 1, 2, 3, 4].map(|i| &inputs[i]);
        check_update(&[p.clone(), m.clone(), v.clone()])?;
        check_scalars(&inputs[5..])?;
        let rows = p.rank() > 0 && g.shape[..] == [&[ids.numel()], &p.shape[1..]].concat();
        if ids.dtype != DType::I32 || g.dtype != p.dtype || !rows {
            return Err(Error::user(format!(
                "a parameter {p} cannot be updated with rows {g} at {ids}"
            )));
        }
        indexable("rows", p.shape[0])?;
        indexable("ids", ids.numel())?;
        Ok(vec![p.clone(); 3])
    }

    /// # Panics
    /// If an id is out of range.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let [p, ids, g, m, v, lr, t] = [0, 1, 2, 3, 4, 5, 6].map(|i| inputs[i]);
        let rows = p.ty.shape[0];
        let width = p.ty.numel() / rows.max(1);
        let mut gradient = Array::full(outputs[0].clone(), 0.0);
        // In reverse, so that the first of a number comes last.
        for (position, &id) in ids.data.iter().enumerate().rev() {
            let to = row(self.name(), id, position, rows) * width;
            gradient.data[to..to + width].copy_from_slice(&g.data[position * width..][..width]);
        }
        self.rule.eval(&[p, &gradient, m, v, lr, t], outputs)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [p, ids, g, m, v, lr, t] = [0, 1, 2, 3, 4, 5, 6].map(|i| inputs[i]);
        let gradient = first_rows(g, ids, p.shape()[0]).scatter_add(ids.reshape(&g.shape()[..1]), p.shape()[0]);
        Some(p.trace().apply(self.rule, &[p, gradient, m, v, lr, t]))
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        use Role::{Rows, Whole};
        let roles = [Rows, Whole, Whole, Rows, Rows, Whole, Whole];
        RowWise::by_rows(inputs[0].shape[0], &roles, &[OutRole::Rows; 3])
    }

    fn index_input(&self, inputs: &[Type]) -> Option<IndexInput> {
        Some(IndexInput {
            input: 1,
            limit: inputs[0].shape[0],
            ignored: None,
        })
    }
}
