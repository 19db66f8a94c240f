//! Elements converted to other types. They pass through blocks of wide numbers, so that there is code for each type,
//! not for each pair of types.

use half::{bf16, f16};

use crate::element::Element;
use crate::host::{Data, NarrowNumbers, Number, each_float, each_integer};
use crate::narrow::{Narrow, Narrowing};

/// Elements of a block.
const BLOCK: usize = 1024;

/// Numbers and truth values as by [`Data::cast`], where they become narrow floats in a given way.
pub fn cast_by(data: &Data, to: Element, how: Narrowing) -> Data {
    fn in_blocks<T: Copy, W>(all: &[T], wide: impl Fn(T) -> W, mut take: impl FnMut(&[W])) {
        let mut block = Vec::with_capacity(BLOCK.min(all.len()));
        for part in all.chunks(BLOCK) {
            block.clear();
            block.extend(part.iter().map(|x| wide(*x)));
            take(&block);
        }
    }
    let mut made = Data::with_capacity(to, data.len());
    let takes_floats = to.is_float() || matches!(to, Element::Narrow(narrow) if narrow.range().is_none());
    match data {
        Data::Bool(all) => in_blocks(all, i64::from, |block| push_integers(&mut made, block, how)),
        // Integers beyond 2^63 wrap in integers, but not in floats.
        Data::U64(all) if takes_floats => in_blocks(all, i128::from, |block| push_large(&mut made, block, how)),
        // Narrow numbers are exact in double precision.
        Data::Narrow(all) => push_cut(&mut made, &all.to_f64(), how),
        Data::Text(_) => {}
        floats if floats.element().is_some_and(Element::is_float) => {
            each_float!(floats, all => in_blocks(all, Number::to_f64, |block| push_cut(&mut made, block, how)), else ());
        }
        integers => {
            each_integer!(integers, all => in_blocks(all, |x| x.to_i128() as i64, |block| {
                push_integers(&mut made, block, how);
            }), else ());
        }
    }
    made
}

/// Adds floats, of which integers cut fractions off.
fn push_cut(to: &mut Data, block: &[f64], how: Narrowing) {
    fn each<T: Number>(all: &mut Vec<T>, block: &[f64]) {
        all.extend(block.iter().map(|x| T::cut(*x)));
    }
    match to {
        Data::Bool(all) => all.extend(block.iter().map(|x| *x != 0.0)),
        Data::Narrow(all) => {
            let narrow = all.narrow();
            let is_integer = narrow.range().is_some();
            all.extend(block.iter().map(|x| match is_integer {
                true => narrow.write(i32::cut(*x).into(), how),
                false => narrow.write(*x, how),
            }));
        }
        numbers => crate::host::each_number!(numbers, all => each(all, block), else ()),
    }
}

/// Adds integers.
fn push_integers(to: &mut Data, block: &[i64], how: Narrowing) {
    fn each<T: Number>(all: &mut Vec<T>, block: &[i64]) {
        all.extend(block.iter().map(|x| T::of_i128((*x).into())));
    }
    match to {
        Data::Bool(all) => all.extend(block.iter().map(|x| *x != 0)),
        Data::Narrow(all) => {
            let narrow = all.narrow();
            let is_integer = narrow.range().is_some();
            all.extend(block.iter().map(|x| match is_integer {
                true => narrow.write(f64::from(*x as u8), how),
                false => narrow.write(*x as f64, how),
            }));
        }
        numbers => crate::host::each_number!(numbers, all => each(all, block), else ()),
    }
}

/// Adds integers of more than 63 bits to floats.
fn push_large(to: &mut Data, block: &[i128], how: Narrowing) {
    fn each<T: Number>(all: &mut Vec<T>, block: &[i128]) {
        all.extend(block.iter().map(|x| T::of_i128(*x)));
    }
    match to {
        Data::Narrow(all) => {
            let narrow = all.narrow();
            all.extend(block.iter().map(|x| narrow.write(*x as f64, how)));
        }
        floats => each_float!(floats, all => each(all, block), else ()),
    }
}

impl Data {
    /// Numbers and truth values in another type: floats round to even, integers wrap, and of floats they cut fractions
    /// off; every number but zero is true. There are none of texts.
    pub fn cast(&self, to: Element) -> Data {
        cast_by(self, to, Narrowing::default())
    }

    /// No elements of a type, with room for some.
    fn with_capacity(element: Element, count: usize) -> Data {
        match element {
            Element::Bool => Data::Bool(Vec::with_capacity(count)),
            Element::Int(1) => Data::I8(Vec::with_capacity(count)),
            Element::Int(2) => Data::I16(Vec::with_capacity(count)),
            Element::Int(4) => Data::I32(Vec::with_capacity(count)),
            Element::Int(_) => Data::I64(Vec::with_capacity(count)),
            Element::Unsigned(1) => Data::U8(Vec::with_capacity(count)),
            Element::Unsigned(2) => Data::U16(Vec::with_capacity(count)),
            Element::Unsigned(4) => Data::U32(Vec::with_capacity(count)),
            Element::Unsigned(_) => Data::U64(Vec::with_capacity(count)),
            Element::F16 => Data::F16(Vec::with_capacity(count)),
            Element::BF16 => Data::BF16(Vec::with_capacity(count)),
            Element::F32 => Data::F32(Vec::with_capacity(count)),
            Element::F64 => Data::F64(Vec::with_capacity(count)),
            Element::Narrow(narrow) => Data::Narrow(NarrowNumbers::new(narrow, Vec::with_capacity(count))),
        }
    }

    /// Elements of a type from floats, each the nearest one; a truth value is whether a number is not zero.
    pub fn of_f64(element: Element, all: impl Iterator<Item = f64>) -> Data {
        Data::by_blocks(element, all, Data::push_nearest)
    }

    /// Elements of a type from integers, which wrap.
    pub fn of_integers(element: Element, all: impl Iterator<Item = i64>) -> Data {
        Data::by_blocks(element, all, |made, block| {
            push_integers(made, block, Narrowing::default())
        })
    }

    /// Elements of a type from wide numbers, of which `push` appends a block at a time.
    fn by_blocks<T>(element: Element, mut all: impl Iterator<Item = T>, push: fn(&mut Data, &[T])) -> Data {
        let mut made = Data::with_capacity(element, all.size_hint().0);
        let mut block = Vec::with_capacity(BLOCK.min(all.size_hint().0));
        loop {
            block.clear();
            block.extend(all.by_ref().take(BLOCK));
            if block.is_empty() {
                return made;
            }
            push(&mut made, &block);
        }
    }

    fn push_nearest(&mut self, block: &[f64]) {
        fn each<T: Number>(all: &mut Vec<T>, block: &[f64]) {
            all.extend(block.iter().map(|x| T::of_f64(*x)));
        }
        match self {
            Data::Bool(all) => all.extend(block.iter().map(|x| *x != 0.0)),
            Data::F16(all) => all.extend(block.iter().map(|x| f16::from_f64(*x))),
            Data::BF16(all) => all.extend(block.iter().map(|x| bf16::from_f64(*x))),
            Data::Narrow(all) => {
                let narrow: Narrow = all.narrow();
                all.extend(block.iter().map(|x| narrow.write(*x, Narrowing::default())));
            }
            numbers => each_integer!(numbers, all => each(all, block), else match numbers {
                Data::F32(all) => all.extend(block.iter().map(|x| *x as f32)),
                Data::F64(all) => all.extend_from_slice(block),
                _ => {}
            }),
        }
    }
}
