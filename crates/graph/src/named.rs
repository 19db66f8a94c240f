//! Named operations: the text form writes one as its name and attributes and builds it from them again.

use std::any::TypeId;
use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::attrs::{Attr, Attrs};
use crate::op::Op;
use crate::types::DType;

/// An operation with a name and attributes. The macro [`named!`](crate::named) implements it from the names of the
/// fields.
pub trait Named: Sized {
    /// Name in the text form; unique, of letters, digits, underscores and dots.
    const NAME: &'static str;

    /// Attributes, in the order of the text form.
    fn to_attrs(&self) -> Attrs;

    /// The operation with these attributes.
    ///
    /// # Errors
    /// A sentence that names the attribute which is missing or wrong.
    fn from_attrs(attrs: &Attrs) -> Result<Self>;
}

/// Implements [`Named`](crate::Named) for a struct whose fields are attributes: `named!("slice": Slice { axis, start,
/// len })`. `field as "name"` gives an attribute another name than its field.
///
/// In an `impl Op` block of such a struct, `named!();` stands for [`Op::name`](crate::Op::name) and
/// [`Op::attrs`](crate::Op::attrs).
#[macro_export]
macro_rules! named {
    () => {
        fn name(&self) -> &'static str {
            <Self as $crate::Named>::NAME
        }

        fn attrs(&self) -> $crate::Attrs {
            $crate::Named::to_attrs(self)
        }
    };
    ($name:literal: $op:ident { $($field:ident $(as $attr:literal)?),* $(,)? }) => {
        impl $crate::Named for $op {
            const NAME: &'static str = $name;

            fn to_attrs(&self) -> $crate::Attrs {
                $crate::Attrs::new()
                    $(.with($crate::named!(@name $field $($attr)?), $crate::AttrValue::to_attr(&self.$field)))*
            }

            fn from_attrs(attrs: &$crate::Attrs) -> $crate::Result<Self> {
                let _ = attrs;
                Ok($op { $($field: $crate::AttrValue::read(attrs, $crate::named!(@name $field $($attr)?))?),* })
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $attr:literal) => { $attr };
}

/// A field that an attribute holds.
pub trait AttrValue: Sized {
    /// The attribute.
    fn to_attr(&self) -> Attr;

    /// The value of the attribute of this name.
    ///
    /// # Errors
    /// A sentence that names the attribute, when it is missing, has another type or is out of range.
    fn read(attrs: &Attrs, name: &str) -> Result<Self>;
}

/// Implements [`AttrValue`] from a conversion to an attribute and the getter of [`Attrs`].
macro_rules! attr_value {
    ($($ty:ty: $to:expr, $get:ident;)*) => {$(
        impl AttrValue for $ty {
            fn to_attr(&self) -> Attr {
                let to: fn(&$ty) -> Attr = $to;
                to(self)
            }

            fn read(attrs: &Attrs, name: &str) -> Result<Self> {
                attrs.$get(name)
            }
        }
    )*};
}

attr_value! {
    i64: |v| Attr::Int(*v), int;
    f64: |v| Attr::Float(*v), float;
    bool: |v| Attr::Bool(*v), bool;
    usize: |v| Attr::Int(*v as i64), size;
    Vec<usize>: |v| Attr::sizes(v), sizes;
    DType: |v| Attr::Word(v.name().to_string()), dtype;
}

impl AttrValue for u32 {
    fn to_attr(&self) -> Attr {
        Attr::Int((*self).into())
    }

    fn read(attrs: &Attrs, name: &str) -> Result<u32> {
        u32::try_from(attrs.int(name)?).map_err(|_| Error::user(format!("attribute `{name}` must be in 0..2^32")))
    }
}

impl AttrValue for u8 {
    fn to_attr(&self) -> Attr {
        Attr::Int((*self).into())
    }

    fn read(attrs: &Attrs, name: &str) -> Result<u8> {
        u8::try_from(attrs.int(name)?).map_err(|_| Error::user(format!("attribute `{name}` must be in 0..256")))
    }
}

impl<const N: usize> AttrValue for [usize; N] {
    fn to_attr(&self) -> Attr {
        Attr::sizes(self)
    }

    fn read(attrs: &Attrs, name: &str) -> Result<[usize; N]> {
        let sizes = attrs.sizes(name)?;
        sizes
            .try_into()
            .map_err(|_| Error::user(format!("attribute `{name}` must be a list of {N} sizes")))
    }
}

/// Implements [`AttrValue`] for an enum of functions, written as words, from its `ALL` and `name`.
macro_rules! function_names {
    ($kind:ident) => {
        impl $crate::AttrValue for $kind {
            fn to_attr(&self) -> $crate::Attr {
                $crate::Attr::Word(self.name().to_string())
            }

            fn read(attrs: &$crate::Attrs, name: &str) -> $crate::Result<$kind> {
                let word = attrs.word(name)?;
                let found = $kind::ALL.into_iter().find(|kind| kind.name() == word);
                found.ok_or_else(|| $crate::Error::user(format!("there is no function `{word}`")))
            }
        }
    };
}

/// Builds an operation from its attributes, or names the one that is missing or wrong.
pub type Build = fn(&Attrs) -> Result<Arc<dyn Op>>;

/// An operation of this crate, as the registry knows it.
pub(crate) struct Standard {
    pub name: &'static str,
    pub type_id: fn() -> TypeId,
    pub build: Build,
}

impl Standard {
    pub const fn of<T: Op + Named>() -> Standard {
        Standard {
            name: T::NAME,
            type_id: TypeId::of::<T>,
            build: |attrs| Ok(Arc::new(T::from_attrs(attrs)?)),
        }
    }
}
