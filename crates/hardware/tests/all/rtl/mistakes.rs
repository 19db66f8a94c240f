//! Descriptions that no unit takes.

use lessen_hardware::Error;
use lessen_hardware::rtl::{Exponent, Fire, FireHead, Gelu, Number, Order, Relu, RowBuffer, Softmax};

fn refused<T>(unit: Result<T, Error>, sentence: &str) {
    let error = unit.err().unwrap_or_else(|| panic!("taken: {sentence}"));
    assert_eq!(error.exit_code(), 2);
    assert_eq!(error.message(), sentence);
}

#[test]
fn what_no_unit_takes_is_refused_in_a_sentence() {
    let q16 = Number::fixed(5, 10).unwrap();
    let (two, table) = (Order::TwoPass, Exponent::Table);
    refused(
        Number::fixed(40, 2),
        "Q40.2 has 43 bits with its sign; a unit takes 2 to 32",
    );
    refused(
        Number::fixed(u32::MAX, 2),
        "Q4294967295.2 has 4294967295 bits with its sign; a unit takes 2 to 32",
    );
    refused(Relu::new(q16, 0), "a unit has 1 to 256 lanes, not 0");
    refused(
        Softmax::new(q16, 8, 0, two, table),
        "softmax units take rows of 1 to 65536 elements, not 0",
    );
    refused(
        Softmax::new(Number::fixed(15, 16).unwrap(), 8, 64, two, table),
        "softmax units take 4 to 16 bits with 1 to 14 after the point, or bf16, not q15_16",
    );
    refused(
        Softmax::normalized(Number::Bf16, 8, 64, table, 1.0),
        "NormSoftmax has no unit for bf16: its sums of squares need another format; take fixed point",
    );
    refused(
        Softmax::normalized(q16, 8, 64, table, f64::NAN),
        "gamma is 0.001 to 1000, not NaN",
    );
    refused(
        Gelu::new(Number::fixed(6, 1).unwrap(), 1),
        "GELU units take up to 16 bits with 3 to 12 after the point, or bf16, not q6_1",
    );
    let head = |hidden| FireHead { hidden, offset: 0.0 };
    refused(
        Fire::new(q16, 1, head(vec![[1.0; 3]; 33])),
        "a FIRE unit has at most 32 hidden units, not 33",
    );
    refused(
        Fire::new(q16, 1, head(vec![[f64::NAN, 1.0, 1.0]])),
        "a FIRE unit's slopes and intercepts are below 16384; scale the head's parameters",
    );
    refused(
        RowBuffer::new(q16, 8, 8),
        "a row buffer holds two words of 8 elements to 4096 elements, not 8",
    );
}
