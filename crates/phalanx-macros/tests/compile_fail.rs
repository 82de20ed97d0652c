//! Structs that have no words, and sums that are not defined, do not compile, and the errors say what is
//! supported.

#[test]
fn unsupported_types_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
