//! The elements of an array as a type that is known when this is compiled.

use half::{bf16, f16};

use super::data::{Data, each_number};

/// A type of numbers, truth values or texts.
pub trait Typed: Clone + Sized {
    /// The elements, if they have this type.
    fn of(data: &Data) -> Option<&[Self]>;
}

macro_rules! typed {
    ($($type:ty => $variant:ident, $name:literal;)+) => {
        $(
            impl Typed for $type {
                fn of(data: &Data) -> Option<&[Self]> {
                    match data {
                        Data::$variant(all) => Some(all),
                        _ => None,
                    }
                }
            }
        )+

        impl Data {
            /// The name of the element type in ONNX.
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Data::$variant(_) => $name,)+
                    Data::Narrow(all) => all.narrow().name(),
                }
            }
        }
    };
}

typed! {
    bool => Bool, "bool";
    i8 => I8, "int8";
    i16 => I16, "int16";
    i32 => I32, "int32";
    i64 => I64, "int64";
    u8 => U8, "uint8";
    u16 => U16, "uint16";
    u32 => U32, "uint32";
    u64 => U64, "uint64";
    f16 => F16, "float16";
    bf16 => BF16, "bfloat16";
    f32 => F32, "float";
    f64 => F64, "double";
    String => Text, "string";
}

impl Data {
    /// Adds the elements of other data; whether these have the same type, else nothing is added.
    pub fn extend(&mut self, more: &Data) -> bool {
        fn of<T: Typed>(all: &mut Vec<T>, more: &Data) -> bool {
            let more = T::of(more);
            all.extend_from_slice(more.unwrap_or_default());
            more.is_some()
        }
        match (self, more) {
            (Data::Narrow(all), Data::Narrow(more)) if all.narrow() == more.narrow() => {
                all.bits_mut().extend_from_slice(more.bits());
                true
            }
            (Data::Bool(all), more) => of(all, more),
            (Data::Text(all), more) => of(all, more),
            (numbers, more) => each_number!(numbers, all => of(all, more), else false),
        }
    }
}
