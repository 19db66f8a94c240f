//! Arrays as a model's graph takes them.

use lessen_data::arrays::{Array, Dtype};
use lessen_device::HostArray;
use lessen_graph::DType;
use lessen_onnx::Element;

/// The elements of an array for an input of this dtype, or else the mistake as the end of a sentence. Floats are never
/// rounded, and integers may have any width.
pub(super) fn taken(array: &Array, element: Element) -> Result<HostArray, String> {
    let fits = match (array.dtype(), element.dtype()) {
        (Dtype::Float(bytes), dtype @ (DType::F32 | DType::F64)) => usize::from(bytes) <= dtype.bytes(),
        (Dtype::Signed(_) | Dtype::Unsigned(_), DType::I32) | (Dtype::Bool, DType::Bool) => true,
        _ => false,
    };
    if !fits {
        let (is, takes) = (array.dtype(), dtype(element));
        return Err(format!(
            "holds {is}, but the input takes {takes}; save it as array.astype(\"{takes}\")"
        ));
    }
    match element.dtype() {
        DType::I32 => integers(array, element).map(HostArray::I32),
        dtype => Ok(HostArray::of(dtype, &array.floats().collect::<Vec<f64>>())),
    }
}

/// The dtype of arrays with elements of a model; 16-bit floats are computed in 32 bits.
pub(super) fn dtype(element: Element) -> Dtype {
    match element {
        Element::F32 | Element::F16 | Element::BF16 => Dtype::Float(4),
        Element::F64 => Dtype::Float(8),
        Element::Int(bytes) => Dtype::Signed(bytes),
        Element::Unsigned(bytes) => Dtype::Unsigned(bytes),
        Element::Bool => Dtype::Bool,
    }
}

/// Integers that fit the model's elements and the 32 bits in which they are computed.
fn integers(array: &Array, element: Element) -> Result<Vec<i32>, String> {
    let (own, computed) = (range(element), i64::from(i32::MIN)..=i64::from(i32::MAX));
    let (least, most) = (*own.start().max(computed.start()), *own.end().min(computed.end()));
    let integers = array
        .integers()
        .ok_or("has integers beyond 2^63, which no model takes; save smaller ones")?;
    let fitting = |x: &i64| i32::try_from(*x).ok().filter(|_| (least..=most).contains(x));
    let all: Option<Vec<i32>> = integers.iter().map(fitting).collect();
    all.ok_or_else(|| {
        let wrong = integers
            .iter()
            .find(|x| fitting(x).is_none())
            .copied()
            .unwrap_or_default();
        format!("has the value {wrong}, but the input takes integers from {least} to {most}; save such ones")
    })
}

/// The integers that an element can be.
fn range(element: Element) -> std::ops::RangeInclusive<i64> {
    match element {
        Element::Int(bytes @ 1..=4) => -(1 << (8 * bytes - 1))..=(1 << (8 * bytes - 1)) - 1,
        Element::Unsigned(bytes @ 1..=4) => 0..=(1 << (8 * bytes)) - 1,
        Element::Unsigned(_) => 0..=i64::MAX,
        _ => i64::MIN..=i64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(array: Array, element: Element) -> Result<HostArray, String> {
        super::taken(&array, element)
    }

    #[test]
    fn floats_are_taken_where_nothing_is_rounded() {
        let single = Array::new(&[2], [0.1f32, -2.0]);
        assert_eq!(taken(single.clone(), Element::F32), Ok(HostArray::F32(vec![0.1, -2.0])));
        assert_eq!(taken(single.clone(), Element::F16), Ok(HostArray::F32(vec![0.1, -2.0])));
        assert_eq!(
            taken(single.clone(), Element::F64),
            Ok(HostArray::F64(vec![0.1f32.into(), -2.0]))
        );
        assert!(
            taken(Array::new(&[1], [0.5f64]), Element::F32)
                .unwrap_err()
                .contains("float64")
        );
        assert!(
            taken(single, Element::Int(8))
                .unwrap_err()
                .contains("array.astype(\"int64\")")
        );
        assert!(taken(Array::new(&[1], [1u8]), Element::F32).is_err());
        assert!(taken(Array::new(&[1], [1u8]), Element::Bool).is_err());
        assert!(taken(Array::new(&[1], [true]), Element::Int(4)).is_err());
        assert_eq!(
            taken(Array::new(&[2], [true, false]), Element::Bool),
            Ok(HostArray::Bool(vec![1, 0]))
        );
    }

    #[test]
    fn integers_of_any_width_are_taken_where_they_fit() {
        let largest = [i64::from(i32::MAX), i64::from(i32::MIN)];
        assert_eq!(
            taken(Array::new(&[2], largest), Element::Int(8)),
            Ok(HostArray::I32(vec![i32::MAX, i32::MIN]))
        );
        assert_eq!(
            taken(Array::new(&[1], [7u8]), Element::Int(8)),
            Ok(HostArray::I32(vec![7]))
        );
        let refused = |value: i64, element: Element| taken(Array::new(&[2], [0, value]), element).unwrap_err();
        assert!(
            refused(1 << 31, Element::Int(8))
                .contains("value 2147483648, but the input takes integers from -2147483648")
        );
        assert!(refused(-129, Element::Int(1)).contains("from -128 to 127"));
        assert!(refused(256, Element::Unsigned(1)).contains("from 0 to 255"));
        assert!(refused(-1, Element::Unsigned(8)).contains("from 0 to 2147483647"));
        assert!(refused(-1, Element::Unsigned(4)).contains("from 0 to 2147483647"));
    }
}
