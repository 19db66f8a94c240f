//! The learned parameters of FIRE, and the functions that they make.

use lessen_graph::ops::attention::{FIRE_EPSILON, FIRE_LENGTH, Fire};

/// The parameters of FIRE: numbers, and where arrays begin.
#[derive(Clone, Copy)]
pub(super) struct Parameters {
    pub(super) c: f64,
    pub(super) l: f64,
    arrays: Fire<*const f32>,
    width: usize,
}

impl Parameters {
    /// # Safety
    /// The parameters have the elements of their types, with this many hidden units.
    pub(super) unsafe fn new(arrays: Fire<*const f32>, width: usize) -> Parameters {
        // SAFETY: they are single numbers.
        let [c, l] = unsafe { [f64::from(*arrays.c), f64::from(*arrays.l)] };
        Parameters { c, l, arrays, width }
    }

    /// The slope and the shift of a hidden unit.
    pub(super) fn unit(&self, k: usize) -> (f64, f64) {
        // SAFETY: the arrays have an element for each unit.
        unsafe { (f64::from(*self.arrays.w1.add(k)), f64::from(*self.arrays.b1.add(k))) }
    }

    /// The weight of a hidden unit in a head.
    pub(super) fn weight(&self, head: usize, k: usize) -> f64 {
        // SAFETY: as above, for each head.
        f64::from(unsafe { *self.arrays.w2.add(head * self.width + k) })
    }

    pub(super) fn shift(&self, head: usize) -> f64 {
        // SAFETY: as above.
        f64::from(unsafe { *self.arrays.b2.add(head) })
    }

    /// The length below which rows have one denominator.
    pub(super) fn length(&self) -> f64 {
        self.l.abs() * FIRE_LENGTH
    }

    /// The derivative of the length with respect to `l`.
    pub(super) fn length_by_l(&self) -> f64 {
        FIRE_LENGTH * self.l.signum()
    }

    /// `psi(x) = log(|c x| + 1)`, and its derivative with respect to `c`.
    pub(super) fn psi(&self, x: f64) -> f64 {
        (self.c * x).abs().ln_1p()
    }
    pub(super) fn psi_by_c(&self, x: f64) -> f64 {
        let sign = if self.c == 0.0 { 0.0 } else { self.c.signum() };
        sign * x.abs() / ((self.c * x).abs() + 1.0)
    }

    /// The derivative of `psi` at the argument itself.
    pub(super) fn psi_by_x(&self, x: f64) -> f64 {
        self.c.abs() * x.signum() / ((self.c * x).abs() + 1.0)
    }

    /// One divided by the denominator of a query at a position.
    pub(super) fn inverse(&self, position: f64) -> f64 {
        1.0 / (self.psi(position.max(self.length())) + FIRE_EPSILON)
    }

    /// The argument above which a unit is active, or below which if its slope is negative; none if it never changes for
    /// `u >= 0`.
    pub(super) fn kink(&self, k: usize) -> Option<f64> {
        let (slope, shift) = self.unit(k);
        let u = -shift / slope;
        (u.is_finite() && (u > 0.0 || u == 0.0 && slope > 0.0)).then_some(u)
    }

    /// Whether a unit is active for the argument 0.
    pub(super) fn active_at_zero(&self, k: usize) -> bool {
        self.unit(k).1 > 0.0
    }
}
