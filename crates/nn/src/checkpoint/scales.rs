//! Weights as integers of 8 bits with their scales beside, as compressed-tensors stores them in its format
//! `int-quantized`: beside a tensor `NAME` of `I8` lie `NAME_scale` and, where zero has another integer than 0,
//! `NAME_zero_point`. A number is `(integer - zero point) scale`.

use lessen_base::Result;
use lessen_graph::numel;
use safetensors::Dtype;

use super::shards::Checkpoint;
use crate::quantization_config::READ;

/// The names of a tensor's scales and of its zero points.
pub(super) fn beside(name: &str) -> [String; 2] {
    [format!("{name}_scale"), format!("{name}_zero_point")]
}

/// The scales of a tensor of integers, one for each run of `width` elements.
pub(super) struct Scales {
    scales: Vec<f32>,
    /// Zero points; none where they are 0.
    zeros: Option<Vec<i8>>,
    width: usize,
}

impl Scales {
    /// The scales of a tensor of this shape; none of a tensor that has no integers of 8 bits.
    ///
    /// # Errors
    /// Scales that are missing, of other extents, or not positive numbers, zero points of another type, and a file that
    /// cannot be read.
    pub(super) fn of(checkpoint: &mut Checkpoint, name: &str, shape: &[usize]) -> Result<Option<Scales>> {
        let stored = checkpoint.stored(name);
        if stored.is_none_or(|stored| stored.dtype != Dtype::I8 || stored.shape != shape) {
            return Ok(None);
        }
        let [scale, zero] = beside(name);
        let Some(own) = checkpoint.stored(&scale) else {
            let what = format!("holds I8, and there is no tensor `{scale}` beside it; {READ}");
            return Err(checkpoint.file(name).wrong(name, &what));
        };
        let Some(width) = width(shape, &own.shape) else {
            let what = format!("has the shape {:?}, which are no scales of {shape:?}", own.shape);
            return Err(checkpoint.file(&scale).wrong(&scale, &what));
        };
        let scales = positive(checkpoint, &scale, &own.shape)?;
        let zeros = match checkpoint.stored(&zero) {
            None => None,
            Some(own) if own.dtype == Dtype::I8 && numel(&own.shape) == scales.len() => {
                let mut zeros = Vec::new();
                checkpoint.file(&zero).visit(&zero, &mut |bytes| {
                    zeros.extend(bytes.iter().map(|byte| *byte as i8));
                    Ok(())
                })?;
                Some(zeros)
            }
            Some(own) => {
                let what = format!(
                    "holds {} of the shape {:?}, and zero points are I8, one for each scale",
                    own.dtype, own.shape
                );
                return Err(checkpoint.file(&zero).wrong(&zero, &what));
            }
        };
        Ok(Some(Scales { scales, zeros, width }))
    }

    /// The numbers of integers from number `first` on.
    pub(super) fn restore(&self, first: usize, integers: &[u8]) -> Vec<f32> {
        let number = |(i, byte): (usize, &u8)| {
            let of = (first + i) / self.width;
            let zero = self.zeros.as_ref().map_or(0, |zeros| i32::from(zeros[of]));
            (i32::from(*byte as i8) - zero) as f32 * self.scales[of]
        };
        integers.iter().enumerate().map(number).collect()
    }
}

/// The numbers of a tensor of scales.
///
/// # Errors
/// Scales that are not positive or too large, a tensor of another type or shape, a file that cannot be read.
pub(super) fn positive(checkpoint: &mut Checkpoint, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let mut scales = Vec::new();
    let file = checkpoint.file(name);
    file.visit_f32(name, shape, &mut |part| {
        scales.extend_from_slice(part);
        Ok(())
    })?;
    // The farthest integer from a zero point is 255 away.
    let is_scale = |scale: &f32| *scale > 0.0 && (255.0 * scale).is_finite();
    match scales.iter().position(|scale| !is_scale(scale)) {
        None => Ok(scales),
        Some(at) => {
            let what = format!(
                "has the scale {} at number {at}, and scales are positive numbers whose products with integers are finite; quantize the model again",
                scales[at]
            );
            Err(file.wrong(name, &what))
        }
    }
}

/// The elements of a tensor that share a scale: all, those of a row, or a part of a row.
pub(super) fn width(shape: &[usize], scales: &[usize]) -> Option<usize> {
    let (all, count) = (numel(shape), numel(scales));
    let is_row = |rows: usize| scales.first() == Some(&rows) && scales[1..].iter().all(|extent| *extent == 1);
    match (shape, scales) {
        _ if count == 1 => Some(all.max(1)),
        ([rows, ..], _) if is_row(*rows) => Some((all / rows.max(&1)).max(1)),
        (&[rows, columns], &[own, groups]) if own == rows && groups > 0 && columns.is_multiple_of(groups) => {
            Some(columns / groups)
        }
        _ => None,
    }
}
