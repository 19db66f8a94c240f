//! AdamW with moments of 8 bits (Dettmers, Lewis, Shleifer, Zettlemoyer 2022).

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Op, OutRole, Role, RowWise};
use crate::ops::optimizer::adamw::AdamW;
use crate::ops::optimizer::block_codes::{BLOCK, Codebook, blocks, dequantize, dequantized, quantize, quantized};
use crate::ops::optimizer::update::{check_scalars, check_update};
use crate::ops::rules::{arity, arrays};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// [`AdamW`] whose moments are [codes and scales](super::block_codes): inputs `p`, `g`, codes `u8` of the shape of `p`
/// and scales `f32[blocks]` of the first moment, signed, and of the second one, unsigned, `lr[]`, `t[]`. Outputs `p'`,
/// and the codes and scales of both new moments; `p'` follows from these before they are quantized.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamW8bit {
    /// The update of each element.
    pub rule: AdamW,
}

/// The codebooks of both moments.
const BOOKS: [Codebook; 2] = [Codebook::Signed, Codebook::Unsigned];

impl Named for AdamW8bit {
    const NAME: &'static str = "adamw_8bit";

    fn to_attrs(&self) -> Attrs {
        self.rule.to_attrs()
    }

    fn from_attrs(attrs: &Attrs) -> Result<AdamW8bit> {
        let rule = AdamW::from_attrs(attrs)?;
        Ok(AdamW8bit { rule })
    }
}

impl Op for AdamW8bit {
    named!();

    facts! {
        in_place((0 | 1, 0) | (2, 1) | (3, 2) | (4, 3) | (5, 4));
        flops(40.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 8)?;
        check_update(&inputs[..2])?;
        check_scalars(&inputs[6..])?;
        let p = &inputs[0];
        let count = blocks(p.numel());
        // The elements in whole blocks.
        Type::sized(p.dtype, &[count, BLOCK])?;
        let (codes, scales) = (Type::new(DType::U8, &p.shape), Type::f32(&[count]));
        let wanted = [&codes, &scales, &codes, &scales];
        if let Some((found, wanted)) = inputs[2..6].iter().zip(wanted).find(|(found, wanted)| found != wanted) {
            return Err(Error::user(format!(
                "a parameter {p} has moments in codes {codes} with scales {scales}; one of them is {found}, not {wanted}"
            )));
        }
        Ok(vec![p.clone(), codes.clone(), scales.clone(), codes, scales])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let ty = &inputs[0].ty;
        let moment = |book: Codebook, codes: &Array, scales: &Array| {
            Array::new(ty.clone(), dequantize(book, &codes.data, &scales.data))
        };
        let m = moment(BOOKS[0], inputs[2], inputs[3]);
        let v = moment(BOOKS[1], inputs[4], inputs[5]);
        let types = vec![ty.clone(); 3];
        let mut new = self
            .rule
            .eval(&[inputs[0], inputs[1], &m, &v, inputs[6], inputs[7]], &types);
        let [(m, m_scales), (v, v_scales)] = [1, 2].map(|i| quantize(BOOKS[i - 1], &new[i].data));
        arrays(outputs, [new.swap_remove(0).data, m, m_scales, v, v_scales])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [p, g, lr, t] = [0, 1, 6, 7].map(|i| inputs[i]);
        let [m, v] = [0, 1].map(|i| dequantized(BOOKS[i], inputs[2 + 2 * i], inputs[3 + 2 * i], p.dtype()));
        let new = p.trace().apply(self.rule, &[p, g, m, v, lr, t]);
        let [m, v] = [0, 1].map(|i| quantized(BOOKS[i], new[1 + i]));
        Some([&new[..1], &m, &v].concat())
    }

    /// A row is a block, where blocks are whole.
    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        use Role::{Rows, Whole};
        let n = inputs[0].numel();
        if n == 0 || !n.is_multiple_of(BLOCK) {
            return RowWise::No;
        }
        let roles = [Rows, Rows, Rows, Rows, Rows, Rows, Whole, Whole];
        RowWise::by_rows(n / BLOCK, &roles, &[OutRole::Rows; 5])
    }
}
