//! Operators that read and write elements at indices, choose, order and sum them up.

use lessen_onnx::HostTensor;

use super::{array, check, list, list_of_texts, node, six, tensor, text, texts};
use crate::builder::int;

#[test]
fn elements_are_read_and_written_at_indices() {
    let add = || text("reduction", "add");
    check(vec![
        node(
            "Gather",
            vec![six(), array(&[1, 2], vec![-1i32, 0])],
            vec![int("axis", 1)],
        )
        .gives(vec![array(&[2, 1, 2], vec![3i64, 1, 6, 4])]),
        node("GatherElements", vec![six(), array(&[1, 2], vec![-1i64, 0])], vec![])
            .gives(vec![array(&[1, 2], vec![4i64, 2])]),
        node(
            "GatherND",
            vec![six(), array(&[2, 1], vec![2i64, -3])],
            vec![int("batch_dims", 1)],
        )
        .gives(vec![list(&[3i64, 4])]),
        node("GatherND", vec![six(), array(&[2, 1], vec![1i64, 0])], vec![])
            .gives(vec![array(&[2, 3], vec![4i64, 5, 6, 1, 2, 3])]),
        node(
            "ScatterElements",
            vec![list(&[127i8, 0]), list(&[0i64, -2]), list(&[1i8, 1])],
            vec![add()],
        )
        .gives(vec![list(&[-127i8, 0])]),
        node(
            "ScatterElements",
            vec![texts(&[2], &["a", "b"]), list(&[1i64]), texts(&[1], &["c"])],
            vec![],
        )
        .gives(vec![texts(&[2], &["a", "c"])]),
        node(
            "ScatterND",
            vec![
                list(&[1f32, 2.0, 3.0]),
                array(&[3, 1], vec![0i64, 1, -1]),
                list(&[f32::NAN, 1.0, 9.0]),
            ],
            vec![text("reduction", "max")],
        )
        .gives(vec![list(&[f32::NAN, 2.0, 9.0])]),
        node(
            "TensorScatter",
            vec![
                array(&[1, 3, 1], vec![1u8, 2, 3]),
                array(&[1, 2, 1], vec![8u8, 9]),
                list(&[2i64]),
            ],
            vec![text("mode", "circular")],
        )
        .of_opset(24)
        .gives(vec![array(&[1, 3, 1], vec![9u8, 2, 8])]),
    ]);
}

#[test]
fn elements_are_chosen_and_ordered() {
    let tied = || list(&[2f32, f32::NAN, 5.0, 5.0]);
    check(vec![
        node("TopK", vec![tied(), list(&[3i64])], vec![]).gives(vec![list(&[f32::NAN, 5.0, 5.0]), list(&[1i64, 2, 3])]),
        node(
            "TopK",
            vec![array(&[2, 2], vec![4u8, 1, 3, 2]), list(&[1i64])],
            vec![int("axis", 0), int("largest", 0)],
        )
        .gives(vec![array(&[1, 2], vec![3u8, 1]), array(&[1, 2], vec![1i64, 0])]),
        node("ArgMax", vec![list(&[1i8, 5, 5])], vec![int("select_last_index", 1)]).gives(vec![list(&[2i64])]),
        node("ArgMin", vec![six()], vec![int("axis", 1), int("keepdims", 0)]).gives(vec![list(&[0i64, 0])]),
        node("NonZero", vec![array(&[2, 2], vec![true, false, true, true])], vec![])
            .gives(vec![array(&[2, 3], vec![0i64, 1, 1, 0, 0, 1])]),
        node("Compress", vec![six(), list(&[false, true])], vec![int("axis", 1)])
            .gives(vec![array(&[2, 1], vec![2i64, 5])]),
        node(
            "Unique",
            vec![texts(&[4], &["b", "a", "b", "c"])],
            vec![int("sorted", 0)],
        )
        .gives(vec![
            texts(&[3], &["b", "a", "c"]),
            list(&[0i64, 1, 3]),
            list(&[0i64, 1, 0, 2]),
            list(&[2i64, 1, 1]),
        ]),
        node(
            "Unique",
            vec![array(&[2, 3], vec![2i64, 1, 2, 4, 3, 4])],
            vec![int("axis", 1)],
        )
        .gives(vec![
            array(&[2, 2], vec![1i64, 2, 3, 4]),
            list(&[1i64, 0]),
            list(&[1i64, 0, 1]),
            list(&[1i64, 2]),
        ]),
        node("Trilu", vec![six(), HostTensor::scalar(-1i64)], vec![int("upper", 0)])
            .gives(vec![array(&[2, 3], vec![0i64, 0, 0, 4, 0, 0])]),
        node(
            "OneHot",
            vec![list(&[-1i64, 3, 0]), HostTensor::scalar(2i64), list(&[0u8, 9])],
            vec![int("axis", 0)],
        )
        .gives(vec![array(&[2, 3], vec![0u8, 0, 9, 9, 0, 0])]),
    ]);
}

#[test]
fn numbers_are_made_and_summed_up() {
    let of_three = |[a, b, c]: [f32; 3]| vec![HostTensor::scalar(a), HostTensor::scalar(b), HostTensor::scalar(c)];
    check(vec![
        node("Range", of_three([1.0, 2.0, 0.25]), vec![]).gives(vec![list(&[1f32, 1.25, 1.5, 1.75])]),
        node(
            "Range",
            vec![
                HostTensor::scalar(7u8),
                HostTensor::scalar(2u8),
                HostTensor::scalar(1u8),
            ],
            vec![],
        )
        .gives(vec![list::<u8>(&[])]),
        node(
            "Range",
            vec![
                HostTensor::scalar(3i16),
                HostTensor::scalar(-4i16),
                HostTensor::scalar(-3i16),
            ],
            vec![],
        )
        .gives(vec![list(&[3i16, 0, -3])]),
        node(
            "EyeLike",
            vec![array(&[2, 2], vec![0f32; 4])],
            vec![int("dtype", 9), int("k", -1)],
        )
        .gives(vec![array(&[2, 2], vec![false, false, true, false])]),
        node("ConstantOfShape", vec![list(&[1i64, 2])], vec![tensor("value", -3)])
            .gives(vec![array(&[1, 2], vec![-3i64; 2])]),
        node("ConstantOfShape", vec![list::<i64>(&[])], vec![]).gives(vec![HostTensor::scalar(0f32)]),
        node("Constant", vec![], vec![list_of_texts("value_strings", &["a", ""])]).gives(vec![texts(&[2], &["a", ""])]),
        node(
            "CumSum",
            vec![list(&[200u8, 100, 1]), HostTensor::scalar(0i32)],
            vec![int("reverse", 1)],
        )
        .gives(vec![list(&[45u8, 101, 1])]),
        node(
            "CumSum",
            vec![six(), HostTensor::scalar(-2i64)],
            vec![int("exclusive", 1)],
        )
        .gives(vec![array(&[2, 3], vec![0i64, 0, 0, 1, 2, 3])]),
        node("CumProd", vec![list(&[2i32, 3, 4]), HostTensor::scalar(0i64)], vec![])
            .of_opset(26)
            .gives(vec![list(&[2i32, 6, 24])]),
    ]);
}
