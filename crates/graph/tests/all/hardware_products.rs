//! What operations say of their products to hardware, beside their costs.

use lessen_graph::Type;

use crate::cases::cases;

#[test]
fn the_products_that_an_operation_describes_are_those_of_its_cost() {
    let mut described = std::collections::BTreeSet::new();
    for case in cases(7) {
        let inputs: Vec<Type> = case.inputs.iter().map(|input| input.ty.clone()).collect();
        let outputs = case.op.infer(&inputs).unwrap();
        let products = case.op.products(&inputs, &outputs);
        if products.is_empty() {
            continue;
        }
        let name = case.op.name();
        described.insert(name);
        let of = |products: &lessen_graph::Products| {
            for factor in products.factors.into_iter().flatten() {
                assert!(factor < inputs.len(), "{name} has no input {factor}");
            }
            let windows = products.windows.map_or(1, |[rows, columns]| {
                rows.windows * columns.windows * rows.taps * columns.taps
            });
            let each = products.batch * windows * (products.inputs / products.groups) * products.outputs;
            2.0 * (each * products.repeats) as f64
        };
        let flops: f64 = products.iter().map(of).sum();
        let cost = case.op.cost(&inputs, &outputs).product_flops;
        // An attention whose queries see a part of the keys costs less on a machine that skips the others.
        match name == "attention" {
            true => assert!(flops >= cost, "{name}: {flops}, below {cost}"),
            false => assert_eq!(flops, cost, "{name}"),
        }
    }
    for name in [
        "attention",
        "conv2d",
        "conv2d_grad_input",
        "gru",
        "lstm",
        "matmul",
        "quantized_matmul",
    ] {
        assert!(described.contains(name), "{name} has no case here: {described:?}");
    }
}
