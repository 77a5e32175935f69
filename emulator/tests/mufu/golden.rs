//! Single operands: the golden file, the golden vectors of `specs/kernel-recipes.md` 2.4, special cases.

use crate::data;
use emulator::mufu::{self, Function, MufuTables, SineArgument};

fn model(function: Function, x: u32) -> Option<u32> {
    let tables = MufuTables::g80();
    Some(match function {
        Function::Rcp => mufu::rcp(tables, x),
        Function::Rsq => mufu::rsq(tables, x),
        Function::Ex2 => mufu::ex2(tables, x),
        Function::Lg2 => mufu::lg2(tables, x),
        // The argument path of the golden file.
        Function::Sin => mufu::sin(tables, SineArgument::FixedPoint, x).expect("the built-in profile has a sine"),
        Function::Cos => mufu::cos(tables, SineArgument::FixedPoint, x).expect("the built-in profile has a sine"),
        _ => return None,
    })
}

#[test]
fn every_golden_row_of_a_modelled_function_agrees() {
    let rows = data::golden();
    assert_eq!(rows.len(), 1030);
    for row in rows {
        for (function, expected) in row.results {
            match model(function, row.x) {
                Some(bits) => assert_eq!(bits, expected, "{function}({:08x})", row.x),
                None => assert!(function.model().is_err(), "{function} has a model that is not tested"),
            }
        }
    }
}

const VECTORS: [(Function, &str); 4] = [
    (
        Function::Rcp,
        "3f800001->3f7ffffe 3f8ccccd->3f68ba2e 3fc00000->3f2aaaab 3fffffff->3f000001 40490fdb->3ea2f983 \
         42c80000->3c23d70a 3dcccccd->41200000 7f000000->00000000 00000000->7f800000 80000000->ff800000 \
         7f800000->00000000 ff800000->80000000 00000001->7f800000 807fffff->ff800000 7f800001->7fffffff",
    ),
    (
        Function::Rsq,
        "3f800001->3f7ffffe 3fc00000->3f5105eb 3fffffff->3f3504f4 40000000->3f3504f2 40400000->3f13cd3a \
         358637bd->447a0000 42f60000->3db8a975 3c23d70a->41200000 00000000->7f800000 80000000->ff800000 \
         bf800000->7fffffff 7f800000->00000000 ff800000->7fffffff 40800000->3f000000 ffffffff->7fffffff",
    ),
    (
        Function::Ex2,
        "3d7bfe87->3f859394 3f000000->3fb504f3 3f6bfe04->3ff2802a bda01000->3f728025 bf000001->3f3504f2 \
         c0a00001->3cfffffa c2fbfffe->00800058 33800000->3f800000 b3800000->3f800000 bd9c71c0->3f72cc37 \
         ff800000->00000000 7f800000->7f800000 7fc00000->7fffffff c2fc0000->00800000 c2fd0000->00000000 \
         43000000->7f800000 c3000000->00000000 80000001->3f800000",
    ),
    (
        Function::Lg2,
        "3f800001->3495f600 3fc00000->3f15c01b 40400000->3fcae00d 3f000001->bf7ffffb 42c80000->40d49a78 \
         3f7fffff->b24b4000 3f800000->00000000 00000000->ff800000 807fffff->ff800000 80800000->7fffffff \
         7f800000->7f800000 ff800000->7fffffff 7fffffff->7fffffff",
    ),
];

#[test]
fn golden_vectors_and_specials_agree() {
    let hex = |word: &str| u32::from_str_radix(word, 16).expect("hex");
    for (function, text) in VECTORS {
        for pair in text.split_ascii_whitespace() {
            let (x, y) = pair.split_once("->").expect("x->y");
            assert_eq!(model(function, hex(x)), Some(hex(y)), "{function} {pair}");
        }
    }
}

/// The published exp2f(0.06152203306555748).
#[test]
fn a_published_exponential_agrees() {
    let x = 0.061_522_033_f32;
    assert_eq!(f32::from_bits(mufu::ex2(MufuTables::g80(), x.to_bits())), 1.043_566_2);
}

#[test]
fn functions_without_a_model_name_the_missing_probe() {
    for function in [Function::Sqrt, Function::Tanh] {
        let message = function.model().expect_err("no model").to_string();
        assert!(message.contains(function.name()) && message.contains("a dump of"), "{message}");
    }
}
