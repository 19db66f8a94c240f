//! Inputs of nodes on integers of 8 bits: codes, scales, zero points, and weights as rows of codes.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use lessen_base::Result;
use lessen_graph::{Array, DType, Tensor, Type};

use super::Value;
use super::call::Call;
use super::codes::{Codes, CodesKey, Order};
use crate::element::Element;
use crate::host::{Data, HostTensor};
use crate::names::OwnName;

/// The code of zero of a weight.
const MIDDLE: i32 = 128;

/// A weight's codes as a state, and a scale for each of its columns.
pub(super) struct Weight {
    pub codes: Tensor,
    pub scale: Vec<f32>,
    /// The sum of the levels, code less 128, of each column.
    pub levels: Vec<i32>,
    /// The difference of each column between integers less their zero point and levels, where the former take more
    /// than 8 bits.
    pub shift: Option<Vec<i32>>,
}

/// The type of integers of 8 bits with or without a sign; none of others.
fn is_signed(element: Option<Element>) -> Option<bool> {
    match element? {
        Element::Int(1) => Some(true),
        Element::Unsigned(1) => Some(false),
        _ => None,
    }
}

/// The integers of 8 bits of an array.
fn integers(tensor: &HostTensor) -> Option<Vec<i32>> {
    match tensor.data() {
        Data::I8(v) => Some(v.iter().map(|x| i32::from(*x)).collect()),
        Data::U8(v) => Some(v.iter().map(|x| i32::from(*x)).collect()),
        _ => None,
    }
}

