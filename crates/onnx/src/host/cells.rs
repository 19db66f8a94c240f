//! Elements as cells of their width, for functions that move elements and do not look into them: such a function has
//! one instance for each width, not for each type.

use bytemuck::{cast_slice, cast_vec};

use super::data::Data;
use super::narrow_numbers::NarrowNumbers;

/// Cells as elements of their type.
type OfCells<T> = Box<dyn Fn(Vec<T>) -> Data>;

/// The elements of an array by their width, and how other cells become elements of the same type.
pub enum Cells<'d> {
    /// Elements of one byte.
    One(&'d [u8], OfCells<u8>),
    /// Elements of two bytes.
    Two(&'d [u16], OfCells<u16>),
    /// Elements of four bytes.
    Four(&'d [u32], OfCells<u32>),
    /// Elements of eight bytes.
    Eight(&'d [u64], OfCells<u64>),
    /// Texts.
    Texts(&'d [String], OfCells<String>),
}

impl<'d> Cells<'d> {
    /// The cells of elements.
    pub fn of(data: &'d Data) -> Cells<'d> {
        match data {
            Data::Bool(v) => Cells::One(
                cast_slice(v),
                Box::new(|all| Data::Bool(all.iter().map(|x| *x != 0).collect())),
            ),
            Data::I8(v) => Cells::One(cast_slice(v), Box::new(|all| Data::I8(cast_vec(all)))),
            Data::U8(v) => Cells::One(v, Box::new(Data::U8)),
            Data::Narrow(v) => {
                let narrow = v.narrow();
                Cells::One(
                    v.bits(),
                    Box::new(move |all| Data::Narrow(NarrowNumbers::new(narrow, all))),
                )
            }
            Data::I16(v) => Cells::Two(cast_slice(v), Box::new(|all| Data::I16(cast_vec(all)))),
            Data::U16(v) => Cells::Two(v, Box::new(Data::U16)),
            Data::F16(v) => Cells::Two(cast_slice(v), Box::new(|all| Data::F16(cast_vec(all)))),
            Data::BF16(v) => Cells::Two(cast_slice(v), Box::new(|all| Data::BF16(cast_vec(all)))),
            Data::I32(v) => Cells::Four(cast_slice(v), Box::new(|all| Data::I32(cast_vec(all)))),
            Data::U32(v) => Cells::Four(v, Box::new(Data::U32)),
            Data::F32(v) => Cells::Four(cast_slice(v), Box::new(|all| Data::F32(cast_vec(all)))),
            Data::I64(v) => Cells::Eight(cast_slice(v), Box::new(|all| Data::I64(cast_vec(all)))),
            Data::U64(v) => Cells::Eight(v, Box::new(Data::U64)),
            Data::F64(v) => Cells::Eight(cast_slice(v), Box::new(|all| Data::F64(cast_vec(all)))),
            Data::Text(v) => Cells::Texts(v, Box::new(Data::Text)),
        }
    }
}

/// What an element is moved as. The default is zero, false or an empty text.
pub trait Cell: Clone + Default {
    /// The elements, if they have this width.
    fn of(data: &Data) -> Option<&[Self]>;
}

macro_rules! cells {
    ($($type:ty => $width:ident),+) => { $(
        impl Cell for $type {
            fn of(data: &Data) -> Option<&[Self]> {
                match Cells::of(data) {
                    Cells::$width(all, _) => Some(all),
                    _ => None,
                }
            }
        }
    )+ };
}

cells! { u8 => One, u16 => Two, u32 => Four, u64 => Eight, String => Texts }

/// Elements of the type of `data` that are moved: `moved!(data, v => expression)`. `v` are the cells of `data`, and the
/// expression is a vector of such cells.
#[macro_export]
macro_rules! moved {
    ($data:expr, $v:ident => $body:expr) => {
        match $crate::host::Cells::of($data) {
            $crate::host::Cells::One($v, of_cells) => of_cells($body),
            $crate::host::Cells::Two($v, of_cells) => of_cells($body),
            $crate::host::Cells::Four($v, of_cells) => of_cells($body),
            $crate::host::Cells::Eight($v, of_cells) => of_cells($body),
            $crate::host::Cells::Texts($v, of_cells) => of_cells($body),
        }
    };
}
pub use moved;

impl Data {
    /// The elements in little-endian order, narrow ones in as few bytes as they need; of texts none.
    pub fn to_bytes(&self) -> Vec<u8> {
        if let Data::Narrow(v) = self {
            return v.narrow().packed(v.bits().iter().copied());
        }
        match Cells::of(self) {
            Cells::One(v, _) => v.to_vec(),
            Cells::Two(v, _) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Cells::Four(v, _) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Cells::Eight(v, _) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Cells::Texts(..) => Vec::new(),
        }
    }

    /// The elements at some places, which must be there.
    pub fn at(&self, places: impl Iterator<Item = usize>) -> Data {
        moved!(self, v => places.map(|place| Clone::clone(&v[place])).collect())
    }
}
