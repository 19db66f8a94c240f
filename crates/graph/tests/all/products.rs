//! Products of stacks of matrices whose leading axes broadcast.

use lessen_graph::{Array, Type};

use crate::check::{assert_near, check_gradient, function, run};
use crate::prng::Prng;

/// The leading axes of two stacks, and of their product.
type Lead = (&'static [usize], &'static [usize], &'static [usize]);

const LEADS: [Lead; 8] = [
    (&[], &[4], &[4]),
    (&[], &[1], &[1]),
    (&[1], &[4], &[4]),
    (&[4], &[1], &[4]),
    (&[4, 1], &[4, 2], &[4, 2]),
    (&[3, 1], &[1, 2], &[3, 2]),
    (&[2], &[3, 1], &[3, 2]),
    (&[2, 3], &[1, 1], &[2, 3]),
];

/// The position in a stack that a position in a wider one repeats.
fn within(index: &[usize], lead: &[usize]) -> Vec<usize> {
    let skipped = index.len() - lead.len();
    let at = |(&i, &n): (&usize, &usize)| if n == 1 { 0 } else { i };
    index[skipped..].iter().zip(lead).map(at).collect()
}

#[test]
fn leading_axes_broadcast() {
    let mut r = Prng::new(41);
    for (lead_a, lead_b, lead) in LEADS {
        let (a, b) = (
            r.normal(&[lead_a, &[2, 3]].concat()),
            r.normal(&[lead_b, &[3, 2]].concat()),
        );
        let found = run(
            &[a.clone(), b.clone()],
            &function(|_, x| {
                let turned = x[1].transpose(-1, -2);
                vec![x[0].matmul(x[1]), x[0].matmul_t(turned)]
            }),
        );
        let expected = Array::from_fn(Type::f32(&[lead, &[2, 2]].concat()), |index| {
            let (stack, matrix) = index.split_at(lead.len());
            let (in_a, in_b) = (within(stack, lead_a), within(stack, lead_b));
            let term = |l| a.at(&[&in_a[..], &[matrix[0], l]].concat()) * b.at(&[&in_b[..], &[l, matrix[1]]].concat());
            (0..3).map(term).sum()
        });
        for product in &found {
            assert_near(&format!("{lead_a:?} {lead_b:?}"), product, &expected, 1e-14);
        }
    }
}

#[test]
fn derivatives_are_summed_over_broadcast_axes() {
    let mut r = Prng::new(42);
    for (lead_a, lead_b, _) in LEADS {
        let inputs = [
            r.normal(&[lead_a, &[2, 3]].concat()),
            r.normal(&[lead_b, &[3, 2]].concat()),
        ];
        let first = function(|_, x| vec![x[0].matmul(x[1]).tanh().sum()]);
        check_gradient(&format!("{lead_a:?} {lead_b:?}"), &inputs, &first);
        let second = function(|_, x| {
            let gradients = x[0].matmul_t(x[1].transpose(-1, -2)).tanh().sum().grad(x);
            vec![gradients.iter().map(|g| (*g * *g).sum()).reduce(|a, b| a + b).unwrap()]
        });
        check_gradient(&format!("{lead_a:?} {lead_b:?}, twice"), &inputs, &second);
    }
}
