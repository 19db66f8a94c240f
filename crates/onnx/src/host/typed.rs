//! The elements of an array as a type that is known when this is compiled.

use half::{bf16, f16};

use super::data::Data;
use super::narrow_number::NarrowNumber;

/// A type of elements.
pub(crate) trait Typed: Clone + Sized {
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
    NarrowNumber<17> => E4M3, "float8e4m3fn";
    NarrowNumber<18> => E4M3Uz, "float8e4m3fnuz";
    NarrowNumber<19> => E5M2, "float8e5m2";
    NarrowNumber<20> => E5M2Uz, "float8e5m2fnuz";
    NarrowNumber<21> => U4, "uint4";
    NarrowNumber<22> => I4, "int4";
    NarrowNumber<23> => E2M1, "float4e2m1";
    NarrowNumber<24> => E8M0, "float8e8m0";
    NarrowNumber<25> => U2, "uint2";
    NarrowNumber<26> => I2, "int2";
}
