//! How two arrays of bytes are added.

use std::fmt;
use std::sync::Arc;

/// A function that adds the second array to the first; both have as many bytes.
type Add = dyn Fn(&mut [u8], &[u8]) + Send + Sync;

/// The addition of two arrays of numbers that are given as bytes, little-endian.
#[derive(Clone)]
pub struct Addition {
    width: usize,
    add: Arc<Add>,
}

impl fmt::Debug for Addition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "addition of numbers of {} bytes", self.width)
    }
}

impl Addition {
    /// The addition of `f32` numbers.
    pub fn f32() -> Addition {
        Addition::elementwise(|a, b| (f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes())
    }

    /// The addition of numbers of 16 bits by a function of two of them, such as `bf16`.
    pub fn u16(add: impl Fn(u16, u16) -> u16 + Send + Sync + 'static) -> Addition {
        Addition::elementwise(move |a, b| add(u16::from_le_bytes(a), u16::from_le_bytes(b)).to_le_bytes())
    }

    fn elementwise<const WIDTH: usize>(
        add: impl Fn([u8; WIDTH], [u8; WIDTH]) -> [u8; WIDTH] + Send + Sync + 'static,
    ) -> Addition {
        let all = move |left: &mut [u8], right: &[u8]| {
            let (left, _) = left.as_chunks_mut::<WIDTH>();
            let (right, _) = right.as_chunks::<WIDTH>();
            for (a, b) in left.iter_mut().zip(right) {
                *a = add(*a, *b);
            }
        };
        Addition {
            width: WIDTH,
            add: Arc::new(all),
        }
    }

    /// Bytes of one number.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Adds the numbers of `right` to those of `left`, as many as both have.
    pub fn add(&self, left: &mut [u8], right: &[u8]) {
        (self.add)(left, right);
    }
}
