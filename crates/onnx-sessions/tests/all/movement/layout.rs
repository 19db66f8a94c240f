//! Operators on extents, axes, parts and margins.

use half::f16;
use lessen_onnx::HostTensor;

use super::{array, check, list, node, six, text, texts};
use crate::builder::{int, ints};

#[test]
fn extents_change_and_elements_stay() {
    check(vec![
        node(
            "Shape",
            vec![array(&[2, 3, 4], vec![true; 24])],
            vec![int("start", -2), int("end", 9)],
        )
        .gives(vec![list(&[3i64, 4])]),
        node("Size", vec![texts(&[2, 1], &["a", "b"])], vec![]).gives(vec![HostTensor::scalar(2i64)]),
        node("Reshape", vec![six(), list(&[0i64, 1, -1])], vec![])
            .gives(vec![array(&[2, 1, 3], vec![1i64, 2, 3, 4, 5, 6])]),
        node(
            "Reshape",
            vec![array(&[0, 3], Vec::<u8>::new()), list(&[5i64, 0])],
            vec![int("allowzero", 1)],
        )
        .gives(vec![array(&[5, 0], Vec::<u8>::new())]),
        node("Flatten", vec![texts(&[1, 2, 1], &["a", "b"])], vec![int("axis", -1)])
            .gives(vec![texts(&[2, 1], &["a", "b"])]),
        node("Squeeze", vec![array(&[1, 2, 1], vec![1i8, 2])], vec![]).gives(vec![list(&[1i8, 2])]),
        node(
            "Squeeze",
            vec![array(&[1, 2, 1], vec![1i8, 2])],
            vec![ints("axes", &[-1])],
        )
        .of_opset(11)
        .gives(vec![array(&[1, 2], vec![1i8, 2])]),
        node("Unsqueeze", vec![list(&[true, false]), list(&[2i64, -3])], vec![])
            .gives(vec![array(&[1, 2, 1], vec![true, false])]),
    ]);
}

#[test]
fn axes_are_ordered_and_repeated() {
    check(vec![
        node("Transpose", vec![texts(&[2, 2], &["a", "b", "c", "d"])], vec![])
            .gives(vec![texts(&[2, 2], &["a", "c", "b", "d"])]),
        node(
            "Expand",
            vec![array(&[2, 1], vec![1u8, 2]), list(&[3i64, 1, 2])],
            vec![],
        )
        .gives(vec![array(&[3, 2, 2], [1u8, 1, 2, 2].repeat(3))]),
        node(
            "Tile",
            vec![array(&[1, 2], vec![true, false]), list(&[2i64, 2])],
            vec![],
        )
        .gives(vec![array(&[2, 4], [true, false].repeat(4))]),
        node(
            "DepthToSpace",
            vec![array(&[1, 4, 1, 2], (0..8i32).collect())],
            vec![int("blocksize", 2)],
        )
        .gives(vec![array(&[1, 1, 2, 4], vec![0i32, 2, 1, 3, 4, 6, 5, 7])]),
        node(
            "SpaceToDepth",
            vec![array(&[1, 1, 2, 4], (0..8u16).collect())],
            vec![int("blocksize", 2)],
        )
        .gives(vec![array(&[1, 4, 1, 2], vec![0u16, 2, 1, 3, 4, 6, 5, 7])]),
        node(
            "ReverseSequence",
            vec![six(), list(&[3i64, 2])],
            vec![int("batch_axis", 0), int("time_axis", 1)],
        )
        .gives(vec![array(&[2, 3], vec![3i64, 2, 1, 5, 4, 6])]),
    ]);
}

#[test]
fn arrays_are_cut_and_joined() {
    let whole = [i64::MAX, i64::MIN];
    let letters = || texts(&[2, 3], &["a", "b", "c", "d", "e", "f"]);
    check(vec![
        node(
            "Slice",
            vec![
                six(),
                list(&whole[..1]),
                list(&whole[1..]),
                list(&[-1i64]),
                list(&[-2i64]),
            ],
            vec![],
        )
        .gives(vec![array(&[2, 2], vec![3i64, 1, 6, 4])]),
        node(
            "Slice",
            vec![letters(), list(&[-2i32]), list(&[9i32]), list(&[1i32])],
            vec![],
        )
        .gives(vec![texts(&[2, 2], &["b", "c", "e", "f"])]),
        node(
            "Slice",
            vec![six()],
            vec![ints("starts", &[1, 1]), ints("ends", &[2, -1])],
        )
        .of_opset(9)
        .gives(vec![array(&[1, 1], vec![5i64])]),
        node(
            "Split",
            vec![list(&[1u8, 2, 3, 4, 5, 6, 7])],
            vec![int("num_outputs", 3)],
        )
        .gives(vec![list(&[1u8, 2, 3]), list(&[4u8, 5, 6]), list(&[7u8])]),
        node("Split", vec![six(), list(&[0i64, 3])], vec![int("axis", 1)])
            .gives(vec![array(&[2, 0], Vec::<i64>::new()), six()]),
        node(
            "Concat",
            vec![six(), array(&[2, 1], vec![7i64, 8])],
            vec![int("axis", -1)],
        )
        .gives(vec![array(&[2, 4], vec![1i64, 2, 3, 7, 4, 5, 6, 8])]),
        node(
            "Concat",
            vec![list(&[f16::ONE]), list(&[f16::MAX])],
            vec![int("axis", 0)],
        )
        .gives(vec![list(&[f16::ONE, f16::MAX])]),
    ]);
}

#[test]
fn margins_are_added_and_cut() {
    let margins =
        |mode: &str, pads: [i64; 2]| node("Pad", vec![list(&[1i32, 2, 3]), list(&pads)], vec![text("mode", mode)]);
    check(vec![
        margins("reflect", [5, 1]).gives(vec![list(&[2i32, 1, 2, 3, 2, 1, 2, 3, 2])]),
        margins("edge", [1, 2]).gives(vec![list(&[1i32, 1, 2, 3, 3, 3])]),
        margins("wrap", [4, 1]).gives(vec![list(&[3i32, 1, 2, 3, 1, 2, 3, 1])]),
        margins("constant", [-1, 1]).gives(vec![list(&[2i32, 3, 0])]),
        margins("reflect", [-1, 1]).gives(vec![list(&[2i32, 3, 2])]),
        node(
            "Pad",
            vec![
                texts(&[1, 1], &["a"]),
                list(&[1i64, 0]),
                texts(&[], &["-"]),
                list(&[-1i64]),
            ],
            vec![],
        )
        .gives(vec![texts(&[1, 2], &["-", "a"])]),
        node("CenterCropPad", vec![six(), list(&[3i64, 2])], vec![])
            .gives(vec![array(&[3, 2], vec![1i64, 2, 4, 5, 0, 0])]),
    ]);
}
