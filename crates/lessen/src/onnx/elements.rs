//! Arrays of NumPy's files as a model takes and gives them.

use lessen_data::arrays::{Array, Dtype};
use lessen_onnx::{Data, Element, HostTensor};

/// The elements of an array for an input of this type, or else the mistake as the end of a sentence. Numbers are never
/// rounded, and integers may have any width.
pub(super) fn taken(array: &Array, element: Element) -> Result<HostTensor, String> {
    let takes = dtype(element);
    let fault = |why: String| format!("{why}; save it as array.astype(\"{takes}\")");
    let kind = |dtype: Dtype| match dtype {
        Dtype::Bool => 0,
        Dtype::Signed(_) | Dtype::Unsigned(_) => 1,
        Dtype::Float(_) => 2,
    };
    let is_wider = match (array.dtype(), takes) {
        (Dtype::Float(own), Dtype::Float(most)) => own > most,
        _ => false,
    };
    if kind(array.dtype()) != kind(takes) || is_wider {
        return Err(fault(format!("holds {}, but the input takes {takes}", array.dtype())));
    }
    let is_narrow = matches!(element, Element::Narrow(_));
    let data = if array.dtype() == takes && element != Element::BF16 && !is_narrow {
        Data::of_bytes(element, array.bytes())
    } else if matches!(takes, Dtype::Float(_)) {
        let data = Data::of_f64(element, array.floats());
        let is_same = |(x, y): (f64, f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
        if !data.to_f64().into_iter().zip(array.floats()).all(is_same) {
            return Err(fault(format!(
                "holds {}, whose numbers {} would round",
                array.dtype(),
                element
            )));
        }
        data
    } else {
        integers(array, element)?
    };
    HostTensor::new(array.shape(), data).map_err(|error| error.message().to_string())
}

/// The dtype of arrays with elements of a model; NumPy has no `bfloat16` and no floats of 8 or 4 bits, whose numbers
/// are in 32 bits, and no integers of less than a byte, which are in one.
pub(super) fn dtype(element: Element) -> Dtype {
    match element {
        Element::F16 => Dtype::Float(2),
        Element::F32 | Element::BF16 => Dtype::Float(4),
        Element::F64 => Dtype::Float(8),
        Element::Int(bytes) => Dtype::Signed(bytes),
        Element::Unsigned(bytes) => Dtype::Unsigned(bytes),
        Element::Bool => Dtype::Bool,
        Element::Narrow(narrow) => match narrow.range() {
            Some((least, _)) if least < 0 => Dtype::Signed(1),
            Some(_) => Dtype::Unsigned(1),
            None => Dtype::Float(4),
        },
    }
}

/// An array as a file of NumPy holds it; none for texts.
pub fn array(tensor: &HostTensor) -> Option<Array> {
    let shape = tensor.shape();
    Some(match tensor.data() {
        Data::BF16(v) => Array::new(shape, v.iter().map(|x| x.to_f32())),
        data if matches!(data.element()?, Element::Narrow(_)) => {
            let numbers = data.to_f64();
            match dtype(data.element()?) {
                Dtype::Signed(_) => Array::new(shape, numbers.into_iter().map(|x| x as i8)),
                Dtype::Unsigned(_) => Array::new(shape, numbers.into_iter().map(|x| x as u8)),
                _ => Array::new(shape, numbers.into_iter().map(|x| x as f32)),
            }
        }
        data => Array::of_bytes(shape.to_vec(), dtype(data.element()?), data.to_bytes()),
    })
}

/// Integers that fit the model's elements.
fn integers(array: &Array, element: Element) -> Result<Data, String> {
    let (least, most) = range(element);
    let integers = array
        .integers()
        .ok_or("has integers beyond 2^63, which the input does not take; save smaller ones")?;
    let fits = |x: &i64| (least..=most).contains(&i128::from(*x));
    if let Some(wrong) = integers.iter().find(|x| !fits(x)) {
        return Err(format!(
            "has the value {wrong}, but the input takes integers from {least} to {most}; save such ones"
        ));
    }
    if matches!(element, Element::Narrow(_)) {
        return Ok(Data::of_f64(element, integers.iter().map(|x| *x as f64)));
    }
    let bytes = integers
        .iter()
        .flat_map(|x| x.to_le_bytes().into_iter().take(element.bytes()))
        .collect::<Vec<u8>>();
    Ok(Data::of_bytes(element, &bytes))
}

/// The least and the greatest integer that an element can be.
fn range(element: Element) -> (i128, i128) {
    let bits = 8 * element.bytes() as u32;
    match element {
        Element::Unsigned(_) => (0, (1 << bits) - 1),
        Element::Narrow(narrow) => narrow
            .range()
            .map_or((0, 0), |(least, most)| (least.into(), most.into())),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(array: Array, element: Element) -> Result<Data, String> {
        super::taken(&array, element).map(|tensor| tensor.data().clone())
    }

    #[test]
    fn floats_are_taken_where_nothing_is_rounded() {
        let single = Array::new(&[2], [0.1f32, -2.0]);
        assert_eq!(taken(single.clone(), Element::F32), Ok(vec![0.1f32, -2.0].into()));
        assert_eq!(
            taken(single.clone(), Element::F64),
            Ok(vec![f64::from(0.1f32), -2.0].into())
        );
        assert!(taken(Array::new(&[1], [0.5f64]), Element::F32).is_err());
        let rounded = taken(single.clone(), Element::F16).unwrap_err();
        assert!(
            rounded.contains("holds float32, but the input takes float16; save it as array.astype(\"float16\")"),
            "{rounded}"
        );
        assert!(taken(Array::new(&[1], [0.5f32]), Element::BF16).is_ok());
        assert!(
            taken(Array::new(&[1], [0.1f32]), Element::BF16)
                .unwrap_err()
                .contains("bfloat16")
        );
        assert!(
            taken(Array::new(&[1], [0.1f64]), Element::F32)
                .unwrap_err()
                .contains("float64")
        );
        let wrong = taken(single, Element::Int(8)).unwrap_err();
        assert!(wrong.contains("array.astype(\"int64\")"), "{wrong}");
        assert!(taken(Array::new(&[1], [1u8]), Element::F32).is_err());
        assert!(taken(Array::new(&[1], [1u8]), Element::Bool).is_err());
        assert!(taken(Array::new(&[1], [true]), Element::Int(4)).is_err());
        assert_eq!(
            taken(Array::new(&[2], [true, false]), Element::Bool),
            Ok(vec![true, false].into())
        );
    }

    #[test]
    fn integers_of_any_width_are_taken_where_they_fit() {
        let wide = [i64::MAX, i64::MIN];
        assert_eq!(taken(Array::new(&[2], wide), Element::Int(8)), Ok(wide.to_vec().into()));
        assert_eq!(
            taken(Array::new(&[1], [200u8]), Element::Int(2)),
            Ok(vec![200i16].into())
        );
        let refused = |value: i64, element| taken(Array::new(&[2], [0, value]), element).unwrap_err();
        assert!(
            refused(1 << 31, Element::Int(4))
                .contains("value 2147483648, but the input takes integers from -2147483648")
        );
        assert!(refused(-129, Element::Int(1)).contains("from -128 to 127"));
        assert!(refused(256, Element::Unsigned(1)).contains("from 0 to 255"));
        assert!(refused(-1, Element::Unsigned(8)).contains("from 0 to 18446744073709551615"));
    }

    #[test]
    fn arrays_keep_their_types() {
        let tensor = HostTensor::vector(vec![1u16, 65535]);
        let array = array(&tensor).unwrap();
        assert_eq!(
            (array.dtype(), array.integers()),
            (Dtype::Unsigned(2), Some(vec![1, 65535]))
        );
        assert!(super::array(&HostTensor::vector(vec!["a".to_string()])).is_none());
    }
}