impl Call<'_> {
    /// An input that is integers of 8 bits of the program.
    pub(super) fn codes(&self, input: usize) -> Result<Codes> {
        match self.inputs.get(input) {
            Some(Some(Value::Codes(codes))) => Ok(*codes),
            _ => self.unknown("integers of 8 bits that are no results of the program"),
        }
    }

    /// An input that does not change, in the type that the file has.
    pub(super) fn unchanging(&self, input: usize) -> Result<Arc<HostTensor>> {
        let value = self
            .fixed
            .zip(self.node.input(input))
            .and_then(|(fixed, name)| fixed(name));
        match value.and_then(|value| value.tensor().cloned()) {
            Some(tensor) => Ok(tensor),
            None => self.unknown(&format!("an input {input} that changes")),
        }
    }

    /// The single scale of an input that does not change, positive and finite.
    pub(super) fn one_scale(&self, input: usize) -> Result<f32> {
        match self.unchanging(input)?.data() {
            Data::F32(v) if v.len() == 1 && v[0] > 0.0 && v[0].is_finite() => Ok(v[0]),
            _ => self.unknown("a scale that is not one positive number"),
        }
    }

    /// The code of the zero point of an input, 0 where there is none, and whether its integers have a sign.
    pub(super) fn zero_code(&self, input: usize) -> Result<(u8, bool)> {
        if !self.has(input) {
            return Ok((0, false));
        }
        match self.unchanging(input)?.data() {
            Data::U8(v) if v.len() == 1 => Ok((v[0], false)),
            Data::I8(v) if v.len() == 1 => Ok(((i32::from(v[0]) + MIDDLE) as u8, true)),
            _ => self.unknown("a zero point that is not one integer of 8 bits"),
        }
    }

    /// [`Call::shifted_weight`] without a shift.
    pub(super) fn weight(&mut self, input: usize, scale_and_zero: [Option<usize>; 2], order: Order) -> Result<Weight> {
        let weight = self.shifted_weight(input, scale_and_zero, order)?;
        if weight.shift.is_some() {
            return self.unknown("a weight whose differences from its zero point have more than 8 bits");
        }
        Ok(weight)
    }

    /// The weight of an input that does not change, with its scales and zero points.
    pub(super) fn shifted_weight(
        &mut self,
        input: usize,
        [scale, zero]: [Option<usize>; 2],
        order: Order,
    ) -> Result<Weight> {
        let name = self.node.input(input).unwrap_or_default().to_string();
        let optional = |input: Option<usize>| match input.filter(|input| self.has(*input)) {
            Some(input) => self.unchanging(input).map(Some),
            None => Ok(None),
        };
        let (integers, scale, zero) = (self.unchanging(input)?, optional(scale)?, optional(zero)?);
        self.coded((&name, &integers), scale.as_deref(), zero.as_deref(), order)
    }

    /// The part of a weight of rows `[D, K, N]` that belongs to a direction, whose scales and zero points are `[D]` or
    /// `[D, N]`.
    pub(super) fn weight_of_direction(
        &mut self,
        [integers, scale, zero]: [usize; 3],
        direction: usize,
    ) -> Result<Weight> {
        let part = |input: usize| -> Result<HostTensor> {
            let all = self.unchanging(input)?;
            match all.shape() {
                [directions, shape @ ..] if direction < *directions => {
                    let each = all.len() / directions;
                    HostTensor::new(shape, all.data().at(direction * each..(direction + 1) * each))
                }
                _ => self.unknown("a weight without this direction"),
            }
        };
        let (own, scale, zero) = (part(integers)?, part(scale)?, part(zero)?);
        let name = OwnName::Direction(direction, self.node.input(integers).unwrap_or_default()).to_string();
        self.coded((&name, &own), Some(&scale), Some(&zero), Order::Rows)
    }

    /// The weight that an input is restored from; none where it is no such weight, or has scales along another axis.
    pub(super) fn restored_weight(&mut self, input: usize, order: Order) -> Option<Weight> {
        let Some(Some(Value::Restored(restored))) = self.inputs.get(input).cloned() else {
            return None;
        };
        let of_columns = match order {
            Order::Columns | Order::Kernels => 0,
            Order::Rows => 1,
        };
        let rank = restored.integers.rank() as i64;
        let axis = restored.axis + if restored.axis < 0 { rank } else { 0 };
        if restored.scale.len() > 1 && axis != of_columns {
            return None;
        }
        let zero = restored.zero.as_deref();
        self.coded((&restored.name, &restored.integers), Some(&restored.scale), zero, order)
            .ok()
    }

    /// The integers of a bias for `columns` columns; none where it is not restored from integers, or its scales are not
    /// those of the columns' sums.
    pub(super) fn restored_bias(
        &self,
        (input, columns): (usize, usize),
        scale: impl Fn(usize) -> f32,
    ) -> Option<Vec<i32>> {
        let Some(Some(Value::Restored(restored))) = self.inputs.get(input) else {
            return None;
        };
        let (Data::I32(bias), Data::F32(scales)) = (restored.integers.data(), restored.scale.data()) else {
            return None;
        };
        let has_zeros = |zero: &Arc<HostTensor>| zero.data().to_f64().iter().all(|zero| *zero == 0.0);
        // The scales in the file are products that its writer has rounded.
        let is_of_sums = |column: usize| {
            let (own, of_sums) = (scales[column % scales.len()], scale(column));
            (own - of_sums).abs() <= 4.0 * f32::EPSILON * of_sums
        };
        let fits = restored.integers.rank() == 1
            && bias.len() == columns
            && (scales.len() == 1 || scales.len() == columns)
            && restored.zero.as_ref().is_none_or(has_zeros)
            && (0..columns).all(is_of_sums);
        fits.then(|| bias.clone())
    }

    /// The weight of `columns` columns of `k` codes of the level 1.
    pub(super) fn ones(&mut self, columns: usize, k: usize) -> Weight {
        let codes = Array::new(
            Type::new(DType::U8, &[columns, k]),
            vec![f64::from(MIDDLE + 1); columns * k],
        );
        Weight {
            codes: self.constant(codes),
            scale: vec![1.0; columns],
            levels: vec![k as i32; columns],
            shift: None,
        }
    }

    /// The shift of a weight as a value of the program.
    pub(super) fn shift(&mut self, shift: &[i32], dtype: DType) -> Tensor {
        let shift = Array::new(
            Type::new(dtype, &[shift.len()]),
            shift.iter().map(|x| f64::from(*x)).collect(),
        );
        self.constant(shift)
    }

    fn coded(
        &mut self,
        (name, array): (&str, &HostTensor),
        scale: Option<&HostTensor>,
        zero: Option<&HostTensor>,
        order: Order,
    ) -> Result<Weight> {
        let (columns, rows, taps) = match (order, array.shape()) {
            (Order::Columns, &[n, k]) => (n, k, 1),
            (Order::Rows, &[k, n]) => (n, k, 1),
            (Order::Kernels, &[o, c, w]) => (o, c, w),
            (Order::Kernels, &[o, c, h, w]) => (o, c, h * w),
            _ => return self.unknown("a weight of other extents"),
        };
        let k = rows * taps;
        let (Some(all), Some(signed)) = (integers(array), is_signed(array.element())) else {
            return self.unknown("a weight that has no integers of 8 bits");
        };
        let zeros = match zero {
            None => vec![0],
            Some(zero) if is_signed(zero.element()) == Some(signed) => integers(zero).unwrap_or_default(),
            Some(_) => return self.unknown("a zero point of another type"),
        };
        let scales = match scale.map(HostTensor::data) {
            None => vec![1.0],
            Some(Data::F32(v)) => v.clone(),
            Some(_) => return self.unknown("scales that are not f32"),
        };
        let is_of_columns = |len: usize| len == 1 || len == columns;
        if !is_of_columns(zeros.len()) || !is_of_columns(scales.len()) || k == 0 || columns == 0 {
            return self.unknown("scales of other than columns");
        }
        let at = |column: usize, i: usize| match order {
            Order::Columns => column * k + i,
            Order::Rows => i * columns + column,
            Order::Kernels => (column * rows + i % rows) * taps + i / rows,
        };
        let level = |column: usize, i: usize| all[at(column, i)] - zeros[column % zeros.len()];
        let is_code = |level: i32| u8::try_from(level + MIDDLE).is_ok();
        let fits = (0..columns).all(|column| (0..k).all(|i| is_code(level(column, i))));
        // The distance of an integer in the file from its level.
        let middle = if signed { 0 } else { MIDDLE };
        let shift = (!fits).then(|| -> Vec<i32> {
            (0..columns)
                .map(|column| middle - zeros[column % zeros.len()])
                .collect()
        });
        let (mut codes, mut levels) = (Vec::with_capacity(all.len()), Vec::with_capacity(columns));
        for column in 0..columns {
            let by = shift.as_ref().map_or(0, |shift| shift[column]);
            let mut sum = 0;
            for i in 0..k {
                let level = level(column, i) - by;
                codes.push((level + MIDDLE) as u8);
                sum += level;
            }
            levels.push(sum);
        }
        let Some(states) = &mut self.codes else {
            return self.unknown("a weight of integers");
        };
        let key = CodesKey {
            name: name.to_string(),
            order,
            zeros,
        };
        let own = OwnName::Codes(states.len()).to_string();
        let codes = match states.entry(key) {
            Entry::Occupied(found) => found.get().1,
            Entry::Vacant(place) => {
                let tensor = self.trace.state(&own, DType::U8, &[columns, k]);
                let array = HostTensor::new(&[columns, k], codes)?;
                place.insert((own, tensor, Arc::new(array)));
                tensor
            }
        };
        let scale = (0..columns).map(|column| scales[column % scales.len()]).collect();
        Ok(Weight {
            codes,
            scale,
            levels,
            shift,
        })
    }
}
